"""What adapters and training ask of the reader. Needs no framework."""
