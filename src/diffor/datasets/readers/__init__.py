"""What loaders share: finding files, checking them line by line, and reading large ones in bounded memory.

It may import core and everything below."""
