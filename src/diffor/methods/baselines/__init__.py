"""What DiffoR is compared with: one file for each kind of predicted thing.

It may import core and everything below."""
