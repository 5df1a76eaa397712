"""Tables to features: what is read of columns, the shared encoder, and K networks side by side.

It may import core and everything below."""
