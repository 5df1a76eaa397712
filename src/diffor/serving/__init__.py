"""A fitted model at work: over HTTP for programs and people, and over many files on processes or on Ray.

It may import estimators, reports, export and everything below."""
