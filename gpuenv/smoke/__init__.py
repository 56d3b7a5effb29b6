"""The smoke tests compare numbers computed on the GPU, each in a child of its own that may crash or hang."""
