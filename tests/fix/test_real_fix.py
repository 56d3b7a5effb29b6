"""``gpuenv doctor --fix`` on the real CuPy, NumPy and CUDA wheels: broken, fixed and rolled back."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.program import PROGRAM, full_answer
from tests.fix.typed_commands import type_commands
from tests.install.sandbox import contents, run, versions

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.network
H100 = ("--assume", "driver=580.95.05", "--assume", "gpu=H100")
V100 = ("--assume", "driver=580.95.05", "--assume", "gpu=V100")
RTX_5090 = ("--assume", "driver=570.195.03", "--assume", "gpu=RTX 5090")
HIDDEN = ("VIRTUAL_ENV", "CONDA", "LD_LIBRARY_PATH", "CUDA")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
LIMIT = 1800


def make(folder: Path, *packages: str) -> Path:
    """Creates an environment with these packages, each installed alone so that CuPy lines can coexist."""
    uv = [sys.executable, "-m", "uv", "--quiet"]
    run([*uv, "venv", "--python", sys.executable, str(folder)], ENVIRONMENT)
    for package in packages:
        # Copied, so that damage does not reach uv's cache.
        options = ["--link-mode", "copy", "--python", str(folder / "bin/python")]
        run([*uv, "pip", "install", *options, *package.split()], ENVIRONMENT)
    return folder


def doctor(target: Path, *options: str) -> tuple[int, Any]:
    return full_answer(["doctor", "--python", target, *options], ENVIRONMENT, LIMIT)


def site(target: Path) -> Path:
    (folder,) = target.glob("lib/python*/site-packages")
    return folder


def truncate_module(target: Path) -> None:
    """Truncates a CuPy extension module, as a full disk does."""
    (module,) = (site(target) / "cupy/_core").glob("core.cpython-*.so")
    os.truncate(module, 4096)


def delete_cublas(target: Path) -> None:
    """Deletes a large library, as some image builds do."""
    next(site(target).glob("nvidia/**/libcublasLt.so.*")).unlink()


def leave_unchanged(target: Path) -> None:
    del target


@dataclass(frozen=True, slots=True)
class Broken:
    """Packages, how they are damaged, the finding, and the CuPy line after the fix."""

    packages: tuple[str, ...]
    code: str
    line: str
    machine: tuple[str, ...] = H100
    damage: Callable[[Path], None] = leave_unchanged
    follow_ups: int = 0  # errors that remain after the first one is fixed by hand


CUPY_CTK = "cupy-cuda12x[ctk]==14.2.0"
BROKEN = {
    "the extra is missing": Broken(("cupy-cuda12x==14.2.0",), "LIB601", "cupy-cuda12x"),
    "two lines": Broken(("cupy-cuda12x==14.1.1", CUPY_CTK, "cupy-cuda13x==14.2.0"), "WHL502", "cupy-cuda13x"),
    "a line without code for the GPU": Broken(("cupy-cuda13x[ctk]==14.2.0",), "WHL505", "cupy-cuda12x", V100),
    "a stray NVRTC of CUDA 13": Broken((CUPY_CTK, "--no-deps nvidia-cuda-nvrtc"), "LIB603", "cupy-cuda12x"),
    "an nvJitLink older than cuSPARSE": Broken(
        (CUPY_CTK, "cuda-toolkit==12.9.*", "--no-deps nvidia-nvjitlink-cu12==12.1.105"), "LIB611", "cupy-cuda12x"
    ),
    "an NVRTC from before Blackwell": Broken(
        (CUPY_CTK, "--no-deps nvidia-cuda-nvrtc-cu12==12.4.127"), "LIB610", "cupy-cuda12x", RTX_5090
    ),
    "a NumPy that was forced": Broken((CUPY_CTK, "--no-deps numpy==1.26.4"), "WHL506", "cupy-cuda12x"),
    "a NumPy that was forced, and no libraries": Broken(
        ("cupy-cuda12x==14.2.0", "--no-deps numpy==1.26.4"), "WHL506", "cupy-cuda12x", follow_ups=1
    ),
    "a module cut short": Broken((CUPY_CTK,), "WHL510", "cupy-cuda12x", damage=truncate_module),
    "a library deleted": Broken((CUPY_CTK,), "WHL510", "cupy-cuda12x", damage=delete_cublas),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_environment_is_fixed_and_can_be_rolled_back(tmp_path: Path, name: str) -> None:
    if ctypes.util.find_library("nvrtc"):
        pytest.skip("the loader of this machine finds CUDA libraries")
    broken = BROKEN[name]
    target = make(tmp_path / "venv", *broken.packages)
    broken.damage(target)
    _, before = doctor(target, *broken.machine)
    errors = {finding["code"] for finding in before["findings"] if finding["severity"] == "error"}
    assert broken.code in errors
    former = contents(target)
    code, after = doctor(target, *broken.machine, "--fix", "--yes")
    findings = json.dumps(after["findings"], indent=1)
    assert after["repair"]["status"] == "mended", after["repair"]
    assert (code, after["status"]) == (0, "fit"), findings
    assert [package for package in versions(target) if package.startswith("cupy")] == [broken.line]
    imported = run([str(target / "bin/python"), "-c", "import cupy; print(cupy.__version__)"], ENVIRONMENT)
    assert imported.strip()
    result = subprocess.run(
        [*PROGRAM, "rollback", "--yes", "--python", str(target)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert contents(target) == former


@pytest.mark.parametrize("name", BROKEN)
def test_the_printed_commands_make_the_environment_fit(tmp_path: Path, name: str) -> None:
    if ctypes.util.find_library("nvrtc"):
        pytest.skip("the loader of this machine finds CUDA libraries")
    broken = BROKEN[name]
    target = make(tmp_path / "venv", *broken.packages)
    broken.damage(target)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    seen: list[str] = []
    for _ in range(1 + broken.follow_ups):
        _, report = doctor(target, *broken.machine)
        shown, _ = type_commands(report, {**ENVIRONMENT, "PATH": programs}, tmp_path, broken.machine, LIMIT)
        seen.append(shown)
    code, after = doctor(target, *broken.machine)
    assert (code, after["status"]) == (0, "fit"), "\n".join((*seen, json.dumps(after["findings"], indent=1)))
    assert [package for package in versions(target) if package.startswith("cupy")] == [broken.line]


def test_a_numpy_required_by_another_package_is_not_changed(tmp_path: Path) -> None:
    """NumPy 1 requires CuPy 13, which does not find the CUDA wheels, and Numba forbids NumPy 2."""
    target = make(tmp_path / "venv", CUPY_CTK, "--no-deps numpy==1.26.4", "--no-deps numba==0.59.1")
    former = contents(target)
    code, after = doctor(target, *H100, "--fix", "--yes")
    assert (code, after["repair"]["status"], after["repair"]["left"]) == (1, "nothing-to-mend", ["WHL506"])
    assert "numba needs numpy" in after["repair"]["message"]
    assert any("numpy<2.6,>=2.0" in " ".join(fix["command"] or ()) for fix in after["findings"][0]["fix"])
    assert contents(target) == former
