"""Models, their loss and their optimiser."""
