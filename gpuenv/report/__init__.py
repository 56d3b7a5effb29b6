"""One report, many renderers: all say the same."""
