"""The rules: one rule is one function with its own page."""
