"""Tables: CSV, JSON lines, Parquet and Arrow, one sample per row."""
