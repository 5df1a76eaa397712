"""The paper's experiments: run files, what reads their lines, and their figures.

It may import bench and everything below."""
