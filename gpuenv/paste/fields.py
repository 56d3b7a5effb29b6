"""Reads outputs in which each line reports a fact, by a pattern per line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuenv.model.nvidia import Nvml
from gpuenv.model.snapshot import operating_system
from gpuenv.model.strings import pattern
from gpuenv.model.versions import cuda_of_number
from gpuenv.paste import outputs
from gpuenv.paste.content import ExtractedFact
from gpuenv.probe.nvidia_smi import parse_banner


@dataclass(frozen=True, slots=True)
class LinePattern:
    """The pattern of a line of an output; the value is fixed, or made of the last group, else of the entire match."""

    output: str
    fact: str
    text: str
    pattern: re.Pattern[str]
    value: str | Callable[[str], str] = str


def _line(output: str, fact: str, text: str, value: str | Callable[[str], str] = str) -> LinePattern:
    return LinePattern(output, fact, text, pattern(text), value)


def _field(output: str, fact: str, key: str, text: str, value: Callable[[str], str] = str) -> LinePattern:
    """``key : value``, with any number of blanks around the colon."""
    return _line(output, fact, rf"(?:{key})\s*:\s*{text}", value)


def _complaint(text: str, code: Nvml) -> LinePattern:
    """The message of nvidia-smi for this return code of NVML."""
    return _line(outputs.SMI, "nvml", text, str(int(code)))


def _first_line(message: str) -> str:
    """The first line of an error message in the notation of a Python string."""
    return re.sub(r"['\"]\).*$", "", message.split("\\n", 1)[0])


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
# Messages of import, ctypes and cuda-pathfinder for a missing library; errors of a loaded library do not match.
_NOT_FOUND = (
    r"\w*Error\(['\"](?=.*(?:cannot open shared object|[Nn]o such file|[Ff]ailure finding|DLL load failed|"
    r"[Cc]ould not find module))(.{1,400})"
)
_CONDA_PLATFORMS = {"64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}
_CONDA_SYSTEMS = {"linux": "linux", "win": "windows", "osx": "darwin"}
_NO_MODULE = r"(?:[\w `-]{1,40}: ?)?N?VIDIA-SMI has failed because it couldn't communicate"  # also as users quote it
# Facts that report a failure. They describe the machine; when the failure itself is explained, they are no evidence.
FAILURES = frozenset(("nvml", "gpu-count", "cuda-init", "log"))

LINES = (
    # cupy.show_config(): cupyx/_runtime.py of CuPy 6 to 14.
    _field(outputs.SHOW_CONFIG, "cupy-release", r"CuPy [Vv]ersion", _VERSION),
    _field(outputs.SHOW_CONFIG, "platform", "OS", r"(\S+-\S+)$"),
    _field(outputs.SHOW_CONFIG, "python", "Python Version", _PYTHON),
    _field(outputs.SHOW_CONFIG, "numpy", "NumPy Version", _VERSION),
    _field(outputs.SHOW_CONFIG, "cuda-path", "CUDA Root", r"(?!None$)(\S.*)$"),
    _field(outputs.SHOW_CONFIG, "cupy-cuda", "CUDA Build Version", r"([1-9]\d{3,4})$", cuda_of_number),
    _field(outputs.SHOW_CONFIG, "driver-cuda", "CUDA Driver Version", r"([1-9]\d{3,4})$", cuda_of_number),
    # cudaDriverGetVersion: "If no driver is installed, then 0 is returned" (CUDA Runtime API, Version Management).
    _field(outputs.SHOW_CONFIG, "driver-none", "CUDA Driver Version", r"(0)$"),
    _field(
        outputs.SHOW_CONFIG,
        "toolkit",
        "CUDA Runtime Version",
        r".* / ([1-9]\d{4}) \(locally installed\)",
        cuda_of_number,
    ),
    _field(outputs.SHOW_CONFIG, "cuda-init", "CUDA Runtime Version", r"CUDARuntimeError\('(cudaError\w+)"),
    *(
        _field(outputs.SHOW_CONFIG, f"missing.{name.lower()}", f"{name} Version", _NOT_FOUND, _first_line)
        for name in ("NVRTC", "cuBLAS", "cuFFT", "cuRAND", "cuSOLVER", "cuSPARSE")
    ),
    _field(outputs.SHOW_CONFIG, "nvrtc", "NVRTC Version", r"\((\d+, \d+)\)", lambda text: text.replace(", ", ".")),
    _field(outputs.SHOW_CONFIG, "rocm", "CuPy Platform", r"AMD (ROCm)"),
    _field(outputs.SHOW_CONFIG, "rocm", "CUDA Root", r"/opt/(rocm)\b"),
    _field(outputs.SHOW_CONFIG, "rocm-release", "CUDA Root", r"/opt/rocm-(\d[\d.]*\d)\b"),
    # nvidia-smi -q; the banner of the table is parsed by parse_banner.
    _line(outputs.SMI_Q, "driver", rf"(?:Driver|KMD) Version\s{{2,}}: {_DRIVER}$"),
    _line(outputs.SMI_Q, "driver-cuda", r"CUDA(?: UMD)? Version\s{2,}: (\d{1,2}\.\d)$"),
    # nvidia-smi --version, up to R595 and from R610 on
    _line(outputs.SMI, "driver", rf"(?:DRIVER|KMD) version\s{{2,}}: {_DRIVER}$"),
    _line(outputs.SMI, "driver-cuda", r"CUDA(?: UMD)? version\s{2,}: (\d{1,2}\.\d)$"),
    # nvidia-smi prints this if it finds no libcuda.
    _line(
        outputs.SMI, "libcuda-none", r"\|?\s*NVIDIA-SMI\s+\d{3}\.\d[\d.]*\s.*CUDA(?: UMD)? Version\s*:\s*(N/A)(?=[\s|])"
    ),
    _complaint(_NO_MODULE, Nvml.DRIVER_NOT_LOADED),
    _complaint(r"Failed to (?:initialize|properly shut down) NVML: Driver Not Loaded", Nvml.DRIVER_NOT_LOADED),
    _complaint(r"Failed to initialize NVML: Driver/library version mismatch", Nvml.LIB_RM_VERSION_MISMATCH),
    _complaint(r"Failed to initialize NVML: Insufficient Permissions", Nvml.NO_PERMISSION),
    _complaint(r"Failed to initialize NVML: Unknown Error", Nvml.UNKNOWN),
    _complaint(r"NVIDIA-SMI couldn't find \S+ library", Nvml.LIBRARY_NOT_FOUND),
    _line(outputs.SMI, "nvml", r"No devices were found$", "0"),
    _line(outputs.SMI, "gpu-count", r"No devices were found$", "0"),
    # The line below the program's name, as users retype or cut it
    _line(outputs.SMI, "driver", rf"\|?\s*(?:Driver|KMD) Version\s*:\s*{_DRIVER}[\s,;/|]+CUDA(?: UMD)? Version\b"),
    _line(
        outputs.SMI,
        "driver-cuda",
        rf"\|?\s*(?:Driver|KMD) Version\s*:\s*{_DRIVER}[\s,;/|]+CUDA(?: UMD)? Version\s*:\s*(\d{{1,2}}\.\d)\b",
    ),
    _line(outputs.SMI, "mig-none", r"\|?\s*No MIG devices found\s*\|?$", "yes"),
    _line(outputs.SMI, "library-version", rf"NVML library version: {_DRIVER}$"),
    _line(outputs.SMI, "os", r"\|.*(?:\bTCC/WDDM|\bDriver-Model)\s*\|", "windows"),
    _line(outputs.DRIVER_FILE, "driver", rf"NVRM version: NVIDIA UNIX .*\bKernel Module(?: for \S+)?\s+{_DRIVER}\b"),
    _line(outputs.DRIVER_FILE, "module", r"NVRM version: NVIDIA UNIX .*Kernel Module\b", "loaded"),
    _line(outputs.DRIVER_FILE, "flavor", r"NVRM version: NVIDIA UNIX Open Kernel Module\b", "open"),
    _line(outputs.DRIVER_FILE, "flavor", r"NVRM version: NVIDIA UNIX (?!Open)\S+\s+Kernel Module", "proprietary"),
    _line(outputs.LSPCI, "nouveau", r"Kernel driver in use: (nouveau)$"),
    # The driver's nv.c (nvidia_check_version), with the line breaks of each release
    _line(outputs.DMESG, "nvml", r"NVRM: API mismatch: the client\b", str(int(Nvml.LIB_RM_VERSION_MISMATCH))),
    _line(outputs.DMESG, "library-version", rf"NVRM: (?:API mismatch: the client )?has the version {_DRIVER}, but"),
    _line(outputs.DMESG, "driver", rf"NVRM: NVIDIA {_DRIVER} driver release\b"),
    _line(outputs.DMESG, "module-version", rf"NVRM: (?:this kernel module has )?the version {_DRIVER}\.\s+Please"),
    # torch/utils/collect_env.py, and vLLM's, which pads the colons
    _field(outputs.COLLECT_ENV, "package.torch", r"PyTorch version", _VERSION),
    _field(outputs.COLLECT_ENV, "distribution", "OS", _SYSTEM),
    _field(outputs.COLLECT_ENV, "os", "OS", _SYSTEM, _system),
    _field(outputs.COLLECT_ENV, "arch", "OS", r".*\((x86_64|aarch64)\)$"),
    _field(outputs.COLLECT_ENV, "libc", "Libc version", r"((?:glibc|musl)-[\d.]+)"),
    _field(outputs.COLLECT_ENV, "python", r"Python version", _PYTHON),
    _field(outputs.COLLECT_ENV, "platform", r"Python platform", r"(\S+-\S+)$"),
    _field(outputs.COLLECT_ENV, "toolkit", "CUDA runtime version", r"(\d+\.\d+)"),
    _field(outputs.COLLECT_ENV, "driver", r"N(?:vidia|VIDIA) [Dd]river [Vv]ersion", _DRIVER),
    _line(outputs.PYTHON, "python", r"Python (\d+\.\d+\.\d+)\S*(?: [(|].*)?$"),
    _line(
        outputs.PYTHON,
        "python",
        r"Python (\d+\.\d+\.\d+)\S*(?: experimental)? free-threading build",
        lambda text: f"{text}t",
    ),
    _line(outputs.PYTHON, "python", r"Using Python (\d+\.\d+\.\d+)\S* environment"),
    _line(outputs.PYTHON, "os", r".*\[MSC v\.\d+ (?:32|64) bit \(\w+\)\]", "windows"),
    _line(outputs.PYTHON, "arch", r".*\[MSC v\.\d+ 64 bit \((AMD64|ARM64)\)\]", str.lower),
    _line(outputs.PYTHON, "os", r".*\[(?:GCC|Clang)\b[^\]]*\].* on (linux|darwin)$"),
    _line(outputs.CONDA, "python", r"python\s+(\d+\.\d+\.\d+)\s+\w+_\S+"),
    _line(outputs.CONDA, "python", r"python=(\d+\.\d+\.\d+)(?:=|$)"),
    # conda info also prints a Python version, but that of conda itself.
    _line(outputs.CONDA_INFO, "driver-cuda", r"(?:virtual packages : )?__cuda=([1-9]\d*\.\d+)"),
    _line(outputs.CONDA_INFO, "libc", r"(?:virtual packages : )?__glibc=(\d+\.\d+)", lambda text: f"glibc-{text}"),
    _line(outputs.CONDA_INFO, "os", r"#? ?platform ?: (linux|win|osx)-\w+$", _CONDA_SYSTEMS.__getitem__),
    _line(outputs.CONDA_INFO, "arch", r"#? ?platform ?: \w+-(64|aarch64|arm64)$", _CONDA_PLATFORMS.__getitem__),
    _line(outputs.NVCC, "toolkit", r"Cuda compilation tools, release (\d+\.\d+)"),
    _line(outputs.LDD, "libc", r"ldd \(.*\) (\d+\.\d+)$", lambda text: f"glibc-{text}"),
    _line(outputs.UNAME, "kernel", r"Linux (?!version )\S+ (\d+\.\S+) .*#\d"),
    _line(outputs.UNAME, "os", r"(Linux|Darwin) \S+ \d+\.\S+ ", str.lower),
    _line(outputs.UNAME, "arch", r"(?:Linux|Darwin) \S+ \d+\.\S+ .*?\b(x86_64|aarch64|arm64)(?: |$)"),
    _line(outputs.OS_RELEASE, "distribution-id", r"ID=\"?([\w.-]+)\"?$"),
    _line(outputs.OS_RELEASE, "distribution-release", r"VERSION_ID=\"?([\w.-]+)\"?$"),
    _line(outputs.OS_RELEASE, "distribution", r"PRETTY_NAME=\"?([^\"]+)\"?$"),
    _field(outputs.DOCKER, "distribution", "Operating System", _SYSTEM),
    _field(outputs.DOCKER, "os", "Operating System", _SYSTEM, _system),
    _line(outputs.DOCKER, "arch", r"Architecture:\s+(x86[-_]64|aarch64|arm64)$", lambda text: text.replace("-", "_")),
    _line(outputs.DOCKER, "runtimes", r"Runtimes: ([\w. -]+)$"),
    _line(outputs.DOCKER, "default-runtime", r"Default Runtime: ([\w.-]+)$"),
    _line(outputs.DOCKER, "kernel", r"Kernel Version: (\d+\.\S+)$"),
    _line(outputs.DOCKER, "os", r"OSType: (linux|windows)$"),
)

# All patterns at once, since most lines of a long text match none.
_ANY = pattern("|".join(f"(?:{line.text})" for line in LINES))

MUSL, MUSL_RELEASE = pattern(r"musl libc \((x86_64|aarch64)\)"), pattern(r"Version (\d+\.\d+)")
_WSL = pattern(r"microsoft-standard|-Microsoft\b|WSL2")
_WINDOWS_ROW = pattern(r"\|?\s*\d+\s+\S.*\s(?:WDDM|TCC|MCDM)\s*\|\s*[0-9A-Fa-f]{4,8}:")
# platform.platform() of CPython 3.6 to 3.13: up to 3.7 the distribution follows "with".
_PLATFORM = pattern(
    r"(?P<os>Linux|Windows|macOS|Darwin)-(?P<kernel>[^-]+(?:-[\w.+~]+)*?)"
    r"(?:-(?P<arch>x86_64|aarch64|arm64|AMD64))?(?:-with-(?:(?P<libc>(?:glibc|musl)\d[\d.]*).*|[A-Za-z].*)|-SP\d)?$"
)
# Variables of env, export, a Windows prompt and PowerShell. A value with spaces is usually the environment of a
# command, unless quotes or a Windows path show that it is one value.
_NAME = r"(CUDA_\w+|CUPY_\w+|NVIDIA_\w+|LD_LIBRARY_PATH|LD_PRELOAD|CONDA_PREFIX|NUMBA_\w+)"
_WINDOWS_PATH = r"[A-Za-z]:\\[^\"'<>|*?]*"
_SET = pattern(
    rf"(?:\$ ?)?(?:export |set |setx |declare -x )?{_NAME}="
    rf"(?:\"([^\"]*)\"|'([^']*)'|({_WINDOWS_PATH}|cuda[<>=]+\S+ .*|[^'\"\s()]*))$"
)
_POWERSHELL = pattern(rf"{_NAME}\s+({_WINDOWS_PATH})$")
_DRIVE = pattern(r"[A-Za-z]:\\")


def read_fields(line: str) -> Iterator[ExtractedFact]:
    """The facts that a line reports."""
    if "NVIDIA-SMI " in line:
        for fact, value in zip(("driver", "driver-cuda"), parse_banner(line + " "), strict=True):
            if value is not None:
                yield outputs.SMI, fact, value
    yield from _variable(line)
    if _WSL.search(line):
        yield outputs.UNAME, "wsl", "yes"
    if _WINDOWS_ROW.match(line):
        yield outputs.SMI, "os", "windows"
    matches = ((entry, entry.pattern.match(line)) for entry in (LINES if _ANY.match(line) else ()))
    for entry, match in matches:
        if match is None:
            continue
        group = match[match.lastindex or 0].strip()
        value = entry.value if isinstance(entry.value, str) else entry.value(group)
        for fact, part in _platform(value) if entry.fact == "platform" else ((entry.fact, value),):
            yield entry.output, fact, part


def _variable(line: str) -> Iterator[ExtractedFact]:
    variable = _SET.match(line) or _POWERSHELL.match(line)
    if variable is None:
        return
    value = next((group for group in variable.groups()[1:] if group), "").strip()
    yield outputs.ENV, f"env.{variable[1]}", value
    if _DRIVE.match(value):
        yield outputs.ENV, "os", "windows"


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
