"""Tables that need not fit into memory: sharded Parquet files, surveyed once and streamed in shuffled batches."""
