"""Machines that show a check which shares its cause with others and which no test of the doctor names by its code."""

from __future__ import annotations

# A code, and what a machine, a scenario or an unseen machine is called.
SHOWN_BY = {
    "DRV101": "fake-smi",
    "DRV102": "sources-disagree: an nvidia-smi of another driver",
    "DRV109": "libcuda-stub",
    "GPU205": "v100-prohibited",
    "GPU206": "a100-row-failed",
    "GPU207": "h100-fabric-link-down",
    "GPU208": "l4-pair-first-full",
    "GPU210": "gpu-throttled: too hot",
    "TEG902": "jetson-tegra: CUDA wheels for servers",
    "WHL501": "platform-wheel-missing: a POWER9 server",
    "WHL507": "python-unsupported: PYTHONPATH of Python 3.6",
    "WHL509": "rocm-on-nvidia",
    "WHL518": "numpy-incompatible: a script named numpy.py",
    "WHL519": "cupy-shadowed: a script named cuda.py",
}


def shown_by(name: str) -> set[str]:
    """The codes that must be among the findings of a machine of this name."""
    return {code for code, machine in SHOWN_BY.items() if machine == name}
