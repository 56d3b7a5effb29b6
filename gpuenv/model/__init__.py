"""The records every other part speaks in. Imports the standard library and packaging alone."""
