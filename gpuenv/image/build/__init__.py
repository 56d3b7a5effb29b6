"""Builds a container image: choice, plan, Dockerfile, build, verification."""
