"""The smoke tests: proof on the GPU, with numbers, each in a child of its own that may crash or hang."""
