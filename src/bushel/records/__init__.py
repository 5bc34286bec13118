"""TFRecord files: their records, their index, their schema and the manifest of a dataset."""
