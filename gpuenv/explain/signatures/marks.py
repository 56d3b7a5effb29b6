"""What a text shows of its machine and its program, without being an error: it sways the causes of others."""

from __future__ import annotations

from string import ascii_lowercase

from gpuenv.explain.records import Level, Signature

_TEXT = "the text around an error"


def _mark(mark: str, literals: tuple[str, ...], pattern: str | None = None) -> Signature:
    return Signature(f"mark.{mark}", _TEXT, literals, (), _TEXT, pattern=pattern, level=Level.MARK, mark=mark)


SIGNATURES = (
    _mark("cupy", ("cupy",)),
    Signature(
        "mark.cupy-alias",
        _TEXT,
        ("cp.",),
        (),
        _TEXT,
        pattern=r"\bcp\.(?:as(?:array|numpy)|array|cuda|zeros|ones|arange|empty|random|linalg|fft|Raw(?:Kernel|Module)|ndarray)\b",
        level=Level.MARK,
        mark="cupy",
    ),
    _mark("executable", ("error while loading shared libraries",)),
    _mark("cupy-asks", ("cupy",), r"\.p(?:yx|xi)\"?,? (?:line \d+,? )?in (?:init )?cupy\w*\."),
    _mark("cupy-cache-frame", ("_compiler_cache",), r"[/\\]cupy[/\\]cuda[/\\]_compiler_cache\b"),
    _mark("cupy-banner", ("original error",), r"Original error:"),
    _mark(
        "cupy-crash-frame",
        ("cupy",),
        r"Extension modules: .*\bcupy|File \".*[/\\]cupyx?[/\\].*\", line \d+ in |\bcupy\S*\.(?:so|pyd)\b|import cupy[^\n]{0,80}(?:Segmentation|SIGSEGV)",
    ),
    _mark("cuda", ("cuda", "nvidia", "nvrtc", "cublas", "cudnn")),
    _mark("gpu", ("gpu", "vram", "pinned memory"), r"\bGPUs?\b|\bVRAM\b|\bpinned memory\b"),
    _mark("conda", ("conda",)),
    _mark("cupy-8", ("cupy_backends",)),
    _mark("nvrtc-error-named", ("nvrtcerror",), r"NVRTCError: NVRTC_ERROR_INVALID_OPTION"),
    _mark("cupy-driver-error", ("cudadrivererror",)),
    _mark("cupy-runtime-error", ("cudaruntimeerror",)),
    _mark("cupy-device-init", ("device.__init__",), r"cupy\.cuda\.device\.Device\.__init__"),
    _mark(
        "explicit-synchronize",
        ("synchronize",),
        r"\bin (?:\S+\.)?(?:streamSynchronize|deviceSynchronize|eventSynchronize)|(?:Stream\.null|device|Device\(\S*\))\.synchronize\(\)",
    ),
    _mark("copy-frame", ("memcpy", "copy_from", "copy_to", "asnumpy"), r"memcpy\w*|copy_(?:from|to)_\w+|asnumpy"),
    _mark("launch-frame", ("launchkernel", "_launch"), r"launchKernel|function\._launch|linear_launch"),
    _mark("func-attribute", ("funcsetattribute",)),
    _mark("smi-table", ("nvidia-smi ",), r"NVIDIA-SMI \d{3}\.\S+ .*(?:Driver|KMD) Version: \d"),
    _mark("nvrm", ("nvrm",)),
    _mark(
        "cupy-own-kernel",
        ("_cub_reduction", "_routines_", "_cub_device"),
        r"cupy\._core\.(?:_cub_reduction|_routines_\w+)|cupy\\_core\\_cub_reduction",
    ),
    _mark("user-kernel", ("rawkernel", "rawmodule", "elementwisekernel")),
    _mark("torch-error", ("torch",), r"site-packages[/\\]torch[/\\]|torch\.\w+\.|PyTorch|import torch"),
    _mark("torch-first", ("import torch",), r"import torch.{0,40}import cupy"),
    _mark(
        "multiprocessing",
        ("multiprocessing", "process process-", "forkpoolworker", "os.fork", "billiard", "n_process", "process-"),
        r"\bProcess-\d+|ForkPoolWorker|multiprocessing[/\\.]|os\.fork|billiard|n_process",
    ),
    _mark(
        "container",
        ("docker", "podman", "container", "kubectl", "apptainer", "singularity", "oci runtime"),
        r"docker(?:d|:| run| exec| compose|-compose|\.io)|podman|nvidia-container-cli|nvidia-docker|containerd|\(container\)|in (?:a|the|my) (?:docker )?container|(?:docker|GPU|CUDA) containers?\b|apptainer|singularity|OCI runtime",
    ),
    # An engine's command line that passes no GPU; one that goes on in the next line may do so there.
    _mark(
        "started-without-gpu",
        ("docker run", "podman run", "docker create"),
        r"\b(?:docker|podman) (?:run|create) (?=.*\w)(?!.*(?:--gpus|--runtime|nvidia|--device|--help|\\\s*$))",
    ),
    _mark(
        "nvidia-module",
        ("nvidia", "open-gpu-kernel-modules", "nv-kernel.o"),
        r"\bnvidia(?:-\w+)?\.ko\b|nvidia-installer|NVIDIA-Linux-|/usr/src/nvidia-|open-gpu-kernel-modules[-\d.]*/|nv-kernel\.o|kernel-open/nvidia|\bfor nvidia-\d|Building module:?\s*nvidia\b|\bnvidia(?:-\w+)?/\d{3}\.\d",
    ),
    _mark("hook", ("nvidia-container-cli",)),  # it runs on the host
    _mark("no-cgroups", ("no-cgroups",), r"no-cgroups ?= ?true"),
    _mark(
        "module-loaded",
        ("nvrm version", "kernel reported version"),
        r"NVRM version: NVIDIA UNIX|kernel reported version is: \d",
    ),
    _mark(
        "smi-said-to-work",
        ("nvidia-smi",),
        r"nvidia-smi\W{0,3} (?:(?:on|from) (?:the|my) host )?(?:itself )?(?:works|shows|runs|lists|prints|is (?:fine|ok|working|showing)|does work|works? (?:fine|well))\b(?!.{0,20}(?:error|fail|no dev))|nvidia-smi ?(?:可以|正常|能)",
    ),
    _mark("kubernetes", ("kubectl", "kubelet", "kubernetes", "nvidia.com/gpu", "device-plugin")),
    _mark("wsl", ("wsl",), r"/usr/lib/wsl|\bWSL2?\b|microsoft-standard-WSL"),
    _mark(
        "windows",
        (*(f"{drive}:\\" for drive in ascii_lowercase), ".dll", "winerror", "win_amd64", "\\site-packages"),
        r"[A-Z]:\\\w|\.dll\b|\[WinError|win_amd64|\\site-packages\\",
    ),
    _mark(
        "darwin",
        ("macos", "darwin", "apple m"),
        r"macosx_\d|darwin|\b(?:on|my|under) macOS\b|\bmacOS (?:M\d|\d\d|Sonoma|Ventura|Monterey)\b|Apple M\d\b",
    ),
    _mark("aarch64", ("aarch64", "arm64"), r"\baarch64\b|linux[-_]arm64"),
    _mark(
        "jetson",
        ("tegra", "jetson", "jetpack", "l4t", "nvgpu", "xavier", "orin"),
        r"tegra|jetson|jetpack|\bl4t\b|nvgpu|\bXavier NX\b|\bOrin (?:NX|Nano)\b|\bAGX (?:Xavier|Orin)\b",
    ),
    _mark("musl", ("musl", "alpine"), r"musl|alpine"),
    _mark(
        "amd",
        ("radeon", "gfx", "hsa_override", "amdgpu", " rx ", "rocm", "instinct"),
        r"Radeon|\bgfx(?:\d{3,4}|90[a-f])\b|HSA_OVERRIDE|amdgpu|\bRX \d{3,4}\b|\bInstinct\b|rocm-smi|ROCm System Management",
    ),
    # A card of AMD's, and not a processor "with Radeon Graphics", which an NVIDIA card may stand beside.
    _mark(
        "amd-card",
        ("radeon", " rx ", "instinct", "gfx", "rocm", "amd-smi", "amd/ati"),
        r"Radeon (?:RX|Pro|VII|Instinct)|\bRX \d{3,4}\b|\bInstinct\b|\bgfx(?:[89]\w{2}|1[0-2]\d{2})\b|ROCm System Management"
        r"|\b(?:rocm-smi|rocminfo|amd-smi)\b|(?:VGA|3D|Display) \w*\s?controller.*AMD/ATI\]",
    ),
    _mark("rocm-build", ("rocm",), r"cupy-rocm|\+rocm\d|Platform\s*: AMD ROCm"),
    _mark(
        "nvidia-card",
        ("nvidia corporation", "geforce", "rtx", "gtx", "quadro", "tesla", "nvrm", "nvidia a", "nvidia h", "nvidia l"),
        r"NVIDIA Corporation|GeForce|\b[RG]TX ?(?:A?\d{3,4})|Quadro|\bTesla [A-Z]\d|NVRM|NVIDIA [AHL]\d{1,3}\b",
    ),
    _mark("rocm", ("rocm", "hip"), r"/opt/rocm|cupy-rocm|\bROCm\b|libamdhip|hip(?:Error|rtc)"),
    _mark(
        "mig",
        ("mig ", "mig-"),
        r"\bMIG\b(?! M\.|\s*:?\s*(?:N/A|Disabled|Mode\s*:?\s*(?:N/A|Disabled)))|MIG-GPU-|MIG-[0-9a-f]{8}",
    ),
    _mark(
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
    _mark("nouveau", ("nouveau", "novacore"), r"\b(?<!such as )nouveau\b(?!.*blacklist)|NovaCore"),
    _mark(
        "secure-boot",
        ("secure boot", "secureboot"),
        r"Secure ?Boot\b(?!.{0,12}(?:disabled|\boff\b|not ))|mokutil",
    ),
    _mark(
        "suspend",
        ("suspend", "resume from", "hibernat", "woke up", "wakes", "waking", "after sleep", "slept", "asleep"),
        r"PM: suspend|(?:after|from) (?:a )?(?:suspend|sleep|hibernat|waking)|resume from|woke up|suspend exit"
        r"|(?:computer|laptop|notebook|desktop|machine|PC|system) (?:has |had )?(?:slept|was asleep)",
    ),
    _mark(
        "hidden",
        ("cuda_visible_devices",),
        r"CUDA_VISIBLE_DEVICES['\"\]]*\s*[=:]\s*(?:['\"]?-1\b|['\"]{2}|None|\(empty\)|['\"]?all\b|['\"]?NoDevFiles)",
    ),
    _mark("visible-set", ("cuda_visible_devices",), r"CUDA_VISIBLE_DEVICES['\"\]]*\s*[=:]\s*['\"]?[\dGM]"),
    _mark(
        "visible-in-code",
        ("cuda_visible_devices",),
        r"environ(?:\[|\.(?:setdefault|update)\(|.{0,4}\{)\W{0,3}CUDA_VISIBLE_DEVICES|(?:setenv|putenv)\W{1,3}CUDA_VISIBLE_DEVICES",
    ),
    _mark(
        "old-cupy",  # before CuPy 8, whose newest CUDA is 11.0
        ("cupy/core/", "cupy/cuda/nvrtc", "cupy\\core\\", "cupy.cuda.nvrtc", "cupy.core."),
        r"cupy[/\\]core[/\\]|cupy[/\\]cuda[/\\]nvrtc\.pyx|cupy\.cuda\.nvrtc\.|cupy\.core\.",
    ),
    # CMake's files of torch name one architecture where they found one GPU, and a list where they found none.
    _mark(
        "arch-detected",
        ("autodetected cuda",),
        r"Autodetected CUDA architecture\(s\): *\d+\.\d(?:\(\d\.\d\))?(?![;.\d])",
    ),
    _mark(
        "blocking-elsewhere",
        ("cuda_launch_blocking",),
        r"CUDA_LAUNCH_BLOCKING.{0,80}\b(?:another|other|different)\b.{0,20}\b(?:line|place|location)",
    ),
    _mark(
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
        ),
        r"\b(?:fail\w*|error\w*|cannot|unable|denied|broken|crash\w*|permissions?|not (?:able|working|available|found|detected|visible|see)|as root)\b|\b(?:does|do|did)(?: not|n't) (?:work|see|find|detect|start)\b|\bcan't\b",
    ),
    _mark(
        "in-device-group",
        ("video", "render"),
        r"\bgroups?=\S*\((?:video|render)\)|\b(?:a )?member of (?:the )?(?:group )?(?:video|render)\b",
    ),
    _mark(
        "on-purpose",
        ("purpose", "intend", "intention", "by design", "as it should", "as they should"),
        r"on purpose|intended|intentional\w*|by design|as (?:it|they) should",
    ),
    _mark("asked-fermi-kepler", ("-arch=compute_",), r"-arch=compute_(?:2\d|30)\b"),
    _mark("exclusive", ("e. process", "e. thread", "exclusive_process"), r"E\. (?:Process|Thread)|Exclusive_Process"),
    _mark("cache-folder", ("makedirs", "mkdir"), r"makedirs\(self\._cache_dir|\bmakedirs\b.*cache"),
    _mark("os-refused", ("permissionerror", "oserror", "read-only file system", "no space left")),
    _mark("permission", ("permission denied",), r"/dev/(?:nvidia|nvhost|dri)\S*.*permission denied"),
    _mark("cpu-torch", ("+cpu", "version.cuda"), r"\btorch\S*\+cpu\b|version\.cuda\W+None"),
    _mark("cpu-tensor", ("and cpu", "cpu and cuda"), r"cuda:\d+ and cpu|cpu and cuda"),
    _mark("compat", ("/compat",), r"cuda[\w.-]*/compat"),
    _mark("failed-to-import-cupy", ("failed to import cupy",)),
    _mark(
        "building",
        ("setup.py", "ninja", "cmake", "building wheel", "build_ext", "nvcc"),
        r"setup\.py|\bninja\b|cmake|Building wheel|build_ext|nvcc .* -c |\.cu\b.*-o ",
    ),
    _mark("ctk-extra", ("[ctk]",)),
    _mark(
        "conda-cuda",
        ("conda-forge", "defaults", "nvidia"),
        r"^(?:cudatoolkit|cuda-\w+|cupy(?:-core)?|libcu\w+)\s+\d\S*\s+\S+\s+(?:conda-forge|defaults|nvidia|pkgs/main)?$",
    ),
    _mark("ld-library-path", ("ld_library_path",), r"LD_LIBRARY_PATH\s*[=:]\s*\S*(?:cuda|conda|lib)"),
    _mark("cuda-missing-on-system", ("missing on the system",)),
    _mark(
        "cuda-13",
        ("cuda13", "cuda-13", "cu13", "cuda 13", "version: 13", "libnvrtc.so.13", "nvrtc64_13"),
        r"cuda-?13|cu13\d?|CUDA (?:Version:? )?13\.|libnvrtc\.so\.13|nvrtc64_13",
    ),
    _mark(
        "server-gpu",
        ("tesla", "a100", "h100", "h200", "v100", "a40", "l40", "b200"),
        r"\b(?:Tesla|A100|H100|H200|V100|A40|L40S?|B200|GB200)\b",
    ),
    _mark("remapped-rows", ("remapped rows",)),
    _mark(
        "said-not-loaded",
        ("driver", "module"),
        r"(?:do not|don't|did not|didn't|never|not) load(?:ed)? (?:the |my )?(?:nvidia )?(?:driver|(?:kernel )?module)"
        r"|(?:disabled|unloaded|blacklisted) (?:the |my )?nvidia (?:driver|(?:kernel )?module)s?|(?<!not )without (?:loading )?the nvidia (?:driver|module)",
    ),
    _mark("nvswitch-gpu", ("sxm", "hgx", "dgx", "nvswitch"), r"\b(?:SXM\d?|HGX|DGX|NVSwitch)\b"),
    _mark("driver-not-running", ("kernel driver does not appear to be running",)),
    _mark(
        "numpy-does",
        (
            "numpy does",
            "numpy accept",
            "numpy allow",
            "numpy handle",
            "numpy cast",
            "numpy work",
            "numpy support",
            "with numpy",
            "in numpy",
        ),
        r"\bNumPy (?:does|accepts|allows|handles|casts|works|supports)\b|\b(?:works|is fine|passes|succeeds) (?:fine )?(?:in|with) numpy\b",
    ),
    _mark(
        "others-hold",
        (
            "another user",
            "another process",
            "another program",
            "another job",
            "by another",
            "by other",
            "other user",
            "other process",
            "other program",
            "other job",
            "zombie process",
        ),
        r"\b(?:another|other) (?:user|process|job|program)\w*\b.{0,60}\b(?:us(?:es?|ing|ed)|hold\w*|occup\w*|tak\w*)\b|\bin use by (?:another|other)\b|\b(?<!no )zombie process",
    ),
    _mark(
        "root-may",
        ("as root", "with sudo", "under sudo"),
        r"\b(?:as root|with sudo|under sudo)\b.{0,40}\b(?:works?|fine|ok|finds|sees|not as)\b|\b(?:works?|fine|ok|runs?) (?:only )?(?:as root|with sudo|under sudo)\b",
    ),
    _mark("own-cupy-file", ("cupy.py",), r"[/\\]cupy\.py\b"),
    _mark("cupy-files", ("no module named 'cupy.cuda",)),
)
