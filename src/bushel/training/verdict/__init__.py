"""Whether the model learned, and why not."""
