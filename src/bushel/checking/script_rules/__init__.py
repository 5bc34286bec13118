"""PIP and KER: rules about a script that was read."""
