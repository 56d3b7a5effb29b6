"""Installs in loops and by xargs: every word of them counts as if it stood in a command of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.docker_parse import source_text
from gpuenv.image.dockerfile.judge_file import DockerfileOptions, judge_dockerfile
from gpuenv.image.dockerfile.shell import commands
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path


def ran(text: str) -> list[str]:
    return [
        " ".join(word.text for word in entry.words) for entry in commands(source_text(text, 1), {"LIST": "a b"}.get)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for p in a b; do pip install $p; done", ["pip install a", "pip install b"]),
        ('for p in a b; do pip install "x-${p}==1"; done', ["pip install x-a==1", "pip install x-b==1"]),
        ("for p in $LIST\ndo\npip install $p\ndone", ["pip install a", "pip install b"]),
        ("for a in 1 2; do for b in 3 4; do f $a$b; done; done", ["f 13", "f 14", "f 23", "f 24"]),
        ("for p in $(cat list); do pip install $p; done", ["pip install $p"]),
        ('for p in a b; do sh -c "pip install $p"; done', ["pip install a", "pip install b"]),
        ("echo a b | xargs pip install -q", ["echo a b", "pip install -q a b"]),
        ("printf '%s\\n' a b | xargs -n 1 -P4 pip install", ["printf %s\\n a b", "pip install a b"]),
        ("cat list.txt | xargs pip install", ["cat list.txt", "pip install -r list.txt"]),
        ("grep -v '^#' list.txt | xargs -n1 uv pip install", ["grep -v ^# list.txt", "uv pip install -r list.txt"]),
        ("cat list.txt | grep -v x | xargs -r pip install", ["cat list.txt", "grep -v x", "pip install"]),
        ("grep -v cupy list.txt | xargs -n1 pip install", ["grep -v cupy list.txt", "pip install"]),
        ("grep -v '^#\\|cupy' list.txt | xargs pip install", ["grep -v ^#\\|cupy list.txt", "pip install"]),
        ("grep cupy list.txt | xargs pip install", ["grep cupy list.txt", "pip install"]),
        ("sed '/cupy/d' list.txt | xargs pip install", ["sed /cupy/d list.txt", "pip install"]),
        ("cat a.txt b.txt | xargs pip install", ["cat a.txt b.txt", "pip install -r a.txt -r b.txt"]),
        ("grep -v '#' list.txt | xargs pip install", ["grep -v # list.txt", "pip install"]),
        ("grep -v '$' list.txt | xargs pip install", ["grep -v $ list.txt", "pip install"]),
        ("grep -v '^#' < list.txt | xargs pip install", ["grep -v ^#", "pip install"]),
        ("head -n 3 list.txt | xargs pip install", ["head -n 3 list.txt", "pip install"]),
        ("cut -d= -f1 list.txt | xargs pip install", ["cut -d= -f1 list.txt", "pip install"]),
        ("sort list.txt | uniq -d | xargs pip install", ["sort list.txt", "uniq -d", "pip install"]),
        ("sort -u list.txt | uniq | xargs pip install", ["sort -u list.txt", "uniq", "pip install -r list.txt"]),
        ("sed '/^#/d' list.txt | xargs pip install", ["sed /^#/d list.txt", "pip install -r list.txt"]),
        ("sed 's/#.*//' list.txt | xargs pip install", ["sed s/#.*// list.txt", "pip install -r list.txt"]),
        ("grep -Ev '^#|^$' list.txt | xargs pip install", ["grep -Ev ^#|^$ list.txt", "pip install -r list.txt"]),
        ("grep -vE '^(#|$)' list.txt | xargs pip install", ["grep -vE ^(#|$) list.txt", "pip install -r list.txt"]),
        ("grep -v '^\\s*#' list.txt | xargs pip install", ["grep -v ^\\s*# list.txt", "pip install -r list.txt"]),
        ("echo a b | xargs --replace pip install {}", ["echo a b", "pip install a b"]),
        ("echo a | xargs -I{} pip install {}==1", ["echo a", "pip install a==1"]),
        ("echo a | xargs -I % pip install %==1 %[x]", ["echo a", "pip install a==1 a[x]"]),
        ("echo a | xargs -i pip install {}==1", ["echo a", "pip install a==1"]),
        ("echo a | xargs --replace=@ pip install @==1", ["echo a", "pip install a==1"]),
        ("echo a b | xargs --max-lines pip install -q", ["echo a b", "pip install -q a b"]),
        ("printf '%s\\n' a b | xargs -I{} pip install {}==1", ["printf %s\\n a b", "pip install a==1 b==1"]),
        ("cat list.txt | xargs -I{} pip install {}", ["cat list.txt", "pip install -r list.txt"]),
        ("cat list.txt | xargs -I{} pip install {}==1", ["cat list.txt", "pip install {}==1"]),
        ("xargs -a list.txt pip install", ["pip install -r list.txt"]),
        ("cat list.txt | xargs apt-get install -y", ["cat list.txt", "apt-get install -y"]),
        ("make list | xargs pip install", ["make list", "pip install"]),
        ("true; xargs pip install", ["true", "pip install"]),
    ],
)  # fmt: skip
def test_loops_and_xargs_are_followed(text: str, expected: list[str]) -> None:
    assert [entry.replace("${p}", "$p") for entry in ran(text)] == expected


@pytest.mark.parametrize(
    "run",
    [
        "for p in numpy cupy-cuda13x==14.2.0; do pip install $p; done",
        "for n in 13; do pip install cupy-cuda${n}x==14.2.0; done",
        "echo cupy-cuda13x==14.2.0 | xargs pip install",
        "cat list.txt | xargs -n 1 pip install",
    ],
)
def test_a_line_that_does_not_fit_is_found_in_them(tmp_path: Path, run: str) -> None:
    (tmp_path / "list.txt").write_text("# of another CUDA\ncupy-cuda13x==14.2.0\n")
    file = tmp_path / "Dockerfile"
    file.write_text(f"FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nCOPY list.txt .\nRUN {run}\n")
    assert [entry.code for entry in judge_dockerfile(file, DockerfileOptions(), MATRIX).findings] == ["DKF902"]


@pytest.mark.parametrize(
    ("loop", "named"),
    [
        ("for f in a b; do pip install -r $f.txt; done", [("a.txt", "no COPY"), ("b.txt", "no COPY")]),
        ("for f in reqs/*.txt; do pip install -r $f; done", [("*.txt", "pattern")]),
    ],
)
def test_every_list_that_is_not_read_is_named(tmp_path: Path, loop: str, named: list[tuple[str, str]]) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(f"FROM python:3.12-slim\nWORKDIR /app\nCOPY . /app\nRUN {loop}\n")
    titles = [
        entry.title for entry in judge_dockerfile(file, DockerfileOptions(), MATRIX).findings if entry.code == "DKF917"
    ]
    assert len(titles) == len(named)
    assert all(name in title and why in title for title, (name, why) in zip(titles, named, strict=True))


def test_a_folder_of_a_loop_ends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.12-slim\nRUN for d in a b; do cd $d && pip install -r r.txt && cd ..; done\n")
    assert [entry.code for entry in judge_dockerfile(file, DockerfileOptions(), MATRIX).findings] == [
        "DKF917"
    ]  # a note
