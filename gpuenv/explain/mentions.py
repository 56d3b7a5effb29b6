"""Recognizes lines that mention an error without reporting one: source code, hints, change lists, tables of codes."""

from __future__ import annotations

import re

from gpuenv.explain.explanation_types import QuotedLine

# The constants of errors in CUDA's headers and documentation
_CONSTANT = (
    r"(?:cuda[A-Z]\w{2,60}|CUDA_(?:ERROR_\w{1,60}|SUCCESS)|CU[A-Z]{2,12}_STATUS_\w{1,60}|NV[A-Z]{2,12}_ERROR\w{0,60})"
)
# Code that would print or catch an error, and entries of a list of changes. ``raise`` is not included, since a
# truncated traceback may end with it.
_CODE = re.compile(
    r"\s*(?:(?:\w{1,40}\.){0,4}(?:log|logger|logging|warnings)\.(?:debug|info|warn|warning|error|exception|critical)\("
    r"|case [\w:.]{1,80}:|(?:static |const ){1,3}char\b|#\s?define |(?:std::)?f?printf\(|throw [\w:]{1,80}\("
    r"|with pytest\.raises\(|self\.assertRaises|except [\w.(), ]{1,120}:"
    r"|return f?[\"']|(?:\}\s*)?(?:else )?(?:el)?if\b.{1,160}(?:==|!=|\bin [({\[]).{1,160}[:{)]\s*(?:(?://|#).*)?$"
    r"|[-*+] (?:feat|fix|docs|chore|refactor|perf|test|ci|build)(?:\([\w./-]{1,40}\))?!?: )"
)
# Descriptions of a constant in headers and documentation: its number, and when a call returns it
_TABLE = re.compile(
    rf"\W{{0,4}}{_CONSTANT}\W{{1,3}}= ?(?:0x)?\d{{1,5}}\b"
    rf"|\W{{0,4}}{_CONSTANT} ?(?:\(\d{{1,5}}\))?\W{{1,4}}"
    r"(?:this (?:error|status|code|result|return)\b|indicates\b"
    r"|(?:usually )?(?:returned (?:when|if|in case|where)|caused by)\b)"
    rf"|\W{{0,4}}{_CONSTANT} ?\(\d{{1,5}}\)\W{{1,4}}the \w.{{0,160}}\b(?:usually|is|are) returned\b"
    rf"|.{{0,200}}\b(?:returns?|one of|either) {_CONSTANT}(?:, {_CONSTANT}){{0,12}},? (?:or|and) {_CONSTANT}"
)
# Hints that programs print after every error of a kind. Sources: CuPy, cupy/_environment.py,
# _diagnose_cuda_path and the banner of an import that fails; PyTorch, c10/cuda/CUDAException.cpp and
# torch/cuda/__init__.py.
_HINT = re.compile(
    r"\W{0,4}(?:"
    r"If you installed CuPy via wheels|package matches with the version of CUDA or ROCm installed"
    r"|make sure that the package matches with|with the version of CUDA (?:or ROCm )?installed"
    r"|On Linux, you may need to set LD_LIBRARY_PATH|on how you installed CUDA"
    r"|On Windows, (?:try|you may need to) set|Check the Installation Guide for details|https?://docs\.cupy\.dev/\S*$"
    r"|CUDA kernel errors might be asynchronously reported|For debugging consider passing CUDA_LAUNCH_BLOCKING"
    r"|Compile with `?TORCH_USE_CUDA_DSA|Device-side assertion tracking was not enabled by user"
    r"|Search for `cuda\w+' in https?://|Please report a bug to PyTorch)"
)
_FRAME = re.compile(r"\s*File \"[^\"]+\", line \d+(?:, in .+)?$")
_RAISED = re.compile(r"(?:\w{1,60}\.){0,9}_?[A-Z]\w{2,80}(?:: |:?$)")  # frames of compiled code show no source
_ARROW = re.compile(r"\s*(?:-+>|\u2771|>) ?\d+ ")  # IPython, rich, pytest


def is_mention_only(line: str) -> bool:
    """Whether a line only mentions errors."""
    return any(pattern.match(line) for pattern in (_CODE, _TABLE, _HINT))


def is_source_line(line: QuotedLine, previous: QuotedLine) -> bool:
    """Whether a line is the source code that a traceback shows for a frame."""
    follows = line.number - previous.number in {0, 1} and _FRAME.match(previous.text) is not None
    return (follows and not _FRAME.match(line.text) and not _RAISED.match(line.text)) or _ARROW.match(
        line.text
    ) is not None
