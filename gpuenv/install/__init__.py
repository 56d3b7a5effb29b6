"""Installing CuPy into a target environment as one transaction: planned, proven, kept, or put back as it was."""
