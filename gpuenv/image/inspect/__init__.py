"""Judges an image by its manifest and configuration."""
