"""Tasks: what one worker does alone."""
