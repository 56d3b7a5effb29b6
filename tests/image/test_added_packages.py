"""Packages and libraries that a user adds to an image: ``--package``, ``--requirements`` and ``--with``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuenv.image.build.packages import (
    AddedPackageError,
    NoWheelsError,
    added_packages,
    lock_image,
    optional_library,
)
from gpuenv.install.backends.base import InstallerOptions, TimeBudget
from gpuenv.install.backends.uv import Uv
from gpuenv.install.installer_config import InstallerRun
from gpuenv.install.pip_settings import PipSettings
from gpuenv.probe.children import ChildGroup
from tests.cli.program import answer, gpuenv
from tests.install.sandbox import Index
from tests.install.wheels import SET, numpy

PRINT = ("build-image", "--print", "--no-probe", "--cuda", "12.9")
DIGEST = "0" * 64


def test_packages_and_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("six\n")
    file = tmp_path / "requirements.txt"
    file.write_text(
        "# comment\n\npandas >=2,<3  # kept below 3\nscipy \\\n  ==1.16.* ; python_version >= '3.9'\n-r more.txt\n"
    )
    added = added_packages(["Polars[gpu]>=1"], [file])
    assert added.requirements == ["Polars[gpu]>=1", "pandas<3,>=2", 'scipy==1.16.*; python_version >= "3.9"', "six"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-e .", "line 2: -e cannot be honoured"),
        ("--editable=.", "line 2: --editable cannot be honoured"),
        ("./local", "line 2: expected a name"),
        ("dist/own-1.0-py3-none-any.whl", "line 2: expected a name"),
        ("own @ file:///own.whl", "line 2: an address cannot be locked"),
        ("git+https://example.invalid/own", "line 2: expected a name"),
        ("--extra-index-url https://index.invalid/simple", "line 2: --extra-index-url cannot be honoured"),
        ("-i https://index.invalid/simple", "line 2: -i cannot be honoured"),
        ("--no-binary :all:", "line 2: --no-binary cannot be honoured"),
        ("six --config-settings=a=b", "line 2: expected a name"),
        ("-r requirements.txt", "line 2): it includes itself"),
        ("-r sub/back.txt", "line 1): it includes itself"),
        ("-r absent.txt", "line 2): No such file or directory"),
        ("-r a\0b.txt", "requirements.txt, line 2): "),  # what follows depends on the release of Python
    ],
)
def test_a_line_that_cannot_be_locked_is_refused_with_its_number(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"six\n{line}\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/back.txt").write_text("-r ../requirements.txt\n")
    with pytest.raises(AddedPackageError, match=re.escape(message)) as caught:
        added_packages((), [file])
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("text", ["./own", "own @ https://x.invalid/own.whl"])
def test_a_package_that_cannot_be_locked_is_refused(text: str) -> None:
    with pytest.raises(AddedPackageError, match=f"^--package {text}: "):
        added_packages([text], ())


def test_packages_and_libraries_are_added_to_the_requirements_of_the_image() -> None:
    options = ("--package", "pandas", "--with", "nccl", "--with", "cutensor,nccl", "--python", "3.12")
    code, plan = answer(*PRINT, *options)
    (image,) = plan["images"]
    assert (code, image["choice"]["requirements"]) == (
        0,
        [
            "cupy-cuda12x[ctk]==14.2.0",
            "cuda-toolkit==12.9.*",
            *("nvidia-nccl-cu12>=2.18.1,<3", "cutensor-cu12>=2.3,<3", "pandas"),
        ],
    )
    assert "/opt/cupy/lib/python3.12/site-packages/cutensor/lib" in image["dockerfile"]


def test_an_unknown_library_is_refused_before_the_build() -> None:
    done = gpuenv(*PRINT, "--with", "cudnn")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--with cudnn: expected nccl or cutensor" in done.stderr


@pytest.mark.parametrize(
    ("cupy", "cuda", "wheel"),
    [
        ("14.2.0", 13, "cutensor-cu13>=2.3,<3"),
        ("14.2.0", 12, "cutensor-cu12>=2.3,<3"),
        ("13.6.0", 12, "cutensor-cu12>=2,<3"),
        ("13.6.0", 11, "cutensor-cu11>=2,<3"),
        ("12.3.0", 12, "cutensor-cu12>=1.6.2,<2"),
        ("11.6.0", 11, "cutensor-cu11>=1.6.2,<2"),
        ("12.3.0", 10, None),
    ],
)
def test_each_cupy_gets_the_cutensor_that_it_is_linked_with(cupy: str, cuda: int, wheel: str | None) -> None:
    row = optional_library("cutensor", cupy, cuda)
    assert (row.requirement if row else None) == wheel


@pytest.fixture
def index(tmp_path: Path) -> Iterator[InstallerRun]:
    """uv with an index of the test's own."""
    served = Index(tmp_path / "index", (*SET, numpy("1.26.0")))
    program = str(Path(sys.executable).with_name("uv"))
    yield InstallerRun(
        Uv(program, "0.13.9", (), PipSettings((), (), False, ())),
        InstallerOptions(sys.executable),
        {**os.environ, "UV_DEFAULT_INDEX": f"http://{served.address}", "UV_CACHE_DIR": str(tmp_path / "cache")},
        TimeBudget(120),
        ChildGroup(),
    )
    served.close()


def test_a_conflict_is_reported_in_the_words_of_the_installer(index: InstallerRun) -> None:
    with pytest.raises(NoWheelsError) as caught:
        lock_image(index, ("cupy-cuda12x==14.2.0", "numpy<2"), "3.12", "linux/amd64")
    assert "14.2.0 depends on numpy>=2.0" in " ".join(str(caught.value).split())


def test_only_the_digests_of_the_file_are_locked(index: InstallerRun, tmp_path: Path) -> None:
    (numpy_pin,) = lock_image(index, ("numpy==1.26.0",), "3.12", "linux/amd64")
    file = tmp_path / "requirements.txt"
    file.write_text(f"numpy==1.26.0 \\\n    --hash=sha256:{DIGEST} \\\n    --hash=sha256:{numpy_pin.sha256[0]}\n")
    added = added_packages((), (file,))
    assert lock_image(index, added.requirements, "3.12", "linux/amd64", added) == (numpy_pin,)
    file.write_text(f"numpy==1.26.0 --hash=sha256:{DIGEST}\n")
    added = added_packages((), (file,))
    with pytest.raises(NoWheelsError, match="no wheel of the index has a digest of the requirements file"):
        lock_image(index, added.requirements, "3.12", "linux/amd64", added)


def test_constraints_limit_the_lock(index: InstallerRun, tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("numpy<2\n")
    file = tmp_path / "requirements.txt"
    file.write_text("-c constraints.txt\nnumpy\n")
    added = added_packages((), (file,))
    (pin,) = lock_image(index, added.requirements, "3.12", "linux/amd64", added)
    assert pin.release.startswith("1.")


def test_a_second_cupy_is_refused(index: InstallerRun) -> None:
    wanted = ("cupy-cuda12x==14.2.0", "cupy-cuda11x")
    with pytest.raises(NoWheelsError, match="each is the package cupy"):
        lock_image(index, wanted, "3.12", "linux/amd64")
