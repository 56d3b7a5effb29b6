"""Judging an image from its manifest and configuration, and a Dockerfile from its text."""
