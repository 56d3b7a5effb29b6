"""Wrong wheels, a missing index, and a broken CuPy or framework: the former state is restored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.install.sandbox import Ground, Index, contents
from tests.install.test_killed_installs import BEFORE
from tests.install.wheels import CUPY, SET, Package, cupy, make_wheel

(RIGHT,) = [package for package in SET if package.stem == "cupy_cuda12x-14.2.0"]


@contextmanager
def with_another(wheel: Package, folder: Path, ground: Ground) -> Iterator[Ground]:
    """The same ground, whose index has this in the place of the sound wheel of its name and release."""
    sound = [package for package in SET if package.stem != wheel.stem]
    with closing(Index(folder / "other", [*sound, wheel])) as index:
        other = Ground(index, ground.folder / folder.name, ground.libraries)
        other.folder.mkdir()
        yield other


def beginning(text: str) -> Package:
    """The right CuPy, but for what runs when it is imported."""
    files = {**RIGHT.files, "cupy/__init__.py": text}
    return Package(RIGHT.name, RIGHT.release, RIGHT.requires, RIGHT.extras, files)


@pytest.mark.parametrize("fault", ["cut", "swapped"])
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_wheel_that_is_not_what_the_index_told(ground: Ground, tmp_path: Path, installer: str, fault: str) -> None:
    """The connection ends in the middle of it, or another wheel is given under its name."""
    target = ground.target("whole", *BEFORE, pip=installer == "pip")
    before = contents(target)
    other = make_wheel(tmp_path, cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=1"))
    assert other.name == CUPY
    content = other.read_bytes()
    ground.index.replacements[CUPY] = content[: len(content) // 2] if fault == "cut" else content
    done = ground.install(target, "--installer", installer)
    assert done.returncode == 4, done.stderr
    assert done.stdout == ""
    assert ("hash" in done.stderr.lower()) == (fault == "swapped" or installer == "pip"), done.stderr
    assert contents(target) == before
    assert ground.gpuenv("rollback", "--python", target, "--list").returncode == 0
    assert contents(target) == before


def test_an_index_that_is_gone(ground: Ground) -> None:
    target = ground.target("gone", *BEFORE)
    before = contents(target)
    ground.index.close()
    done = ground.install(target)
    assert done.returncode == 4, done.stderr
    assert contents(target) == before


def test_a_wheel_whose_record_lies(tmp_path: Path, ground: Ground) -> None:
    """Its bytes are those that the index tells, and one of its files is not what its RECORD says."""
    liar = Package(
        RIGHT.name, RIGHT.release, RIGHT.requires, RIGHT.extras, RIGHT.files, wrong_digests=("cupy/part3.py",)
    )
    with with_another(liar, tmp_path, ground) as lying:
        target = lying.target("record", *BEFORE[:1])
        before = contents(target)
        done = lying.install(target)
    assert done.returncode == 4, done.stderr
    assert "cupy/part3.py" in done.stderr
    assert contents(target) == before


def test_a_cupy_that_cannot_be_imported_is_taken_back(tmp_path: Path, ground: Ground) -> None:
    with with_another(beginning("import nothing_of_that_name\n"), tmp_path, ground) as other:
        target = other.target("import", *BEFORE)
        before = contents(target)
        done = other.install(target, "--format", "json")
    assert done.returncode == 4, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == "restored"
    assert "nothing_of_that_name" in told["message"]
    assert "the former state was restored" in told["message"]
    assert contents(target) == before


def test_a_cupy_that_is_imported_first_is_told_with_what_to_do(tmp_path: Path, ground: Ground) -> None:
    """A folder of that name on PYTHONPATH, of which no metadata tell."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/__init__.py").write_text("__version__ = '1.0'\n", encoding="utf-8")
    target = ground.target("shadowed")
    before = contents(target)
    done = ground.install(target, PYTHONPATH=str(tmp_path))
    assert done.returncode == 4, done.stderr
    assert str(tmp_path / "cupy/__init__.py") in done.stdout
    assert "off PYTHONPATH" in " ".join(done.stdout.split())
    assert contents(target) == before


def test_who_else_was_at_work_meanwhile_is_told(tmp_path: Path, ground: Ground) -> None:
    """Another installer, at the time of the proof: all is put back, and what it has brought is there beside."""
    brings = (
        "import pathlib\n"
        "place = pathlib.Path(__file__).parents[1] / 'late-1.0.dist-info'\n"
        "place.mkdir(exist_ok=True)\n"
        "(place / 'METADATA').write_text('Metadata-Version: 2.1\\nName: late\\nVersion: 1.0\\n')\n"
        "raise SystemExit('ended')\n"
    )
    with with_another(beginning(brings), tmp_path, ground) as other:
        target = other.target("meanwhile", *BEFORE)
        before = contents(target)
        done = other.install(target, "--format", "json")
    assert done.returncode == 4, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == "restored"
    assert told["message"].endswith("but another program changed the environment meanwhile: late 1.0.")
    assert "doctor --fix" in told["remedy"]
    new = set(contents(target)) - set(before)
    assert {Path(place).name for place in new} == {"late-1.0.dist-info", "METADATA"}


def test_a_framework_that_worked_before_must_work_after(tmp_path: Path, ground: Ground) -> None:
    torch = Package("torch", "2.6.0", files={"torch/__init__.py": "import nvidia.cu13.n13\n"})  # and does not say so
    with with_another(torch, tmp_path, ground) as other:
        target = other.target("framework", "nvidia-cuda-nvrtc==13.5.37", "torch==2.6.0")
        before = contents(target)
        done = other.install(target)
    assert done.returncode == 4, done.stderr
    assert "import torch" in done.stdout
    assert contents(target) == before
