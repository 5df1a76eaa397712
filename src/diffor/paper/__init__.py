"""The paper's claims, measured: its theory, its arguments against other paradigms, its experiments, with their figures.

It may import bench and everything below; nothing that users predict with depends on it."""
