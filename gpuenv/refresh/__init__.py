"""Updates the matrix: finds new releases on the package index, downloads and measures them, and writes their rows."""
