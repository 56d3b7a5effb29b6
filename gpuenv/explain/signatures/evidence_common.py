"""Evidence about machine and program in a text: not an error itself, but it changes the weights of causes."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase

from gpuenv.explain.explanation_types import Level, Signature

_TEXT = "the text around an error"


def evidence(name: str, literals: tuple[str, ...], pattern: str | None = None) -> Signature:
    """A signature that names no cause and only shows evidence."""
    return Signature(f"mark.{name}", _TEXT, literals, (), _TEXT, pattern=pattern, level=Level.EVIDENCE, evidence=name)


def alternative(evidence_name: str, name: str, literals: tuple[str, ...], pattern: str) -> Signature:
    """Another pattern for evidence that has a signature already."""
    return replace(evidence(name, literals, pattern), evidence=evidence_name)


SIGNATURES = (
    evidence("cupy", ("cupy",)),
    evidence("cuda-stream", ("stream",), r"get(?:Current(?:CUDA)?Stream|StreamFromPool)|cudaStream|cuda\.Stream"),
    evidence("executable", ("error while loading shared libraries",)),
    evidence("cupy-cache-frame", ("_compiler_cache",), r"[/\\]cupy[/\\]cuda[/\\]_compiler_cache\b"),
    evidence("cuda", ("cuda", "nvidia", "nvrtc", "cublas", "cudnn")),
    evidence("gpu", ("gpu", "vram", "pinned memory"), r"\bGPUs?\b|\bVRAM\b|\bpinned memory\b"),
    evidence("conda", ("conda",)),
    evidence(
        "explicit-synchronize",
        ("synchronize",),
        r"\bin (?:\S+\.)?(?:streamSynchronize|deviceSynchronize|eventSynchronize)|(?:Stream\.null|device|Device\(\S*\))\.synchronize\(\)",
    ),
    evidence("copy-frame", ("memcpy", "copy_from", "copy_to", "asnumpy"), r"memcpy\w*|copy_(?:from|to)_\w+|asnumpy"),
    evidence("smi-table", ("nvidia-smi ",), r"NVIDIA-SMI \d{3}\.\S+ .*(?:Driver|KMD) Version: \d"),
    evidence("nvrm", ("nvrm",)),
    evidence("torch-error", ("torch",), r"site-packages[/\\]torch[/\\]|torch\.\w+\.|PyTorch|import torch"),
    evidence("torch-first", ("import torch",), r"import torch.{0,40}import cupy"),
    evidence(
        "multiprocessing",
        ("multiprocessing", "process process-", "forkpoolworker", "os.fork", "billiard", "n_process", "process-"),
        r"\bProcess-\d+|ForkPoolWorker|multiprocessing[/\\.]|os\.fork|billiard|n_process",
    ),
    evidence(
        "container",
        (
            "docker",
            "podman",
            "container",
            "kubectl",
            "apptainer",
            "singularity",
            "oci runtime",
            "base image",
            "-gpu image",
        ),
        r"docker(?:d|:| run| exec| compose|-compose|\.io)|podman|nvidia-container-cli|nvidia-docker|containerd|\(container\)|\b(?:in|inside|within) (?:a|an|the|my|our|this) (?:[\w./:@-]+ ){0,3}container\b|(?:docker|GPU|CUDA) containers?\b|apptainer|singularity|OCI runtime|\b(?:docker|container|base|nvidia/cuda:\S+|\S{1,40}-gpu) images?\b",
    ),
    # An engine's command line that passes no GPU; one that goes on in the next line may do so there.
    evidence(
        "started-without-gpu",
        ("docker run", "podman run", "docker create"),
        r"\b(?<!nvidia-)(?:docker|podman) (?:run|create) (?=.*\w)(?!.*(?:--gpus|--runtime|nvidia|--device|--help|\\\s*$))",
    ),
    evidence(
        "nvidia-module",
        ("nvidia", "open-gpu-kernel-modules", "nv-kernel.o"),
        r"\bnvidia(?:-\w+)?\.ko\b|nvidia-installer|NVIDIA-Linux-|/usr/src/nvidia-|open-gpu-kernel-modules[-\d.]*/|nv-kernel\.o|kernel-open/nvidia|\bfor nvidia-\d|Building module:?\s*nvidia\b|\bnvidia(?:-\w+)?/\d{3}\.\d",
    ),
    evidence("hook", ("nvidia-container-cli",)),  # it runs on the host
    evidence("no-cgroups", ("no-cgroups",), r"no-cgroups ?= ?true"),
    evidence(
        "module-loaded",
        ("nvrm version", "kernel reported version"),
        r"NVRM version: NVIDIA UNIX|kernel reported version is: \d",
    ),
    evidence(
        "smi-reported-working",
        ("nvidia-smi",),
        r"nvidia-smi\W{0,3} (?:(?:on|from) (?:the|my) host )?(?:itself )?(?:works|shows|runs|lists|prints|is (?:fine|ok|working|showing)|does work|works? (?:fine|well))\b(?!.{0,20}(?:error|fail|no dev))|nvidia-smi ?(?:可以|正常|能)",
    ),
    evidence("kubernetes", ("kubectl", "kubelet", "kubernetes", "nvidia.com/gpu", "device-plugin")),
    evidence("wsl", ("wsl",), r"/usr/lib/wsl|\bWSL2?\b|microsoft-standard-WSL"),
    evidence(
        "windows",
        (*(f"{drive}:\\" for drive in ascii_lowercase), ".dll", "winerror", "win_amd64", "\\site-packages"),
        r"[A-Z]:\\\w|\.dll\b|\[WinError|win_amd64|\\site-packages\\",
    ),
    evidence(
        "dll-lacks-procedure",  # Windows, error 127, in its languages
        (
            "procedure could not be found",
            "winerror 127",
            "找不到指定的程序",
            "angegebene prozedur",
            "proc\u00e9dure sp\u00e9cifi\u00e9e",
            "指定されたプロシージャ",
        ),
    ),
    evidence(
        "darwin",
        ("macos", "darwin", "apple m"),
        r"macosx_\d|darwin|\b(?:on|my|under) macOS\b|\bmacOS (?:M\d|\d\d|Sonoma|Ventura|Monterey)\b|Apple M\d\b",
    ),
    evidence("aarch64", ("aarch64", "arm64"), r"\baarch64\b|linux[-_]arm64"),
    evidence(
        "jetson",
        ("tegra", "jetson", "jetpack", "l4t", "nvgpu", "xavier", "orin"),
        r"(?<!in)tegra|jetson|jetpack|\bl4t\b|nvgpu|\bXavier NX\b|\bOrin (?:NX|Nano)\b|\bAGX (?:Xavier|Orin)\b",
    ),
    evidence("musl", ("musl", "alpine"), r"musl|alpine"),
    evidence(
        "amd",
        ("radeon", "gfx", "hsa_override", "amdgpu", "rx ", "rocm", "instinct"),
        r"Radeon|\bgfx(?:\d{3,4}|90[a-f])\b|HSA_OVERRIDE|amdgpu|\bRX \d{3,4}\b|\bInstinct\b|rocm-smi|ROCm System Management",
    ),
    evidence("rocm", ("rocm", "hip"), r"/opt/rocm|cupy-rocm|\bROCm\b|libamdhip|hip(?:Error|rtc)"),
    evidence(
        "mig",
        ("mig ", "mig-"),
        r"(?<!no )(?<!not )(?<!without )\bMIG\b(?! M\.| (?:mode )?(?:is|was) (?:not|off|disabled)\b|\s*:?\s*(?:N/A|Disabled|Mode\s*(?:Current\s*)?:?\s*(?:N/A|Disabled|$)))|MIG-GPU-|MIG-[0-9a-f]{8}",
    ),
    evidence(
        "new-kernel",
        (
            "kernel was",
            "kernel has been",
            "kernel got",
            "kernel updat",
            "kernel upgrad",
            "new kernel",
            "updated kernel",
            "upgraded kernel",
            "linux kernel",
            "the kernel",
            "my kernel",
        ),
        r"\bkernel (?:was |has been |got )?(?:updated?|upgraded?)\b|\b(?:new|updated?|upgraded?)(?: of)?(?: the| my)? (?:linux )?kernel\b",
    ),
    evidence("nouveau", ("nouveau", "novacore"), r"\b(?<!such as )nouveau\b(?!.*blacklist)|NovaCore"),
    evidence(
        "secure-boot",
        ("secure boot", "secureboot"),
        r"Secure ?Boot\b(?!.{0,12}(?:disabled|\boff\b|not ))|mokutil",
    ),
    evidence(
        "suspend",
        (
            "suspend",
            "resume from",
            "hibernat",
            "woke up",
            "wakes",
            "waking",
            "after sleep",
            "slept",
            "asleep",
            "from sleep",
        ),
        r"PM: suspend|(?:after|from) (?:a )?(?:suspend|sleep|hibernat|waking)|resume from|woke up|suspend exit"
        r"|(?:computer|laptop|notebook|desktop|machine|PC|system) (?:has |had )?(?:slept|was asleep)",
    ),
    evidence(
        "hidden",
        ("cuda_visible_devices",),
        r"CUDA_VISIBLE_DEVICES['\"\]]*\s*[=:]\s*(?:['\"]?-1\b|['\"]{2}|None|\(empty\)|['\"]?all\b|['\"]?NoDevFiles)",
    ),
    evidence("visible-set", ("cuda_visible_devices",), r"CUDA_VISIBLE_DEVICES['\"\]]*\s*[=:]\s*['\"]?[\dGM]"),
    evidence(
        "visible-in-code",
        ("cuda_visible_devices",),
        r"environ(?:\[|\.(?:setdefault|update)\(|.{0,4}\{)\W{0,3}CUDA_VISIBLE_DEVICES|(?:setenv|putenv)\W{1,3}CUDA_VISIBLE_DEVICES",
    ),
    # CMake's files of torch name one architecture where they found one GPU, and a list where they found none.
    evidence(
        "arch-detected",
        ("autodetected cuda",),
        r"Autodetected CUDA architecture\(s\): *\d+\.\d(?:\(\d\.\d\))?(?![;.\d])",
    ),
    evidence(
        "blocking-elsewhere",
        ("cuda_launch_blocking",),
        r"CUDA_LAUNCH_BLOCKING.{0,80}\b(?:another|other|different)\b.{0,20}\b(?:line|place|location)",
    ),
    evidence(
        "complaint",
        (
            "fail",
            "error",
            "not able",
            "not work",
            "not avail",
            "not found",
            "not detect",
            "not start",
            "not visible",
            "not see",
            "not find",
            "n't ",
            "cannot",
            "denied",
            "unable",
            "broken",
            "crash",
            "as root",
            "permission",
            "stopped working",
            "no longer work",
        ),
        r"\b(?:fail\w*|error\w*|cannot|unable|denied|broken|crash\w*|permissions?|not (?:able|working|available|found|detected|visible|see)|as root|stopped working|no longer works?)\b|\b(?:does|do|did)(?: not|n't) (?:work|see|find|detect|start)\b|\bcan't\b",
    ),
    evidence(
        "in-device-group",
        ("video", "render"),
        r"\bgroups?=\S*\((?:video|render)\)|\b(?:a )?member of (?:the )?(?:group )?(?:video|render)\b",
    ),
    evidence(
        "on-purpose",
        ("purpose", "intend", "intention", "by design", "as it should", "as they should"),
        r"on purpose|intended|intentional\w*|by design|as (?:it|they) should",
    ),
    evidence(
        "exclusive",
        ("e. process", "e. thread", "exclusive_process"),
        r"E\. (?:Process|Thread)|(?<!not )(?<!no )(?<!never )Exclusive_Process",
    ),
    evidence("os-refused", ("permissionerror", "oserror", "read-only file system", "no space left")),
    evidence("permission", ("permission denied",), r"/dev/(?:nvidia|nvhost|dri)\S*.*permission denied"),
    evidence("cpu-torch", ("+cpu", "version.cuda"), r"\btorch\S*\+cpu\b|version\.cuda\W+None"),
    evidence("cpu-tensor", ("and cpu", "cpu and cuda"), r"cuda:\d+ and cpu|cpu and cuda"),
    evidence("compat", ("/compat",), r"cuda[\w.-]*/compat"),
    evidence(
        "building",
        ("setup.py", "ninja", "cmake", "building wheel", "build_ext", "nvcc", ".cu -o"),
        r"setup\.py|\bninja\b|cmake|Building wheel|build_ext|nvcc .* -c |\.cu\b.*-o ",
    ),
    evidence("ctk-extra", ("[ctk]",)),
    evidence(
        "conda-cuda",
        ("conda-forge", "defaults", "nvidia"),
        r"^(?:cudatoolkit|cuda-\w+|cupy(?:-core)?|libcu\w+)\s+\d\S*\s+\S+\s+(?:conda-forge|defaults|nvidia|pkgs/main)?$",
    ),
    evidence(
        "ld-library-path",
        ("ld_library_path",),
        r"LD_LIBRARY_PATH(?:\s*[=:]|['\"`]? (?:contains|includes|has|is set to|points to|names|lists))\s*\S*(?:cuda|conda|lib)",
    ),
    evidence("cuda-missing-on-system", ("missing on the system",)),
    evidence(
        "cuda-13",
        ("cuda13", "cuda-13", "cu13", "cuda 13", "version: 13", "libnvrtc.so.13", "nvrtc64_13"),
        r"cuda-?13|cu13\d?|CUDA (?:Version:? )?13\.|libnvrtc\.so\.13|nvrtc64_13",
    ),
    evidence(
        "server-gpu",
        ("tesla", "a100", "h100", "h200", "v100", "a40", "l40", "b200"),
        r"\b(?:Tesla|A100|H100|H200|V100|A40|L40S?|B200|GB200)\b",
    ),
    evidence("remapped-rows", ("remapped rows",)),
    evidence(
        "reported-not-loaded",
        ("driver", "module"),
        r"(?:do not|don't|did not|didn't|never|not) load(?:ed)? (?:the |my )?(?:nvidia )?(?:driver|(?:kernel )?module)"
        r"|(?:disabled|unloaded|blacklisted) (?:the |my )?nvidia (?:driver|(?:kernel )?module)s?|(?<!not )(?:without|w/o) (?:loading )?the nvidia (?:kernel )?(?:driver|module)",
    ),
    evidence("nvswitch-gpu", ("sxm", "hgx", "dgx", "nvswitch"), r"\b(?:SXM\d?|HGX|DGX|NVSwitch)\b"),
    evidence("driver-not-running", ("kernel driver does not appear to be running",)),
)
