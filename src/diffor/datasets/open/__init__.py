"""Data sets that come with a package, lie in a folder or are drawn from a known law.

It may import the readers, core and everything below."""
