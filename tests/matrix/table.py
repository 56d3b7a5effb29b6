"""The table of answers: for every kind of machine the wheel that is named, as a text that people review.

``python -m tests.matrix.table`` writes it anew; a test holds the written one against what the resolver answers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from gpuenv.data import data_path
from gpuenv.matrix.assume import assume
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import choose
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Snapshot

FILE = Path(__file__).with_name("answers.txt")
PLATFORMS = (
    ("Linux x86_64, glibc 2.36", ("os=linux", "arch=x86_64", "libc=glibc-2.36")),
    ("Linux x86_64, glibc 2.17", ("os=linux", "arch=x86_64", "libc=glibc-2.17")),
    ("Linux aarch64, glibc 2.36", ("os=linux", "arch=aarch64", "libc=glibc-2.36")),
    ("Linux x86_64, musl", ("os=linux", "arch=x86_64", "libc=musl-1.2")),
    ("Windows x86_64", ("os=windows", "arch=x86_64")),
    ("Windows arm64", ("os=windows", "arch=aarch64")),
)
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15")
GPUS = (
    ("Kepler", ("3.0",)),
    ("Kepler", ("3.5",)),
    ("Kepler", ("3.7",)),
    ("Maxwell", ("5.2",)),
    ("Pascal", ("6.0",)),
    ("Volta", ("7.0",)),
    ("Turing", ("7.5",)),
    ("Ampere", ("8.0",)),
    ("Ampere", ("8.6",)),
    ("Ada", ("8.9",)),
    ("Hopper", ("9.0",)),
    ("Blackwell", ("10.0",)),
    ("Blackwell", ("10.3",)),
    ("Blackwell", ("12.0",)),
    ("Blackwell", ("12.1",)),
    ("Kepler + Ampere", ("3.7", "8.0")),
    ("Maxwell + Ampere", ("5.2", "8.6")),
    ("Pascal + Ada", ("6.0", "8.9")),
    ("Volta + Hopper", ("7.0", "9.0")),
    ("Volta + Blackwell", ("7.0", "10.0")),
    ("Turing + Blackwell", ("7.5", "12.0")),
    ("Hopper + Blackwell", ("9.0", "10.3")),
)
_SHORT = {
    "cupy-cuda102": "102",
    "cupy-cuda110": "110",
    "cupy-cuda111": "111",
    "cupy-cuda11x": "11x",
    "cupy-cuda12x": "12x",
    "cupy-cuda13x": "13x",
}
_TITLE = """\
The wheel that is named for each kind of machine, by driver branch. Written by `make answers`; read every change of it.
12x[ctk] 14.2.0 (>=12.8) is cupy-cuda12x[ctk]==14.2.0 with CUDA wheels from 12.8 on; a dash is no wheel at all.
A branch stands for its first release, so 450 is one that CUDA 11 refuses (it wants 450.80.02).
"""


def written(matrix: Matrix, platforms: int = len(PLATFORMS)) -> str:
    """The table, or its part for the first platforms."""
    return "\n".join([_TITLE, *_blocks(matrix, platforms)])


def _blocks(matrix: Matrix, platforms: int) -> Iterator[str]:
    for name, facts in PLATFORMS[:platforms]:
        kinds = [(python, "\n".join(_lines(matrix, (*facts, f"python={python}")))) for python in PYTHONS]
        for text, alike in groupby(kinds, key=lambda kind: kind[1]):
            yield f"{name}, Python {', '.join(python for python, _ in alike)}\n{text}\n"


def _lines(matrix: Matrix, facts: Sequence[str]) -> Iterator[str]:
    branches = [row.branch for row in matrix.driver_branches]
    rows = [
        (f"{name} {'+'.join(gpus)}", [_answer(snapshot, matrix) for snapshot in _row(matrix, facts, gpus)])
        for name, gpus in GPUS
    ]
    for answers, alike in groupby(rows, key=lambda row: row[1]):
        labels = [label for label, _ in alike]
        told = "every GPU" if len(labels) == len(GPUS) else ", ".join(labels)
        yield from wrap(f"{told}:", 118, initial_indent="  ", subsequent_indent="    ")
        yield f"      {'; '.join(_spans(branches, answers))}"


def _row(matrix: Matrix, facts: Sequence[str], gpus: Sequence[str]) -> Iterator[Snapshot]:
    """One machine a driver branch."""
    with_gpus = assume(Snapshot(), (*facts, *(f"gpu={_PRODUCTS[text]}" for text in gpus)), matrix)
    for row in matrix.driver_branches:
        yield assume(with_gpus, (f"driver={row.branch}",), matrix)


# A product of each capability, named so that no other one is meant.
_PRODUCTS = {
    "3.0": "GeForce GTX 680",
    "3.5": "Tesla K40m",
    "3.7": "Tesla K80",
    "5.2": "GeForce GTX 980",
    "6.0": "Tesla P100-PCIE-16GB",
    "7.0": "Tesla V100-SXM2-16GB",
    "7.5": "Tesla T4",
    "8.0": "NVIDIA A100-SXM4-80GB",
    "8.6": "NVIDIA GeForce RTX 3090",
    "8.9": "NVIDIA L4",
    "9.0": "NVIDIA H100 80GB HBM3",
    "10.0": "NVIDIA B200",
    "10.3": "NVIDIA B300",
    "12.0": "NVIDIA GeForce RTX 5090",
    "12.1": "NVIDIA GB10",
}


def _answer(snapshot: Snapshot, matrix: Matrix) -> str:
    wheel = choose(snapshot, matrix)
    if wheel is None:
        return "-"
    extra = f"[{wheel.extra}]" if wheel.extra else ""
    pins = "".join(f" ({pin.removeprefix('cuda-toolkit').partition(',')[0]})" for pin in wheel.requirements[1:])
    return f"{_SHORT[wheel.distribution]}{extra} {wheel.version}{pins}"


def _spans(branches: Sequence[int], answers: Sequence[str]) -> Iterator[str]:
    """``450-520 11x 13.6.0``; the last branch stands for those after it too."""
    for answer, alike in groupby(zip(branches, answers, strict=True), key=lambda pair: pair[1]):
        span = [branch for branch, _ in alike]
        yield f"{span[0]}{f'-{span[-1]}' if len(span) > 1 else ''} {answer}"


if __name__ == "__main__":
    FILE.write_text(written(load(data_path("matrix.yaml"))), encoding="utf-8")
    sys.stdout.write(f"{FILE}: written\n")
