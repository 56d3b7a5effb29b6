"""Container images: what they require, how they are built and judged."""
