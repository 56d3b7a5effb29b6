"""The outputs that people paste, by the names that they are told by."""

from __future__ import annotations

SHOW_CONFIG, SMI, SMI_Q, SMI_L = "cupy.show_config()", "nvidia-smi", "nvidia-smi -q", "nvidia-smi -L"
SMI_QUERY = "nvidia-smi --query-gpu"
PIP, PIP_SHOW, CONDA, CONDA_INFO, PIXI = "pip list", "pip show", "conda list", "conda info", "pixi list"
COLLECT_ENV, NUMBA, XFORMERS, TENSORFLOW = "collect_env", "numba -s", "xformers.info", "TensorFlow"
GPUSTAT = "gpustat"
REPORT = "a report of another program"
NVCC, DEVICE_QUERY = "nvcc --version", "deviceQuery"
LDD, UNAME, OS_RELEASE, SYSTEM = "ldd --version", "uname -a", "/etc/os-release", "the system's description"
DRIVER_FILE, LSMOD, LSPCI = "/proc/driver/nvidia/version", "lsmod", "lspci"
INXI, UBUNTU_DRIVERS, DKMS, MODINFO = "inxi -G", "ubuntu-drivers devices", "dkms status", "modinfo nvidia"
MODPROBE, MOKUTIL, DMESG = "modprobe", "mokutil --sb-state", "dmesg"
DPKG, RPM, PACMAN, MODULES = "dpkg -l", "rpm -qa", "pacman -Q", "files of /lib/modules"
CONTAINER_CLI, DOCKER = "nvidia-container-cli info", "docker info"
ENV, PYTHON = "environment", "python --version"

# What can be pasted, as it is told to people.
OUTPUTS = (
    *(SMI, SMI_Q, SMI_L, SMI_QUERY, SHOW_CONFIG, PIP, "pip freeze", PIP_SHOW, CONDA, CONDA_INFO, PIXI),
    *(
        COLLECT_ENV,
        NUMBA,
        XFORMERS,
        GPUSTAT,
        NVCC,
        DEVICE_QUERY,
        UNAME,
        LDD,
        OS_RELEASE,
        DRIVER_FILE,
        LSPCI,
        INXI,
        UBUNTU_DRIVERS,
        LSMOD,
        MODINFO,
        DKMS,
        MOKUTIL,
        DMESG,
        DPKG,
        RPM,
        PACMAN,
        DOCKER,
        "env",
    ),
)

# The most trusted first: who asks the driver or the system itself, then who repeats what another program said.
TRUST = (
    *(SMI, SMI_Q, SMI_QUERY, SHOW_CONFIG, DRIVER_FILE, CONTAINER_CLI, NVCC, UNAME, LDD, OS_RELEASE, PYTHON, SMI_L),
    *(
        CONDA,
        LSPCI,
        LSMOD,
        INXI,
        MODINFO,
        MODPROBE,
        DKMS,
        MOKUTIL,
        UBUNTU_DRIVERS,
        DMESG,
        DPKG,
        RPM,
        PACMAN,
        MODULES,
        NUMBA,
        COLLECT_ENV,
        CONDA_INFO,
        DEVICE_QUERY,
        DOCKER,
        SYSTEM,
        XFORMERS,
        GPUSTAT,
    ),
    TENSORFLOW,
    *(PIP, PIP_SHOW, PIXI, REPORT, ENV),
)
# Lists that no CUDA_VISIBLE_DEVICES shortens.
ALL_GPUS = (SMI_Q, SMI, SMI_QUERY, SMI_L, CONTAINER_CLI)
GPU_TRUST = (*ALL_GPUS, COLLECT_ENV, SHOW_CONFIG, GPUSTAT, DEVICE_QUERY, NUMBA, TENSORFLOW, XFORMERS, REPORT)
# Lists of the devices that CUDA shows to the program that asks.
VISIBLE_GPUS = (SHOW_CONFIG, NUMBA, DEVICE_QUERY)
DRIVEN_GPUS = (*ALL_GPUS, *VISIBLE_GPUS, GPUSTAT, TENSORFLOW)  # what nobody lists without the driver
