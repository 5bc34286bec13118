"""Clips of video files."""
