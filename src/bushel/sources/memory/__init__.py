"""Samples that a program already has: arrays, iterables, generators."""
