"""Text: files in class folders, or one file with one sample per line."""
