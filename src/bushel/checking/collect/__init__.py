"""One pass over the data: what rules need to know."""
