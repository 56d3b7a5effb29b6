"""The program that fails in a text, and the fixes of a cause for its users.

The fixes of a cause are worded for CuPy; program_fixes.csv has those for other programs. A row is one step, for the
programs that it lists, separated by ``; ``; ``*`` is every other program but CuPy. Rows of one cause and program follow
each other, the first to try first. A step has a command, a line for the user's own shell, or neither. The sources, with
the days on which they were read, are in fix_sources.csv.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from gpuenv.doctor.fixes.table import read_rows
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix
from gpuenv.model.strings import pattern


class Program(str, Enum):
    """A program, or a family of programs that are installed and configured in one way.

    ``TORCH`` includes what builds on PyTorch, such as vLLM and ComfyUI; ``CONTAINER`` is an engine (Docker, Podman,
    Kubernetes) or NVIDIA's toolkit for it, not a program in a container.
    """

    CUPY = "cupy"
    TORCH = "torch"
    JAX = "jax"
    TENSORFLOW = "tensorflow"
    NUMBA = "numba"
    RAPIDS = "rapids"
    CONTAINER = "container"
    OTHER = "other"


ABOUT_CUPY = frozenset(
    {
        Cause.CUPY_TOO_OLD_FOR_GPU,
        Cause.CUPY_NOT_INSTALLED,
        Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        Cause.MULTIPLE_CUPY_PACKAGES,
        Cause.CUPY_SDIST_BUILD_FAILURE,
        Cause.CUPY_SHADOWED,
        Cause.TORCH_CUPY_CONFLICT,
        Cause.UNTRUSTED_PACKAGE_NAME,
        Cause.CUPY_API_VERSION_INCOMPATIBLE,
        Cause.CUPY_VARIABLE_INVALID,
        Cause.NUMPY_SEMANTICS_DIFFERENCE,
    }
)
"""Causes of CuPy's own, in any program."""

