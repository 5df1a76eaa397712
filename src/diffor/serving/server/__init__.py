"""Serving a fitted model over HTTP: an API for programs, and a page for people.

`columns` says what a model reads of a row, `rows` checks what is sent against it, `pictures` does so for images,
`requests` reads bodies, `desk` does so beside the event loop, `batching` joins requests that come together, `answers`
asks the model, `description` tells about it. `loaded` keeps all that belongs to one model, and lets another take over.
`metrics` counts, `drift` compares with training, `logs` writes down. `connections` guards places, `gates` keep out what
is too large, has no token or comes from a stranger's page, `running` begins and ends. `application` joins all of it.
The files of the page are in `page`.
"""
