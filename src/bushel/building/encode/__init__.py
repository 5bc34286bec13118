"""Encoding: samples to transformed, checked, framed records."""