_TAIL = 100_000  # characters; what raised is near the end of a log
# The patterns of the packages whose files in a traceback show each program
_PACKAGES = {
    Program.CUPY: ("cupyx?", "cupy_backends", "chainer"),
    Program.TORCH: (
        *("torch", r"torch(?:vision|audio|_geometric|_scatter|_sparse)", "functorch", "triton", "vllm", "sglang"),
        *("sgl_kernel", "transformers", "diffusers", "accelerate", "peft", "deepspeed", "xformers", "flash_attn"),
        *("bitsandbytes", "apex", "unsloth", "pytorch_lightning", "lightning", "detectron2", "mmcv", "mmdet"),
        *("fairseq", "ultralytics", "sentence_transformers", "lmdeploy", "exllamav2", "auto_gptq"),
    ),
    Program.JAX: ("jax", "jaxlib", "jax_plugins", r"jax_cuda\d+_p\w{1,40}", "flax", "haiku", "optax"),
    Program.TENSORFLOW: ("tensorflow", "tensorflow_core", "keras", "tf_keras", "tensorflow_probability"),
    Program.NUMBA: ("numba", "numba_cuda", "llvmlite"),
    Program.RAPIDS: (
        *("cudf", "cuml", "cugraph", "cuspatial", "cuxfilter", "cucim", "cuvs", "rmm", "raft_dask", "pylibraft"),
        *("pylibcudf", "dask_cudf", "dask_cuda", "cudf_polars", "ptxcompiler"),
    ),
    Program.OTHER: (
        *("onnxruntime", "paddle", "mxnet", "pycuda", "pyopencl", "tensorrt", "llama_cpp", "ctranslate2"),
        *("faster_whisper", "gpaw", "warp", "pynvml", "open3d", "cv2", "lightgbm", "xgboost", "catboost", "sklearn"),
    ),
}
# Messages that only that program prints
_MESSAGES = {
    Program.CUPY: (
        r"\bcupyx?(?:_backends)?\.[\w.]{1,120}(?:Error|Warning)\b",
        r"\bcupy(?:x|_backends)?[\\/][\w\\/]{1,200}\.(?:py|cpp|cu)",
        r"CuPy failed to load|CuPy is not correctly installed|Failed to import CuPy|cupy_setup_build|cupy_builder",
        r"Implicit conversion to a NumPy array is not allowed|module 'cupyx?[\w.]*' has no attribute",
        r"(?:wheel for|requirement|distribution found for) cupy\b|MemoryPool\(\)|mempool\.free_all_blocks",
    ),
    Program.TORCH: (
        r"\btorch\.(?:\w{1,40}\.){0,6}\w{0,60}(?:Error|Warning)\b|\bc10::|\bat::|torch[\\/]csrc|\baten[\\/]src|\bTHC\w+\.c",
        r"/pytorch/|pytorch_\d{10}|\btorch_extensions\b|libtorch\w*\.so|libc10\w*\.so|triton\.runtime",
        r"Torch not compiled with CUDA|kernel errors might be asynchronously|TORCH_USE_CUDA_DSA",
        r"current PyTorch installation|[Nn]o CUDA GPUs are available|Cannot re-initialize CUDA in forked",
        r"Found no NVIDIA driver on your system|NVIDIA driver on your system is too old|CUDA out of memory\. Tried",
        r"Attempting to deserialize object on|from cudaGetDeviceCount\(\)|No CUDA runtime is found, using CUDA_HOME",
        r"Torch is not able to use GPU|RuntimeError: CUDA (?:driver )?error:|cuda runtime error(?: \(\d+\))? ?:",
        r"RuntimeError: (?:cuDNN|CUDNN|cuFFT|NCCL|CUBLAS) error|STATUS_\w{1,60} when calling|CUDA initialization: ",
        r"all tensors to be on the same device|can't convert (?:cuda|CUDA)|torch\.cuda\.is_available\(\)",
        r"RuntimeError: nvrtc: error",
        r"No available memory for the cache blocks|\bEngineCore\b|detected CUDA version .{0,60} mismatches",
    ),
    Program.JAX: (
        r"\b(?:Xla|Jax)RuntimeError|external[\\/](?:org_tensorflow|xla)[\\/]\S*|\bjax\.(?:errors|lib|_src)\b",
        r"xla_bridge|Unable to initialize backend|Backend 'cuda' failed to initialize|No GPU/TPU found",
        r"CUDA-enabled jaxlib",
    ),
    Program.TENSORFLOW: (
        r"(?<!\w)tensorflow[\\/](?:core|compiler|stream_executor|tsl|python)[\\/]|tensorflow\.python|\btf\.errors\.",
        r"This TensorFlow binary|TF-TRT|Could not load dynamic library '|Cannot dlopen some GPU libraries",
        r"external[\\/]local_(?:xla|tsl)|ResourceExhaustedError",
    ),
    Program.NUMBA: (
        r"\bnumba\.(?:cuda|core|np)\b|NvvmSupportError|CudaSupportError|CudaAPIError|Numba\w{0,60}Warning",
        r"[Cc]all to cu\w+ results in|cannot cache function",
    ),
    Program.RAPIDS: (
        r"\b(?:rmm|raft|cudf|cugraph)::|(?<![a-z])lib(?:rmm|cudf|cuml|cugraph|raft)(?![a-z])",
        r"\bcu(?:df|ml)\.\w|RMM_ERROR|RMM failure|\.to_cupy\(\)",
        r"std::bad_alloc: (?:out_of_memory: )?CUDA error",
    ),
    Program.CONTAINER: (
        r"response from daemon|nvidia-container-(?:cli|runtime)\b|nvidia-ctk|libnvidia-container|OCI runtime",
        r"could not select device driver|[Uu]nknown runtime specified|RunContainerError|FailedScheduling",
        r"Insufficient nvidia|nvidia-device-plugin|[Cc]ould not load NVML|unresolvable CDI|setting up CDI|\bcdi: ",
        r"failed to create (?:shim|containerd)|invalid capability specified|pull access denied|manifest unknown",
        r"nvidia-driver-daemonset|Starting installation of NVIDIA driver (?:version|branch)",
    ),
    Program.OTHER: (
        r"\bggml[_-]|\bllama_|\[?ONNXRuntime|onnxruntime::|CUDAExecutionP|mxnet/|\bpaddle(?:::|/)|pycuda\.",
        r"\bnvcc (?:fatal|error)|\bptxas (?:fatal|error)|CMake Error|\bdkms\b|\bmodprobe\b|\bNVRM:",
    ),
}
# Its names in commands and prose
_NAMES = {
    Program.CUPY: (r"\b[Cc]u[Pp]yx?\b", r"\bcp\.(?:array|cuda|zeros|ones|asarray|RawKernel)\b"),
    Program.TORCH: (
        r"\b(?:[Pp]y)?[Tt]orch(?:vision|audio|run)?\b|\bv[Ll][Ll][Mm]\b|\b[Ss][Gg][Ll]ang|[Cc]omfy[Uu][Ii]|webui",
        r"[Ss]table[- ][Dd]iffusion|AUTOMATIC1111|[Tt]ransformers\b|[Dd]iffusers\b|DeepSpeed|xformers|bitsandbytes",
        r"flash[-_]attn|\.cuda\(\)|device='cuda|\bfastai\b|[Dd]etectron|mmcv",
    ),
    Program.JAX: (r"\bjax(?:lib)?\b|\bJAX\b|[Aa]lpha[Ff]old",),
    Program.TENSORFLOW: (r"\b[Tt]ensor[Ff]low(?:-gpu)?\b|\b[Kk]eras\b",),
    Program.NUMBA: (r"\b[Nn]umba\b",),
    Program.RAPIDS: (r"\bcu(?:DF|ML|Graph|df|ml|graph)\b|\b(?:RAPIDS|rapids(?:ai)?|rmm)\b",),
    Program.OTHER: (
        r"\b[Oo]llama\b|llama\.cpp|koboldcpp|[Oo]nnx[Rr]untime|ONNX Runtime|\b[Mm][Xx][Nn]et\b|[Pp]addle|\bnvcc\b",
    ),
}
_ENGINES = {
    Program.CONTAINER: (
        r"\b(?:docker|podman|nerdctl|kubectl|singularity|apptainer)(?:-compose)? (?:run|compose|exec|up)\b",
        r"\bkubelet\b|\bcontainerd\b|nvidia-docker",
    )
}
# Text about a CuPy that is missing or should be installed; CuPy is then not the failing program.
_HINT = (
    r"(?:[Pp]lease|[Yy]ou (?:can|may|need to|should|must)|[Tt]ry|[Rr]equires?|[Nn]eeds?) (?:to )?"
    r"(?:(?:pip |conda )?install(?:ing)? )?[\"'`]?[Cc]u[Pp]y\S*"
    r"|[Cc]u[Pp]y(?: is)? not (?:installed|found|available)|//\S{0,80}cupy\S*"
)


