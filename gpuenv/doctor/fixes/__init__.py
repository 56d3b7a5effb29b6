"""Fixes of findings: commands for the machine at hand."""
