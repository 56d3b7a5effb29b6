"""Features of a text apart from its words: calls of CuPy and NumPy, prompts, tracebacks, the packages of its files.

A comparison of ``cp.clip`` with ``np.clip`` and one of ``cp.around`` with ``np.around`` have no telling word in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CUPY_CALL = re.compile(r"\b(?:cp|cupyx?|xp)\.(?:\w+\.)*(\w+)\(")
_NUMPY_CALL = re.compile(r"\b(?:np|numpy)\.(?:\w+\.)*(\w+)\(")
_PROMPT = re.compile(r"^\s*(?:>>>|In ?\[\d+\]:)", re.MULTILINE)
_SHELL = re.compile(r"^\s*\$ ", re.MULTILINE)
_ARRAY = re.compile(r"\barray\(|^\s*\[+\s*[-+\d.][-+\d. ,naiefj]*\]+", re.MULTILINE)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|^\s*File \"", re.MULTILINE)
_NAMED = re.compile(r"\w(?:Error|Exception)\b|\b[Ee]rror\b")
_SOURCE = re.compile(r"__global__|extern \"C\"|blockIdx|RawKernel|RawModule|ElementwiseKernel|ReductionKernel")
_FOLDER = re.compile(r"(?:site-packages|dist-packages)[/\\](\w+)[/\\]|\"(cupyx?|cupy_backends)/")


def features_of(text: str) -> Iterator[str]:
    """The names of the features that a text has; no word of a text can equal one."""
    cupy, numpy = set(_CUPY_CALL.findall(text)), set(_NUMPY_CALL.findall(text))
    features = {
        "(cupy call)": bool(cupy),
        "(numpy call)": bool(numpy),
        "(calls of both)": bool(cupy and numpy),
        "(the same call of both)": bool(cupy & numpy),
        "(prompt)": _PROMPT.search(text),
        "(shell)": _SHELL.search(text),
        "(array)": _ARRAY.search(text),
        "(kernel source)": _SOURCE.search(text),
        "(traceback)": _TRACEBACK.search(text),
        "(error named)": _NAMED.search(text),
        "(no error named)": not _NAMED.search(text),
    }
    yield from (name for name, there in features.items() if there)
    yield from sorted({f"(in {installed or own})" for installed, own in _FOLDER.findall(text)})


def compares(text: str) -> bool:
    """Whether the text calls the same function of CuPy and of NumPy."""
    return not set(_CUPY_CALL.findall(text)).isdisjoint(_NUMPY_CALL.findall(text))
