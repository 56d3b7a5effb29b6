"""The staged files are checked before any is moved into the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.install.environment import Scheme
from gpuenv.install.exceptions import InstallFailed
from gpuenv.install.transaction import read_stage

if TYPE_CHECKING:
    from pathlib import Path

SITE = "lib/python3.12/site-packages"


def write_stage(folder: Path, line: str) -> tuple[Path, Scheme]:
    """Writes a stage with one distribution, whose RECORD has this line too, and returns its target scheme as well."""
    stage, root = folder / "stage", folder / "venv"
    metadata = stage / SITE / "cupy_cuda12x-14.2.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 14.2.0\n")
    (metadata / "RECORD").write_text(f"{metadata.name}/METADATA,,\n{metadata.name}/RECORD,,\n{line},,\n")
    site = str(root / SITE)
    return stage, Scheme("", str(root), "venv", str(root), site, site, False, (site,), "3.12", False, {})


@pytest.mark.parametrize(
    "line",
    ["../../../../escaped.txt", "../../../../../escaped.txt", "cupy/../../../../../escaped.txt", "/escaped.txt"],
)
def test_a_file_outside_the_environment_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "escaped.txt").write_text("out\n")
    stage, scheme = write_stage(tmp_path, line)
    with pytest.raises(InstallFailed, match="names a path outside of the environment"):
        read_stage(stage, scheme)


def test_a_script_in_the_bin_folder_is_accepted(tmp_path: Path) -> None:
    stage, scheme = write_stage(tmp_path, "../../../bin/cupy-tool")
    (stage / "bin").mkdir()
    (stage / "bin/cupy-tool").write_text("#!/bin/sh\n")
    assert "bin/cupy-tool" in [file.place for file in read_stage(stage, scheme).files]
