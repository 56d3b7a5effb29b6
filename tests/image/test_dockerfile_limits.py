"""Generated Dockerfiles of extreme size: check-image reads or refuses them in time."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.image_facts import ImageError
from tests.image.dockerfiles import DEVEL, SLIM, WHEEL, judged, located

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 30.0  # on a loaded machine


def stages(count: int, copies: int) -> str:
    """Stages, each of which copies from the ones before it."""
    lines = []
    for number in range(count):
        lines.append(f"FROM alpine:3.20 AS s{number}")
        lines += [f"COPY --from=s{number - each} /a{each} /a{each}" for each in range(1, min(number, copies) + 1)]
    return "\n".join(lines)


def test_stages_with_many_copies_are_evaluated_once(tmp_path: Path) -> None:
    started = time.monotonic()
    assert located(judged(tmp_path, stages(300, 2))) == []
    assert time.monotonic() - started < SECONDS


def test_copies_of_copies_of_copies_are_searched_once(tmp_path: Path) -> None:
    lines = ["FROM python:3.12-slim AS s0"]
    for number in range(1, 9):
        lines += [f"FROM python:3.12-slim AS s{number}"]
        lines += [f"COPY --from=s{number - 1} /a/b{each} /a/" for each in range(12)]
    started = time.monotonic()
    assert located(judged(tmp_path, "\n".join([*lines, "RUN pip install -r /a/r.txt"]))) == []
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (stages(2000, 1), "line 1000: more than 500 stages"),
        ("FROM alpine\n" + "".join(f"ENV A{n}=1\n" for n in range(40_000)), "line 1002: more than 1000 ARGs and ENVs"),
        ("FROM alpine\nRUN <<E\n" + "a\n" * 60_000 + "E\n", "line 2: more than 50000 commands"),
        (
            "FROM alpine\nRUN A='" + "true; " * 1000 + "'; " + 'sh -c "$A"; ' * 1000,
            "line 2: .* more than 1000000 characters",
        ),
        (
            "FROM alpine\nENV A=" + "a" * 15_000 + "\n" + "RUN echo $A\n" * 1000,
            "line 36: .* more than 1000000 characters",
        ),
        ("FROM alpine\nENV A=" + "a" * 15_000 + "\nENV B=$A$A", "line 3: .* more than 20000 characters"),
    ],
)
def test_too_much_to_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError, match=message) as refused:
        judged(tmp_path, text)
    assert refused.value.remedy == "check the built image: gpuenv check-image IMAGE"


def test_many_targets_of_one_long_stage_are_refused(tmp_path: Path) -> None:
    lines = [f"{WHEEL} {'a ' * 5000}".replace("RUN", "FROM python:3.12-slim AS base\nRUN")]
    lines += [f"FROM base AS s{number}" for number in range(300)]
    with pytest.raises(ImageError, match=r"more than 500000 words .*, with --target"):
        judged(tmp_path, "\n".join(lines))
    assert located(judged(tmp_path, "\n".join(lines), target="s7")) == [("DKF904", "Dockerfile", 2)]


@pytest.mark.parametrize(
    "text",
    [
        f"{DEVEL}\nCOPY {' '.join(f'f{n}' for n in range(3000))} /x/\nRUN pip install {'-r /x/y.txt ' * 3000}",
        f"{DEVEL}\nRUN {'--mount=type=cache ' * 3000} pip install {'-r /x/y.txt ' * 3000}",
        f"{SLIM}\n{WHEEL}\nRUN {'make install; ' * 10_000}",
    ],
)
def test_many_unknown_installs_are_noted_in_time(tmp_path: Path, text: str) -> None:
    started = time.monotonic()
    assert "DKF917" in {each.code for each in judged(tmp_path, text).findings}
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize(
    "text",
    [
        f"{SLIM}\nCOPY . /x/\nRUN pip install {'-r /x/r.txt ' * 300}",
        f"{SLIM} AS base\nCOPY . /x/\nRUN pip install -r /x/r.txt"
        + "".join(f"\nFROM base AS s{n}" for n in range(300)),
    ],
)
def test_a_long_file_that_is_often_installed_from_is_read_once(tmp_path: Path, text: str) -> None:
    started = time.monotonic()
    assert located(judged(tmp_path, text, {"r.txt": "\n".join(f"p{n}==1.0" for n in range(4900))})) == []
    assert time.monotonic() - started < SECONDS


def test_a_script_with_thousands_of_variables_is_read(tmp_path: Path) -> None:
    script = "".join(f"A{number}=1; true; " for number in range(15_000))
    started = time.monotonic()
    text = f"FROM nvidia/cuda:12.9.1-devel-ubuntu24.04\nRUN B=11; {script} pip install cupy-cuda${{B}}x==13.6.0"
    assert located(judged(tmp_path, text)) == [("DKF902", "Dockerfile", 2)]
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize("script", ["".join(f"A{n}=1; true; " for n in range(3_000)), "cd aaaaaa; " * 10_000])
def test_thousands_of_variables_or_folders_take_little_memory(tmp_path: Path, script: str) -> None:
    """A command that copied the variables it sees, or a path of any length, would take 300 MB here."""
    tracemalloc.start()
    try:
        judged(tmp_path, f"FROM nvidia/cuda:12.9.1-devel-ubuntu24.04\nRUN {script} pip install cupy-cuda12x")
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
