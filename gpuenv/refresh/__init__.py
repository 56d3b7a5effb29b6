"""Brings the matrix up to date: asks the package index what is new, downloads it, measures it, and writes the rows."""
