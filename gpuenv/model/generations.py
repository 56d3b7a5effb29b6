"""GPU generations by compute capability: NVIDIA's own names, for every part that has to name one.

NVIDIA, CUDA GPU Compute Capability (developer.nvidia.com/cuda-gpus) and its page of legacy GPUs, read November 2026.
"""

from __future__ import annotations

GENERATIONS = {
    "fermi": ("2.0", "2.1"),
    "kepler": ("3.0", "3.2", "3.5", "3.7"),
    "maxwell": ("5.0", "5.2", "5.3"),
    "pascal": ("6.0", "6.1", "6.2"),
    "volta": ("7.0", "7.2"),
    "turing": ("7.5",),
    "ampere": ("8.0", "8.6", "8.7"),
    "ada": ("8.9",),
    "hopper": ("9.0",),
    "blackwell": ("10.0", "10.1", "10.3", "11.0", "12.0", "12.1"),
}


def generation_of(capability: str | None) -> str | None:
    """The generation of a compute capability such as ``9.0``; None where no document names one."""
    return next((name for name, capabilities in GENERATIONS.items() if capability in capabilities), None)
