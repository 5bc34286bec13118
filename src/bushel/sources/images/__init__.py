"""Images in folders, tables and tiles."""
