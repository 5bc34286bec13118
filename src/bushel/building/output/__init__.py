"""Output: the folder or store that is written, the journal, and what is published."""