def _one_of(patterns: Mapping[Program, Iterable[str]], form: str) -> str:
    return "|".join(form.format(program.value, "|".join(texts)) for program, texts in patterns.items())


# Two groups of one expression cannot share a name: those of packages end in _.
_FRAMES = _one_of(
    _PACKAGES, r"(?:(?:site|dist)-packages[\\/]|File \"|/)(?P<{}_>{})[\\/][\w\\/.-]{{1,200}}\.(?:pyx?|pyd|so|dll)\b"
)
_RAISING = pattern(f"{_HINT}|{_FRAMES}|{_one_of(_MESSAGES, '(?P<{}>{})')}")
_NAMED = pattern(f"{_HINT}|{_one_of(_NAMES, '(?P<{}>{})')}")
_STARTED = pattern(_one_of(_ENGINES, "(?P<{}>{})"))


def program_of(text: str) -> Program:
    """The program that fails: the last one with frames or messages in the text, else the one named most often."""
    tail = text[-_TAIL:]
    if raising := _programs(_RAISING, tail):
        return raising[-1]
    for names in (_NAMED, _STARTED):
        if named := _programs(names, tail):
            return Counter(named).most_common(1)[0][0]
    return Program.OTHER


def _programs(evidence: re.Pattern[str], text: str) -> list[Program]:
    return [Program(match.lastgroup.rstrip("_")) for match in evidence.finditer(text) if match.lastgroup]


class ProgramFix(NamedTuple):
    """A row of the table: one step for the users of the programs; the command is a shell's line, empty if none."""

    cause: str
    programs: str
    text: str
    command: str
    shell_line: str
    source: str


_SEPARATOR, _ANY_OTHER = "; ", "*"
_RESOLVE = ("gpuenv", "resolve")
_CUPY_WORDS = pattern(r"(?i)cupy|mempool\b")


@lru_cache(maxsize=1)
def program_fixes() -> tuple[ProgramFix, ...]:
    """All rows."""
    return tuple(ProgramFix(*row) for row in read_rows("program_fixes.csv")[1:])


def fixes_for(cause: Cause, program: Program) -> tuple[Fix, ...]:
    """The fixes of a cause for the users of a program, the best first."""
    if rows := _rows_of(cause, program):
        return tuple(
            Fix(row.text, tuple(shlex.split(row.command)) or None, shell_line=row.shell_line or None) for row in rows
        )
    if program is Program.CUPY or cause in ABOUT_CUPY:
        return cause.fix
    return tuple(fix for fix in cause.fix if not is_for_cupy(fix))


def is_for_cupy(fix: Fix) -> bool:
    """Whether a fix helps users of CuPy only."""
    return fix.command == _RESOLVE or bool(_CUPY_WORDS.search(" ".join((fix.text, *(fix.command or ())))))


def _rows_of(cause: Cause, program: Program) -> tuple[ProgramFix, ...]:
    of_cause = [(row.programs.split(_SEPARATOR), row) for row in program_fixes() if row.cause == cause.value]
    own = tuple(row for programs, row in of_cause if program.value in programs)
    if own or program is Program.CUPY:
        return own
    return tuple(row for programs, row in of_cause if _ANY_OTHER in programs)
