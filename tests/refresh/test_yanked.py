"""Yanked releases, for any Python."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from gpuenv.refresh.additions import changed_yanks, yanked_turns
from gpuenv.refresh.package_index import Index, PipIndex, UvIndex, python_of
from tests.refresh.index_clients import index_client
from tests.refresh.local_index import LINUX, LocalIndex, make_wheel
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
    """The reason for which the newer release is yanked."""
    return "broken"


@pytest.fixture
def package_index(request: pytest.FixtureRequest, reason: str | Literal[True], tmp_path: Path) -> Iterator[Index]:
    wheels = [
        make_wheel(name, "15.0.0", f"{tag}-{tag}-{LINUX}", {})
        for name, tags in PYTHONS.items()
        for tag in tags
        if not tag.endswith("t")
    ]
    local_index = LocalIndex({wheel.file: wheel for wheel in wheels}, yanked={f"{NEW}==15.0.0": reason})
    with index_client(request.param, local_index, tmp_path) as index:
        yield index


@pytest.mark.parametrize("package_index", [UvIndex, PipIndex], indirect=True)
def test_each_release_is_queried_for_a_python_it_supports(package_index: Index) -> None:
    lines = tuple(_only(line) for line in MATRIX.wheel_lines if line.name in PYTHONS)
    matrix = replace(MATRIX, wheel_lines=lines, rocm_lines=())
    found = [changed_yanks(package_index, *turn) for turn in yanked_turns(matrix)]
    assert sorted(found) == [((), ()), (((NEW, "15.0.0", "broken"),), ())]


@pytest.mark.parametrize("package_index", [UvIndex, PipIndex], indirect=True)
@pytest.mark.parametrize("reason", [True])
def test_a_missing_reason_is_reported_as_missing(package_index: Index) -> None:
    assert package_index.yanked({NEW: "15.0.0"}, "3.12") == {NEW: "no reason given"}


@pytest.mark.parametrize(
    ("tags", "python"),
    [
        (("cp39", "cp311", "cp314t"), "3.11"),
        (("cp312", "cp313"), "3.12"),
        (("cp313t", "cp314"), "3.14"),
        (("py3",), "3.11"),
    ],
)
def test_a_python_is_selected_from_the_tags_of_a_release(tags: tuple[str, ...], python: str) -> None:
    assert python_of(tags) == python
