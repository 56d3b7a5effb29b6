"""Releases that were withdrawn, of whichever Pythons they are for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from gpuenv.refresh.additions import find_yanked
from gpuenv.refresh.package_index import Index, PipIndex, UvIndex, python_of
from tests.refresh.index_clients import asking
from tests.refresh.local_index import LINUX, LocalIndex, make
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuenv.matrix.tables import WheelLine

OLD, NEW = "cupy-cuda12x", "cupy-cuda13x"
PYTHONS = {OLD: ("cp310", "cp311"), NEW: ("cp312", "cp314", "cp314t")}


def _only(line: WheelLine) -> WheelLine:
    return line._replace(releases=(line.releases[0]._replace(cupy="15.0.0", pythons=PYTHONS[line.name]),))


@pytest.fixture
def reason() -> str | Literal[True]:
    """Why the newer one was withdrawn, as the index has it."""
    return "broken"


@pytest.fixture
def asked(request: pytest.FixtureRequest, reason: str | Literal[True], tmp_path: Path) -> Iterator[Index]:
    wheels = [
        make(name, "15.0.0", f"{tag}-{tag}-{LINUX}", {})
        for name, tags in PYTHONS.items()
        for tag in tags
        if not tag.endswith("t")
    ]
    there = LocalIndex({wheel.file: wheel for wheel in wheels}, yanked={f"{NEW}==15.0.0": reason})
    with asking(request.param, there, tmp_path) as index:
        yield index


@pytest.mark.parametrize("asked", [UvIndex, PipIndex], indirect=True)
def test_each_is_asked_for_with_a_python_of_its_own(asked: Index) -> None:
    lines = tuple(_only(line) for line in MATRIX.wheel_lines if line.name in PYTHONS)
    matrix = replace(MATRIX, wheel_lines=lines, rocm_lines=())
    assert find_yanked(matrix, asked) == (((NEW, "15.0.0", "broken"),), ())


@pytest.mark.parametrize("asked", [UvIndex, PipIndex], indirect=True)
@pytest.mark.parametrize("reason", [True])
def test_a_reason_that_nobody_gave_is_said_to_be_none(asked: Index) -> None:
    assert asked.yanked({NEW: "15.0.0"}, "3.12") == {NEW: "no reason given"}


@pytest.mark.parametrize(
    ("tags", "python"),
    [
        (("cp39", "cp311", "cp314t"), "3.11"),
        (("cp312", "cp313"), "3.12"),
        (("cp313t", "cp314"), "3.14"),
        (("py3",), "3.11"),
    ],
)
def test_the_python_that_a_release_is_asked_for_with(tags: tuple[str, ...], python: str) -> None:
    assert python_of(tags) == python
