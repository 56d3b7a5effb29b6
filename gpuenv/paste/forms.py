"""The lines of the outputs that people paste: who prints them, and the fact that each states."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuenv.model.record import dataclass

SHOW_CONFIG, SMI, SMI_Q, SMI_L = "cupy.show_config()", "nvidia-smi", "nvidia-smi -q", "nvidia-smi -L"
PIP, CONDA, COLLECT_ENV, NUMBA = "pip list", "conda list", "collect_env", "numba -s"
NVCC, LDD, UNAME, OS_RELEASE, ENV = "nvcc --version", "ldd --version", "uname -a", "/etc/os-release", "environment"
PYTHON = "python --version"
# What can be pasted, as it is told to people.
OUTPUTS = (SMI, SMI_Q, SMI_L, SHOW_CONFIG, PIP, "pip freeze", CONDA, COLLECT_ENV, NUMBA, NVCC, UNAME, LDD, OS_RELEASE)


def level(number: str) -> str:
    """``12040`` is CUDA 12.4."""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


@dataclass(frozen=True, slots=True)
class Form:
    """A line of an output: its last group is the value of the fact."""

    form: str
    fact: str
    pattern: re.Pattern[str]
    read: Callable[[str], str] = str


def _line(form: str, fact: str, pattern: str, read: Callable[[str], str] = str) -> Form:
    return Form(form, fact, re.compile(pattern), read)


_VERSION = r"(\d[\w.+]*)"
_CUDA_VARIABLES = r"(?:CUDA_\w+|CUPY_\w+|NVIDIA_\w+|LD_LIBRARY_PATH|LD_PRELOAD|CONDA_PREFIX|NUMBA_\w+)"
# How a failed import, ctypes and cuda-pathfinder say that a library is not there; a status of one that is, is not it.
_NOT_FOUND = (
    r"\w*Error\(['\"](?=.*(?:cannot open shared object|[Nn]o such file|[Ff]ailure finding|DLL load failed|"
    r"[Cc]ould not find module))(.*?)(?:\\n)?['\"]\)"
)

LINES = (
    # cupy.show_config(): cupyx/_runtime.py of CuPy 11 to 14.
    _line(SHOW_CONFIG, "cupy-release", rf"^CuPy Version\s*: {_VERSION}"),
    _line(SHOW_CONFIG, "platform", r"^OS\s*: (\S+)$"),
    _line(SHOW_CONFIG, "python", r"^Python Version\s*: (\d+\.\d+(?:\.\d+)?t?)"),
    _line(SHOW_CONFIG, "numpy", rf"^NumPy Version\s*: {_VERSION}"),
    _line(SHOW_CONFIG, "cuda-path", r"^CUDA Root\s*: (?!None)(\S.*)$"),
    _line(SHOW_CONFIG, "cupy-cuda", r"^CUDA Build Version\s*: (\d{4,5})\b", level),
    _line(SHOW_CONFIG, "driver-cuda", r"^CUDA Driver Version\s*: (\d{4,5})\b", level),
    # cudaDriverGetVersion: "If no driver is installed, then 0 is returned" (CUDA Runtime API, Version Management).
    _line(SHOW_CONFIG, "driver-none", r"^CUDA Driver Version\s*: (0)$"),
    *(
        _line(SHOW_CONFIG, f"missing.{name.lower()}", rf"^{name} Version\s*: {_NOT_FOUND}")
        for name in ("NVRTC", "cuBLAS", "cuFFT", "cuRAND", "cuSOLVER", "cuSPARSE")
    ),
    _line(SHOW_CONFIG, "nvrtc", r"^NVRTC Version\s*: \((\d+, \d+)\)", lambda told: told.replace(", ", ".")),
    # nvidia-smi -q; the banner of the plain table is read by the probe's own reader.
    _line(SMI_Q, "driver", r"^\s*Driver Version\s+: (\d{3}\.\d[\d.]*)\s*$"),
    _line(SMI_Q, "driver-cuda", r"^\s*CUDA(?: UMD)? Version\s+: (\d{1,2}\.\d)\s*$"),
    # torch/utils/collect_env.py
    _line(COLLECT_ENV, "package.torch", rf"^PyTorch version: {_VERSION}"),
    _line(COLLECT_ENV, "distribution", r"^OS: (.+?)(?: \((?:x86_64|aarch64)\))?$"),
    _line(COLLECT_ENV, "arch", r"^OS: .*\((x86_64|aarch64)\)$"),
    _line(COLLECT_ENV, "libc", r"^Libc version: ((?:glibc|musl)-[\d.]+)"),
    _line(COLLECT_ENV, "python", r"^Python version: (\d+\.\d+(?:\.\d+)?)"),
    _line(COLLECT_ENV, "platform", r"^Python platform: (\S+)$"),
    _line(COLLECT_ENV, "toolkit", r"^CUDA runtime version: (\d+\.\d+)"),
    _line(COLLECT_ENV, "driver", r"^Nvidia driver version: (\d{3}\.\d[\d.]*)"),
    # numba -s: numba/misc/numba_sysinfo.py
    _line(NUMBA, "os", r"^(?:OS Name|Platform Name)\s*: (Linux|Windows|Darwin)\b", str.lower),
    _line(NUMBA, "platform", r"^Platform Name\s*: (\S+-\S+)$"),
    _line(NUMBA, "arch", r"^Machine\s*: (x86_64|aarch64|AMD64|arm64)$", str.lower),
    _line(NUMBA, "libc", r"^libc Version\s*: (glibc \d[\d.]*)", lambda told: told.replace(" ", "-")),
    _line(NUMBA, "implementation", r"^Python Implementation\s*: (CPython|PyPy)$", str.lower),
    _line(NUMBA, "driver-cuda", r"^CUDA Driver Version\s*: (\d{1,2}\.\d)$"),
    _line(PYTHON, "python", r"^Python (\d+\.\d+\.\d+)\S*$"),
    _line(PYTHON, "python", r"^pip \d\S* from .+ \(python (\d+\.\d+)\)$"),
    _line(CONDA, "python", r"^python\s+(\d+\.\d+\.\d+)\s+\w+_\S+"),
    _line(NVCC, "toolkit", r"^Cuda compilation tools, release (\d+\.\d+)"),
    _line(LDD, "libc", r"^ldd \(.*\) (\d+\.\d+)$", lambda told: f"glibc-{told}"),
    _line(LDD, "libc", r"^ldd \(GNU libc\) (\d+\.\d+)", lambda told: f"glibc-{told}"),
    _line(UNAME, "kernel", r"^Linux \S+ (\d+\.\S+) .*#\d"),
    _line(UNAME, "os", r"^(Linux|Darwin) \S+ \d+\.\S+ ", str.lower),
    _line(UNAME, "arch", r"^Linux \S+ \d+\.\S+ .* (x86_64|aarch64)(?: |$)"),
    _line(OS_RELEASE, "distribution-id", r"^ID=\"?([\w.-]+)\"?$"),
    _line(OS_RELEASE, "distribution-release", r"^VERSION_ID=\"?([\w.-]+)\"?$"),
)
VARIABLE = re.compile(rf"^(?:export |set |\$ ?export )?({_CUDA_VARIABLES})=['\"]?([^'\"\s()]*)['\"]?$")
PLATFORM = re.compile(
    r"^(?P<os>Linux|Windows|macOS|Darwin)-(?P<kernel>[^-]+(?:-[\w.+~]+)*?)"
    r"(?:-(?P<arch>x86_64|aarch64|arm64|AMD64))?(?:-with-(?P<libc>(?:glibc|musl)[\d.]+).*|-SP\d)?$"
)
WSL = re.compile(r"microsoft-standard|-Microsoft|WSL2")
MUSL = re.compile(r"^musl libc \((x86_64|aarch64)\)")
MUSL_RELEASE = re.compile(r"^Version (\d+\.\d+)")
DEVICE = re.compile(r"^Device (\d+) (Name|Compute Capability|PCI Bus ID)\s*: (.+)$")
LISTED_GPU = re.compile(r"^(?:GPU models and configuration: )?GPU (\d+): (.+?)(?: \(UUID: (GPU-[\w-]+)\))?$")
NUMBA_GPU = re.compile(r"^id (\d+)\s+b?'([^']+)'")
NUMBA_CAPABILITY = re.compile(r"^[Cc]ompute [Cc]apability: (\d+\.\d+)$")
SMI_ROW = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
)
SMI_MEMORY = re.compile(r"\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*\S+\s+(Default|E\. Process|E\. Thread|Prohibited)")
SMI_MIG = re.compile(r"^\|[^|]*\|[^|]*\|\s*(Enabled|Disabled)\*?\s*\|$")
Q_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
Q_FIELD = re.compile(r"^\s+(Product Name|GPU UUID|Compute Mode|Total|Used|Current)\s+: (.+?)\s*$")
Q_SECTION = re.compile(r"^ {4}(\S[\w ]*?)\s*$")
PIP_HEAD = re.compile(r"^Package\s+Version(?:\s+.*)?$")
PIP_ROW = re.compile(r"^([A-Za-z][\w.-]*)\s+(\d[\w.!+-]*)(?:\s+\S.*)?$")
FROZEN = re.compile(r"^(?:\[pip3?\] )?([A-Za-z][\w.-]*)==(\d[\w.!+-]*)(?:\s|$)")
CONDA_HEAD = re.compile(r"^# packages in environment at |^#\s*Name\s+Version\s+Build")
CONDA_ROW = re.compile(r"^(?:\[conda\] )?([a-z_][\w.-]*)\s+(\d[\w.!+-]*)\s+(\S+)(?:\s+(\S+))?$")
