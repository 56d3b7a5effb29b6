"""What runs in the target environment: Python 3.8 or newer, the standard library, NumPy and CuPy 11.3 or newer."""
