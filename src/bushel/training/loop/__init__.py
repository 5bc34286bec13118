"""The loop: steps, validation, checkpoints."""
