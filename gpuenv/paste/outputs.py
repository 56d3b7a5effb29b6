"""The outputs that are recognised in a paste, by the names that messages use."""

from __future__ import annotations

SHOW_CONFIG, COLLECT_ENV = "cupy.show_config()", "collect_env"
SMI, SMI_Q, SMI_L, SMI_QUERY = "nvidia-smi", "nvidia-smi -q", "nvidia-smi -L", "nvidia-smi --query-gpu"
PIP, CONDA, CONDA_INFO = "pip list", "conda list", "conda info"
DRIVER_FILE, LSPCI, DMESG, DOCKER, NVCC = (
    "/proc/driver/nvidia/version",
    "lspci",
    "dmesg",
    "docker info",
    "nvcc --version",
)
UNAME, LDD, OS_RELEASE, ENV, PYTHON = "uname -a", "ldd --version", "/etc/os-release", "environment", "python --version"

# What can be pasted, as messages list it.
OUTPUTS = (
    *(SMI, SMI_Q, SMI_L, SMI_QUERY, SHOW_CONFIG, PIP, "pip freeze", CONDA, CONDA_INFO, COLLECT_ENV, NVCC, PYTHON),
    *(UNAME, LDD, OS_RELEASE, DRIVER_FILE, LSPCI, DMESG, DOCKER, "env"),
)

# The most trusted first: programs that query the driver or the system, then programs that repeat the output of others.
TRUST = (
    *(SMI, SMI_Q, SMI_QUERY, SHOW_CONFIG, DRIVER_FILE, NVCC, UNAME, LDD, OS_RELEASE, PYTHON, SMI_L, CONDA, LSPCI),
    *(DMESG, COLLECT_ENV, CONDA_INFO, DOCKER, PIP, ENV),
)
ALL_GPUS = (SMI_Q, SMI, SMI_QUERY, SMI_L)  # lists that CUDA_VISIBLE_DEVICES does not shorten
GPU_TRUST = (*ALL_GPUS, COLLECT_ENV, SHOW_CONFIG)
