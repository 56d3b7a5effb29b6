"""Evidence about which CuPy a text concerns, and which part of it: it changes the weights of causes."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Signature
from gpuenv.explain.signatures.evidence_common import evidence

_TEXT = "the text around an error"

SIGNATURES = (
    evidence("cupyx", ("cupyx",)),
    Signature(
        "mark.cupy-alias",
        _TEXT,
        ("cp.",),
        (),
        _TEXT,
        pattern=r"\bcp\.(?:as(?:array|numpy)|array|cuda|zeros|ones|arange|empty|random|linalg|fft|Raw(?:Kernel|Module)|ndarray)\b",
        level=Level.EVIDENCE,
        evidence="cupy",
    ),
    evidence("cupy-asks", ("cupy",), r"\.p(?:yx|xi)\"?,? (?:line \d+,? )?in (?:init )?cupy\w*\."),
    evidence(
        "cupy-asks-at-start",  # while it imports its own parts: whatever is above it has not come to ask yet
        ("cupy",),
        r"File \".*[/\\]cupyx?[/\\](?:\w+[/\\])?__init__\S{3,5}, line \d+, in <module>\W{0,8}(?:from|import) cupy",
    ),
    evidence("cupy-banner", ("original error",), r"Original error:"),
    evidence(
        "cupy-crash-frame",
        ("cupy",),
        r"Extension modules: .*\bcupy|File \".*[/\\]cupyx?[/\\].*\", line \d+ in |\bcupy\S*\.(?:so|pyd)\b|import cupy[^\n]{0,80}(?:Segmentation|SIGSEGV)",
    ),
    evidence("cupy-8", ("cupy_backends",)),
    evidence("nvrtc-error-named", ("nvrtcerror",), r"NVRTCError: NVRTC_ERROR_INVALID_OPTION"),
    evidence("cupy-driver-error", ("cudadrivererror",)),
    evidence("cupy-runtime-error", ("cudaruntimeerror",)),
    evidence("cupy-device-init", ("device.__init__",), r"cupy\.cuda\.device\.Device\.__init__"),
    evidence("launch-frame", ("launchkernel", "_launch"), r"launchKernel|function\._launch|linear_launch"),
    evidence("func-attribute", ("funcsetattribute",)),
    evidence(
        "cupy-own-kernel",
        ("_cub_reduction", "_routines_", "_cub_device"),
        r"cupy\._core\.(?:_cub_reduction|_routines_\w+)|cupy\\_core\\_cub_reduction",
    ),
    evidence("user-kernel", ("rawkernel", "rawmodule", "elementwisekernel")),
    evidence(
        "old-cupy",  # before CuPy 8, whose newest CUDA is 11.0
        ("cupy/core/", "cupy/cuda/nvrtc", "cupy\\core\\", "cupy.cuda.nvrtc", "cupy.core."),
        r"cupy[/\\]core[/\\]|cupy[/\\]cuda[/\\]nvrtc\.pyx|cupy\.cuda\.nvrtc\.|cupy\.core\.",
    ),
    evidence("requested-fermi-kepler", ("-arch=compute_",), r"-arch=compute_(?:2\d|30)\b"),
    evidence("cache-folder", ("makedirs", "mkdir"), r"makedirs\(self\._cache_dir|\bmakedirs\b.*cache"),
    evidence("failed-to-import-cupy", ("failed to import cupy",)),
    evidence("own-cupy-file", ("cupy.py",), r"[/\\]cupy\.py\b"),
    evidence("cupy-files", ("no module named 'cupy.cuda",)),
)
