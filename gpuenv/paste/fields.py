"""Outputs of which each line states a fact: which output has the line, and how the fact stands in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuenv.model.nvidia import Nvml
from gpuenv.model.snapshot import operating_system
from gpuenv.model.strings import pattern
from gpuenv.model.versions import cuda_of_number
from gpuenv.paste import forms
from gpuenv.paste.records import Found
from gpuenv.probe.smi import parse_banner


@dataclass(frozen=True, slots=True)
class Form:
    """A line of an output; the value is given, or made of the last group of the pattern or of the whole line."""

    form: str
    fact: str
    text: str
    pattern: re.Pattern[str]
    value: str | Callable[[str], str] = str


def _line(form: str, fact: str, text: str, value: str | Callable[[str], str] = str) -> Form:
    return Form(form, fact, text, pattern(text), value)


def _field(form: str, fact: str, key: str, text: str, value: Callable[[str], str] = str) -> Form:
    """``key : value``, with any number of blanks around the colon."""
    return _line(form, fact, rf"(?:{key})\s*:\s*{text}", value)


def _complaint(text: str, code: Nvml) -> Form:
    """What nvidia-smi says where NVML has answered with this code."""
    return _line(forms.SMI, "nvml", text, str(int(code)))


def _first_sentence(told: str) -> str:
    """What an error says in its first line; the notation of a string has the line's end as two characters."""
    return re.sub(r"['\"]\).*$", "", told.split("\\n", 1)[0])


def _system(name: str) -> str:
    if re.match(r"(?:Microsoft )?Windows", name):
        return "windows"
    return "darwin" if re.match(r"[Mm]ac ?OS", name) else "linux"


