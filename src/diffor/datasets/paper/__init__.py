"""The paper's twelve benchmarks, read as their owners ship them.

It may import the readers, core and everything below."""
