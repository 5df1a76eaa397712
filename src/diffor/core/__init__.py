"""What every other room speaks of: the contract of a method, its answer, and the scale of a target.

It may import metrics, errors and files, and nothing else of the package."""
