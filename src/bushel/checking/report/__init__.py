"""Findings, and how people and programs read them."""
