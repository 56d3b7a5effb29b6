"""Judges Dockerfiles, compose files and manifests."""
