"""Talks to a container engine: Docker or Podman."""
