"""Scoring: many files in, one output shard after the other, each committed once, on processes or on Ray."""
