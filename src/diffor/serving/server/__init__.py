"""Serving a fitted model over HTTP: an API for programs, and a page for people.

`columns` says what a model reads of a row, `rows` checks what is sent against it, `pictures` does so for images,
`batching` joins requests that come together, `answers` asks the model, `trajectory` follows one row along the chain,
`description` tells about the model, `gates` keeps out what is too large or has no token, `application` joins all of it.
The files of the page are in `page`.
"""
