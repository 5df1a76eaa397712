"""Reading and writing: tables as CSV and Parquet, whole or as a stream, TOML files, and where a figure came from.

It imports nothing else of the package; whatever is written is whole or absent (``atomic``), what dead processes left is
removed (``claims``), and what one process at a time may do is guarded (``locks``)."""
