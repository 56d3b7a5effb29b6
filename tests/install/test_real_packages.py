"""Real CuPy, NumPy and CUDA wheels, installed into real environments and removed again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import PROGRAM, full_answer
from tests.install.sandbox import MACHINE, contents, run, versions
from tests.install.test_killed_installs import KILLED, points
from tests.install.wheels import Package, make_wheel
from tests.probe.pythons import python as find_python

pytestmark = pytest.mark.network
LIMIT = 1800
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "CONDA"))}
TOOLKIT = ("--assume", "toolkit=12.9")


def gpuenv(*arguments: str | Path) -> tuple[int, Any]:
    return full_answer(arguments, ENVIRONMENT, LIMIT)


def target(folder: Path, *packages: str) -> Path:
    """An environment with these packages, each installed for itself."""
    uv = [sys.executable, "-m", "uv", "--quiet"]
    run([*uv, "venv", "--python", sys.executable, str(folder)], ENVIRONMENT)
    for package in packages:
        run([*uv, "pip", "install", "--python", str(folder / "bin/python"), package], ENVIRONMENT)
    return folder


def test_a_fresh_environment(tmp_path: Path) -> None:
    """All that the resolver asks for, the CUDA wheels included, in the versions of a bare uv."""
    folder = target(tmp_path / "venv")
    before = contents(folder)
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    assert all(proof["passed"] for proof in told["proofs"][:-1]), told["proofs"]
    assert told["proofs"][-1]["name"] == "smoke test"
    bare = target(tmp_path / "bare", *told["plan"]["requirements"])
    assert versions(folder) == versions(bare)
    assert gpuenv("rollback", "--python", folder)[0] == 0
    assert contents(folder) == before


def test_both_lines_there(tmp_path: Path) -> None:
    folder = target(tmp_path / "venv", "cupy-cuda11x", "cupy-cuda12x==14.0.0")
    before = contents(folder)
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    there = [name for name in versions(folder) if name.startswith("cupy")]
    assert there == ["cupy-cuda12x"]
    assert gpuenv("rollback", "--python", folder)[0] == 0
    assert contents(folder) == before


def test_numpy_1_stays(tmp_path: Path) -> None:
    """No CuPy 14 there: the resolver takes an older one, and NumPy is not moved."""
    folder = target(tmp_path / "venv", "numpy==1.26.4")
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    assert versions(folder)["numpy"] == "1.26.4"
    assert told["plan"]["moves"] == []


def test_torch_s_cuda_wheels_stay_as_they_are(tmp_path: Path) -> None:
    """Those that torch 2.8 pins, without torch itself, which is larger than all of them: a package that needs them so.

    The pins are in the metadata of torch 2.8.0 (Requires-Dist, Linux x86_64).
    """
    pins = {
        "nvidia-cuda-nvrtc-cu12": "12.8.93",
        "nvidia-nvjitlink-cu12": "12.8.93",
        "nvidia-cuda-runtime-cu12": "12.8.90",
    }
    folder = target(tmp_path / "venv", *(f"{name}=={release}" for name, release in pins.items()))
    wheel = make_wheel(
        tmp_path,
        Package(
            "torch",
            "2.8.0",
            tuple(f"{name}=={release}" for name, release in pins.items()),
            files={"torch/__init__.py": "import nvidia.cuda_nvrtc\n__version__ = '2.8.0'\n"},
        ),
    )
    uv = [sys.executable, "-m", "uv", "--quiet", "pip", "install", "--no-deps", "--python"]
    run([*uv, str(folder / "bin/python"), str(wheel)], ENVIRONMENT)
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    there = versions(folder)
    assert {name: there[name] for name in pins} == pins
    assert there["torch"] == "2.8.0"
    assert {proof["name"]: proof["passed"] for proof in told["proofs"]}["import torch"]
    assert told["plan"]["moves"] == []


@pytest.mark.parametrize(
    ("python", "cupy"),
    [("3.9", "13.6.0"), ("3.10", "14.2.0"), ("3.11", "14.2.0"), ("3.12", "14.2.0"), ("3.13", "14.2.0")],
)
def test_every_python(tmp_path: Path, python: str, cupy: str) -> None:
    """In an environment of that Python: from nothing to a CuPy that is imported, and back."""
    folder = tmp_path / "venv"
    run([sys.executable, "-m", "uv", "--quiet", "venv", "--python", str(find_python(python)), str(folder)], ENVIRONMENT)
    before = contents(folder)
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    assert versions(folder)["cupy-cuda12x"] == cupy
    assert {proof["name"]: proof["passed"] for proof in told["proofs"]}["import cupy"]
    assert gpuenv("rollback", "--python", folder)[0] == 0
    assert contents(folder) == before


@pytest.mark.parametrize("python", ["3.14", "3.14t"])
def test_a_python_that_is_not_here(tmp_path: Path, python: str) -> None:
    """By cross-resolution alone, since none is here: the index has the wheel that the resolver names."""
    command = ["resolve", "--no-probe", *MACHINE, *TOOLKIT, "--assume", f"python={python}"]
    facts = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "numpy=none", "cupy=none")
    code, told = gpuenv(*command, *(word for fact in facts for word in ("--assume", fact)))
    assert code == 0
    (asked,) = told["wheel"]["requirements"]
    abi = f"cp{python.replace('.', '')}"
    pip = [sys.executable, "-m", "uv", "tool", "run", "--quiet", "--from", "pip", "pip", "download", "--no-deps"]
    kind = ["--only-binary=:all:", "--implementation=cp", "--python-version=3.14", f"--abi={abi}"]
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(17, 37)] + [
        "--platform=manylinux2014_x86_64"
    ]
    run([*pip, *kind, *platforms, f"--dest={tmp_path}", asked], ENVIRONMENT)
    assert [path.name.split("-")[3] for path in tmp_path.glob("cupy*.whl")] == [abi]


@pytest.mark.slow
def test_killed_at_20_points_with_the_real_cupy(
    tmp_path: Path, killer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another line is there and goes: after the next command the environment is as it was, or fully the new one."""
    folder = target(tmp_path / "venv", "cupy-cuda11x==13.6.0")
    before = contents(folder)

    def install(**more: str) -> int:
        command = [*PROGRAM, "install", "--python", str(folder), "--yes", *MACHINE, *TOOLKIT]
        environment = {**ENVIRONMENT, "LD_PRELOAD": str(killer), **more}
        return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT).returncode

    assert install(COUNT_TO=str(tmp_path / "calls")) == 0
    calls = int((tmp_path / "calls").read_text(encoding="ascii"))
    new = contents(folder)
    assert gpuenv("rollback", "--python", folder)[0] == 0
    assert contents(folder) == before
    results: Counter[str] = Counter()
    for point in points(calls - 1, 20):
        code = install(KILL_AT=str(point))
        between = contents(folder)
        assert code == KILLED or (code == 0 and between == new), point
        assert gpuenv("rollback", "--python", folder, "--list")[0] == 0
        found = contents(folder)
        assert found in (before, new), (point, set(found.items()) ^ set(before.items()))
        results["new" if found == new else "put back" if between != before else "untouched"] += 1
        if found == new:
            assert gpuenv("rollback", "--python", folder)[0] == 0
    with capsys.disabled():
        sys.stdout.write(f"\nSIGKILL at 20 of {calls} calls, real CuPy: {dict(results)}\n")
    assert results["put back"] >= 5
