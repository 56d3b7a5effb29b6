"""Machines for the checks that share their cause with others and that no doctor test names by code."""

from __future__ import annotations

# By check code: the name of a profile, a scenario or an unseen machine.
MACHINE_OF_CHECK = {
    "DRV101": "fake-smi",
    "DRV102": "sources-disagree: an nvidia-smi of another driver",
    "DRV109": "libcuda-stub",
    "GPU205": "v100-prohibited",
    "GPU206": "a100-row-failed",
    "GPU207": "h100-fabric-link-down",
    "GPU208": "l4-pair-first-full",
    "GPU210": "gpu-throttled: too hot",
    "GPU213": "a100-silent-faults",
    "GPU214": "a100-silent-faults",
    "GPU215": "a100-silent-faults",
    "GPU216": "vgpu-a10-unlicensed",
    "GPU217": "a100-silent-faults",
    "REQ801": "requirement-not-met: a newer GPU",
    "TEG902": "jetson-tegra: CUDA wheels for servers",
    "WHL501": "platform-wheel-missing: a POWER9 server",
    "WHL507": "python-unsupported: PYTHONPATH of Python 3.6",
    "WHL509": "rocm-on-nvidia",
    "WHL518": "numpy-incompatible: a script named numpy.py",
    "WHL519": "cupy-shadowed: a script named cuda.py",
}


def expected_checks(name: str) -> set[str]:
    """The check codes that must be among the findings of the machine."""
    return {code for code, machine in MACHINE_OF_CHECK.items() if machine == name}
