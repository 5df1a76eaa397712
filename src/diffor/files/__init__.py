"""Reading and writing: tables as CSV and Parquet, whole or as a stream, TOML files, and where a figure came from.

It imports nothing else of the package; whatever is written is whole or absent."""
