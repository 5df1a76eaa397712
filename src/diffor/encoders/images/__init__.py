"""Images to features: what users pass as images, how they are decoded and cut, the networks, features in files.

It may import core and everything below."""