_VERSION = r"(\d[\w.+]*)"
_DRIVER = r"(\d{3}\.\d[\d.]*)"
_PYTHON = r"(\d+\.\d+(?:\.\d+)?t?)(?![\w.])"
_SYSTEM = (
    r"(?!.*WSL)(?=(?:Ubuntu|Debian|CentOS|Red ?Hat|RHEL|Fedora|Rocky|Alma|Arch|Manjaro|SUSE|openSUSE|SLES|Linux|Pop"
    r"|Amazon|Oracle|NixOS|Alpine|Kali|Gentoo|Scientific|EndeavourOS|CachyOS|Microsoft Windows|Windows|[Mm]ac ?OS)\b)"
    r"(?!\w+-)(.+?)(?: \((?:x86_64|aarch64)\)| \(.* 64-bit\))?$"
)
# How a failed import, ctypes and cuda-pathfinder say that a library is not there; a status of one that is, is not it.
_NOT_FOUND = (
    r"\w*Error\(['\"](?=.*(?:cannot open shared object|[Nn]o such file|[Ff]ailure finding|DLL load failed|"
    r"[Cc]ould not find module))(.{1,400})"
)
_CONDA_PLATFORMS = {"64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}
_CONDA_SYSTEMS = {"linux": "linux", "win": "windows", "osx": "darwin"}
_NO_MODULE = r"(?:[\w `-]{1,40}: ?)?N?VIDIA-SMI has failed because it couldn't communicate"  # as people quote it, too
# What a failure is told by: of use where a machine is to be known, and no evidence of itself where it is explained.
FAILURES = frozenset(("nvml", "gpu-count", "cuda-init", "log"))

LINES = (
    # cupy.show_config(): cupyx/_runtime.py of CuPy 6 to 14.
    _field(forms.SHOW_CONFIG, "cupy-release", r"CuPy [Vv]ersion", _VERSION),
    _field(forms.SHOW_CONFIG, "platform", "OS", r"(\S+-\S+)$"),
    _field(forms.SHOW_CONFIG, "python", "Python Version", _PYTHON),
    _field(forms.SHOW_CONFIG, "numpy", "NumPy Version", _VERSION),
    _field(forms.SHOW_CONFIG, "cuda-path", "CUDA Root", r"(?!None$)(\S.*)$"),
    _field(forms.SHOW_CONFIG, "cupy-cuda", "CUDA Build Version", r"([1-9]\d{3,4})$", cuda_of_number),
    _field(forms.SHOW_CONFIG, "driver-cuda", "CUDA Driver Version", r"([1-9]\d{3,4})$", cuda_of_number),
    # cudaDriverGetVersion: "If no driver is installed, then 0 is returned" (CUDA Runtime API, Version Management).
    _field(forms.SHOW_CONFIG, "driver-none", "CUDA Driver Version", r"(0)$"),
    _field(
        forms.SHOW_CONFIG, "toolkit", "CUDA Runtime Version", r".* / ([1-9]\d{4}) \(locally installed\)", cuda_of_number
    ),
    _field(forms.SHOW_CONFIG, "cuda-init", "CUDA Runtime Version", r"CUDARuntimeError\('(cudaError\w+)"),
    *(
        _field(forms.SHOW_CONFIG, f"missing.{name.lower()}", f"{name} Version", _NOT_FOUND, _first_sentence)
        for name in ("NVRTC", "cuBLAS", "cuFFT", "cuRAND", "cuSOLVER", "cuSPARSE")
    ),
    _field(forms.SHOW_CONFIG, "nvrtc", "NVRTC Version", r"\((\d+, \d+)\)", lambda told: told.replace(", ", ".")),
    _field(forms.SHOW_CONFIG, "rocm", "CuPy Platform", r"AMD (ROCm)"),
    _field(forms.SHOW_CONFIG, "rocm", "CUDA Root", r"/opt/(rocm)\b"),
    _field(forms.SHOW_CONFIG, "rocm-release", "CUDA Root", r"/opt/rocm-(\d[\d.]*\d)\b"),
    # nvidia-smi -q; the banner of the plain table is read by the probe's own reader.
    _line(forms.SMI_Q, "driver", rf"(?:Driver|KMD) Version\s{{2,}}: {_DRIVER}$"),
    _line(forms.SMI_Q, "driver-cuda", r"CUDA(?: UMD)? Version\s{2,}: (\d{1,2}\.\d)$"),
    # nvidia-smi --version, up to R595 and from R610 on
    _line(forms.SMI, "driver", rf"(?:DRIVER|KMD) version\s{{2,}}: {_DRIVER}$"),
    _line(forms.SMI, "driver-cuda", r"CUDA(?: UMD)? version\s{2,}: (\d{1,2}\.\d)$"),
    # So the real program says where libcuda is not to be seen.
    _line(
        forms.SMI, "libcuda-none", r"\|?\s*NVIDIA-SMI\s+\d{3}\.\d[\d.]*\s.*CUDA(?: UMD)? Version\s*:\s*(N/A)(?=[\s|])"
    ),
    _complaint(_NO_MODULE, Nvml.DRIVER_NOT_LOADED),
    _complaint(r"Failed to (?:initialize|properly shut down) NVML: Driver Not Loaded", Nvml.DRIVER_NOT_LOADED),
    _complaint(r"Failed to initialize NVML: Driver/library version mismatch", Nvml.LIB_RM_VERSION_MISMATCH),
    _complaint(r"Failed to initialize NVML: Insufficient Permissions", Nvml.NO_PERMISSION),
    _complaint(r"Failed to initialize NVML: Unknown Error", Nvml.UNKNOWN),
    _complaint(r"NVIDIA-SMI couldn't find \S+ library", Nvml.LIBRARY_NOT_FOUND),
    _line(forms.SMI, "nvml", r"No devices were found$", "0"),
    _line(forms.SMI, "gpu-count", r"No devices were found$", "0"),
    # The line below the program's name, as people retype or cut it
    _line(forms.SMI, "driver", rf"\|?\s*(?:Driver|KMD) Version\s*:\s*{_DRIVER}[\s,;/|]+CUDA(?: UMD)? Version\b"),
    _line(
        forms.SMI,
        "driver-cuda",
        rf"\|?\s*(?:Driver|KMD) Version\s*:\s*{_DRIVER}[\s,;/|]+CUDA(?: UMD)? Version\s*:\s*(\d{{1,2}}\.\d)\b",
    ),
    _line(forms.SMI, "mig-none", r"\|?\s*No MIG devices found\s*\|?$", "yes"),
    _line(forms.SMI, "library-version", rf"NVML library version: {_DRIVER}$"),
    _line(forms.SMI, "os", r"\|.*(?:\bTCC/WDDM|\bDriver-Model)\s*\|", "windows"),
    _line(forms.DRIVER_FILE, "driver", rf"NVRM version: NVIDIA UNIX .*\bKernel Module(?: for \S+)?\s+{_DRIVER}\b"),
    _line(forms.DRIVER_FILE, "module", r"NVRM version: NVIDIA UNIX .*Kernel Module\b", "loaded"),
    _line(forms.DRIVER_FILE, "flavor", r"NVRM version: NVIDIA UNIX Open Kernel Module\b", "open"),
    _line(forms.DRIVER_FILE, "flavor", r"NVRM version: NVIDIA UNIX (?!Open)\S+\s+Kernel Module", "proprietary"),
    _line(forms.LSPCI, "nouveau", r"Kernel driver in use: (nouveau)$"),
    # The driver's nv.c (nvidia_check_version), as it folds its lines in each age
    _line(forms.DMESG, "nvml", r"NVRM: API mismatch: the client\b", str(int(Nvml.LIB_RM_VERSION_MISMATCH))),
    _line(forms.DMESG, "library-version", rf"NVRM: (?:API mismatch: the client )?has the version {_DRIVER}, but"),
    _line(forms.DMESG, "module-version", rf"NVRM: (?:this kernel module has )?the version {_DRIVER}\.\s+Please"),
    # torch/utils/collect_env.py, and vLLM's, which pads the colons
    _field(forms.COLLECT_ENV, "package.torch", r"PyTorch version", _VERSION),
    _field(forms.COLLECT_ENV, "distribution", "OS", _SYSTEM),
    _field(forms.COLLECT_ENV, "os", "OS", _SYSTEM, _system),
    _field(forms.COLLECT_ENV, "arch", "OS", r".*\((x86_64|aarch64)\)$"),
    _field(forms.COLLECT_ENV, "libc", "Libc version", r"((?:glibc|musl)-[\d.]+)"),
    _field(forms.COLLECT_ENV, "python", r"Python version", _PYTHON),
    _field(forms.COLLECT_ENV, "platform", r"Python platform", r"(\S+-\S+)$"),
    _field(forms.COLLECT_ENV, "toolkit", "CUDA runtime version", r"(\d+\.\d+)"),
    _field(forms.COLLECT_ENV, "driver", r"N(?:vidia|VIDIA) [Dd]river [Vv]ersion", _DRIVER),
    _line(forms.PYTHON, "python", r"Python (\d+\.\d+\.\d+)\S*(?: [(|].*)?$"),
    _line(
        forms.PYTHON,
        "python",
        r"Python (\d+\.\d+\.\d+)\S*(?: experimental)? free-threading build",
        lambda told: f"{told}t",
    ),
    _line(forms.PYTHON, "python", r"Using Python (\d+\.\d+\.\d+)\S* environment"),
    _line(forms.PYTHON, "os", r".*\[MSC v\.\d+ (?:32|64) bit \(\w+\)\]", "windows"),
    _line(forms.PYTHON, "arch", r".*\[MSC v\.\d+ 64 bit \((AMD64|ARM64)\)\]", str.lower),
    _line(forms.PYTHON, "os", r".*\[(?:GCC|Clang)\b[^\]]*\].* on (linux|darwin)$"),
    _line(forms.CONDA, "python", r"python\s+(\d+\.\d+\.\d+)\s+\w+_\S+"),
    _line(forms.CONDA, "python", r"python=(\d+\.\d+\.\d+)(?:=|$)"),
    # The Python of conda info is conda's own.
    _line(forms.CONDA_INFO, "driver-cuda", r"(?:virtual packages : )?__cuda=([1-9]\d*\.\d+)"),
    _line(forms.CONDA_INFO, "libc", r"(?:virtual packages : )?__glibc=(\d+\.\d+)", lambda told: f"glibc-{told}"),
    _line(forms.CONDA_INFO, "os", r"#? ?platform ?: (linux|win|osx)-\w+$", _CONDA_SYSTEMS.__getitem__),
    _line(forms.CONDA_INFO, "arch", r"#? ?platform ?: \w+-(64|aarch64|arm64)$", _CONDA_PLATFORMS.__getitem__),
    _line(forms.NVCC, "toolkit", r"Cuda compilation tools, release (\d+\.\d+)"),
    _line(forms.LDD, "libc", r"ldd \(.*\) (\d+\.\d+)$", lambda told: f"glibc-{told}"),
    _line(forms.UNAME, "kernel", r"Linux (?!version )\S+ (\d+\.\S+) .*#\d"),
    _line(forms.UNAME, "os", r"(Linux|Darwin) \S+ \d+\.\S+ ", str.lower),
    _line(forms.UNAME, "arch", r"(?:Linux|Darwin) \S+ \d+\.\S+ .*?\b(x86_64|aarch64|arm64)(?: |$)"),
    _line(forms.OS_RELEASE, "distribution-id", r"ID=\"?([\w.-]+)\"?$"),
    _line(forms.OS_RELEASE, "distribution-release", r"VERSION_ID=\"?([\w.-]+)\"?$"),
    _line(forms.OS_RELEASE, "distribution", r"PRETTY_NAME=\"?([^\"]+)\"?$"),
    _field(forms.DOCKER, "distribution", "Operating System", _SYSTEM),
    _field(forms.DOCKER, "os", "Operating System", _SYSTEM, _system),
    _line(forms.DOCKER, "arch", r"Architecture:\s+(x86[-_]64|aarch64|arm64)$", lambda told: told.replace("-", "_")),
    _line(forms.DOCKER, "runtimes", r"Runtimes: ([\w. -]+)$"),
    _line(forms.DOCKER, "default-runtime", r"Default Runtime: ([\w.-]+)$"),
    _line(forms.DOCKER, "kernel", r"Kernel Version: (\d+\.\S+)$"),
    _line(forms.DOCKER, "os", r"OSType: (linux|windows)$"),
)

# All of them at once: most lines of a long text are none.
_ANY = pattern("|".join(f"(?:{form.text})" for form in LINES))

MUSL, MUSL_RELEASE = pattern(r"musl libc \((x86_64|aarch64)\)"), pattern(r"Version (\d+\.\d+)")
_WSL = pattern(r"microsoft-standard|-Microsoft\b|WSL2")
_WINDOWS_ROW = pattern(r"\|?\s*\d+\s+\S.*\s(?:WDDM|TCC|MCDM)\s*\|\s*[0-9A-Fa-f]{4,8}:")
# platform.platform() of CPython 3.6 to 3.13: up to 3.7 the distribution stands behind "with".
_PLATFORM = pattern(
    r"(?P<os>Linux|Windows|macOS|Darwin)-(?P<kernel>[^-]+(?:-[\w.+~]+)*?)"
    r"(?:-(?P<arch>x86_64|aarch64|arm64|AMD64))?(?:-with-(?:(?P<libc>(?:glibc|musl)\d[\d.]*).*|[A-Za-z].*)|-SP\d)?$"
)
# Variables, of env, export, a Windows prompt and PowerShell. A value with blanks in it is the environment of a command,
# unless something shows that it is one value.
_NAME = r"(CUDA_\w+|CUPY_\w+|NVIDIA_\w+|LD_LIBRARY_PATH|LD_PRELOAD|CONDA_PREFIX|NUMBA_\w+)"
_WINDOWS_PATH = r"[A-Za-z]:\\[^\"'<>|*?]*"
_SET = pattern(
    rf"(?:\$ ?)?(?:export |set |setx |declare -x )?{_NAME}="
    rf"(?:\"([^\"]*)\"|'([^']*)'|({_WINDOWS_PATH}|cuda[<>=]+\S+ .*|[^'\"\s()]*))$"
)
_OF_POWERSHELL = pattern(rf"{_NAME}\s+({_WINDOWS_PATH})$")
_DRIVE = pattern(r"[A-Za-z]:\\")


def read_fields(line: str) -> Iterator[Found]:
    """The facts that a line states."""
    if "NVIDIA-SMI " in line:
        for fact, value in zip(("driver", "driver-cuda"), parse_banner(line + " "), strict=True):
            if value is not None:
                yield forms.SMI, fact, value
    yield from _variable(line)
    if _WSL.search(line):
        yield forms.UNAME, "wsl", "yes"
    if _WINDOWS_ROW.match(line):
        yield forms.SMI, "os", "windows"
    matches = ((form, form.pattern.match(line)) for form in (LINES if _ANY.match(line) else ()))
    for form, match in matches:
        if match is None:
            continue
        group = match[match.lastindex or 0].strip()
        value = form.value if isinstance(form.value, str) else form.value(group)
        for fact, part in _platform(value) if form.fact == "platform" else ((form.fact, value),):
            yield form.form, fact, part


def _variable(line: str) -> Iterator[Found]:
    variable = _SET.match(line) or _OF_POWERSHELL.match(line)
    if variable is None:
        return
    value = next((group for group in variable.groups()[1:] if group), "").strip()
    yield forms.ENV, f"env.{variable[1]}", value
    if _DRIVE.match(value):
        yield forms.ENV, "os", "windows"


def _platform(text: str) -> Iterator[tuple[str, str]]:
    """The facts in ``Linux-6.8.0-45-generic-x86_64-with-glibc2.35``."""
    match = _PLATFORM.match(text)
    if match is None:
        return
    yield "os", operating_system(match["os"])
    if match["os"] == "Linux":
        yield "kernel", match["kernel"]
    if match["arch"]:
        yield "arch", match["arch"].lower()
    if match["libc"]:
        yield "libc-by-python", re.sub(r"^(glibc|musl)", r"\1-", match["libc"])
