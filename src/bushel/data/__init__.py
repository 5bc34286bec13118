"""What a dataset is made of in memory: schema, columns, splits and labels."""
