"""Tables that need not fit into memory: Parquet files, surveyed once and streamed in shuffled batches."""
