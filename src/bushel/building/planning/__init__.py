"""Planning: where each sample goes, decided before payload is read."""
