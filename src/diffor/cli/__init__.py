"""The commands of the command line: one module each, with ``add`` for its arguments and ``run`` for its work.

Only ``run`` and what it calls import the heavy packages, so that ``diffor --help`` answers at once.
"""
