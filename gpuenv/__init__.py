"""gpuenv: a doctor for CuPy environments on NVIDIA GPUs."""

__version__ = "0.1.0"
