"""Renderers of the doctor's report, one per output format, and of the answers of other commands."""
