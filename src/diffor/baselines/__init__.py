"""What DiffoR is compared with: one file for each kind of predicted thing."""
