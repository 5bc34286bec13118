"""Sound files, whole or in clips."""
