"""The paper's experiments: run files, and what reads their lines."""
