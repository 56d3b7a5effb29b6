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


def environment(folder: Path, *packages: str) -> Path:
    """Creates an environment with these packages, each installed alone."""
    uv = [sys.executable, "-m", "uv", "--quiet"]
    run([*uv, "venv", "--python", sys.executable, str(folder)], ENVIRONMENT)
    for package in packages:
        run([*uv, "pip", "install", "--python", str(folder / "bin/python"), package], ENVIRONMENT)
    return folder


def test_an_install_has_the_versions_of_bare_uv_and_is_undone(tmp_path: Path) -> None:
    """Including the CUDA wheels."""
    folder = environment(tmp_path / "venv")
    before = contents(folder)
    code, outcome = gpuenv("install", "--python", folder, "--yes", *MACHINE)
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    assert all(check["passed"] for check in outcome["proofs"][:-1]), outcome["proofs"]
    assert outcome["proofs"][-1]["name"] == "smoke test"
    bare = environment(tmp_path / "bare", *outcome["plan"]["requirements"])
    assert versions(folder) == versions(bare)
    assert gpuenv("rollback", "--yes", "--python", folder)[0] == 0
    assert contents(folder) == before


def test_two_cupy_lines_are_replaced_by_one(tmp_path: Path) -> None:
    folder = environment(tmp_path / "venv", "cupy-cuda11x", "cupy-cuda12x==14.0.0")
    before = contents(folder)
    code, outcome = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    installed = [name for name in versions(folder) if name.startswith("cupy")]
    assert installed == ["cupy-cuda12x"]
    assert gpuenv("rollback", "--yes", "--python", folder)[0] == 0
    assert contents(folder) == before


def test_numpy_1_is_not_upgraded(tmp_path: Path) -> None:
    """CuPy 14 requires NumPy 2, so the resolver selects an older CuPy."""
    folder = environment(tmp_path / "venv", "numpy==1.26.4")
    code, outcome = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    assert versions(folder)["numpy"] == "1.26.4"
    assert outcome["plan"]["moves"] == []


def test_cuda_wheels_pinned_by_torch_are_not_changed(tmp_path: Path) -> None:
    """A small package stands in for torch and pins the same wheels.

    The pins are in the metadata of torch 2.8.0 (Requires-Dist, Linux x86_64).
    """
    pins = {
        "nvidia-cuda-nvrtc-cu12": "12.8.93",
        "nvidia-nvjitlink-cu12": "12.8.93",
        "nvidia-cuda-runtime-cu12": "12.8.90",
    }
    folder = environment(tmp_path / "venv", *(f"{name}=={release}" for name, release in pins.items()))
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
    code, outcome = gpuenv("install", "--python", folder, "--yes", *MACHINE)
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    installed = versions(folder)
    assert {name: installed[name] for name in pins} == pins
    assert installed["torch"] == "2.8.0"
    assert {check["name"]: check["passed"] for check in outcome["proofs"]}["import torch"]
    assert outcome["plan"]["moves"] == []


@pytest.mark.parametrize(
    ("python", "cupy"),
    [("3.9", "13.6.0"), ("3.10", "14.2.0"), ("3.11", "14.2.0"), ("3.12", "14.2.0"), ("3.13", "14.2.0")],
)
def test_each_python_gets_a_cupy_that_can_be_imported(tmp_path: Path, python: str, cupy: str) -> None:
    """In an empty environment of that Python, which a rollback restores."""
    folder = tmp_path / "venv"
    run([sys.executable, "-m", "uv", "--quiet", "venv", "--python", str(find_python(python)), str(folder)], ENVIRONMENT)
    before = contents(folder)
    code, outcome = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    assert versions(folder)["cupy-cuda12x"] == cupy
    assert {check["name"]: check["passed"] for check in outcome["proofs"]}["import cupy"]
    assert gpuenv("rollback", "--yes", "--python", folder)[0] == 0
    assert contents(folder) == before


@pytest.mark.parametrize("python", ["3.14", "3.14t"])
def test_the_wheel_resolved_for_another_python_is_on_the_index(tmp_path: Path, python: str) -> None:
    """Resolved without an interpreter, since these Pythons are not installed."""
    command = ["resolve", "--no-probe", *MACHINE, *TOOLKIT, "--assume", f"python={python}"]
    facts = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "numpy=none", "cupy=none")
    code, resolution = gpuenv(*command, *(word for fact in facts for word in ("--assume", fact)))
    assert code == 0
    (requirement,) = resolution["wheel"]["requirements"]
    abi = f"cp{python.replace('.', '')}"
    pip = [sys.executable, "-m", "uv", "tool", "run", "--quiet", "--from", "pip", "pip", "download", "--no-deps"]
    python_options = ["--only-binary=:all:", "--implementation=cp", "--python-version=3.14", f"--abi={abi}"]
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(17, 37)] + [
        "--platform=manylinux2014_x86_64"
    ]
    run([*pip, *python_options, *platforms, f"--dest={tmp_path}", requirement], ENVIRONMENT)
    assert [path.name.split("-")[3] for path in tmp_path.glob("cupy*.whl")] == [abi]


@pytest.mark.slow
def test_an_install_killed_at_20_points_is_undone_or_complete(
    tmp_path: Path, killer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The install replaces another CuPy line."""
    folder = environment(tmp_path / "venv", "cupy-cuda11x==13.6.0")
    before = contents(folder)

    def install(**more: str) -> int:
        command = [*PROGRAM, "install", "--python", str(folder), "--yes", *MACHINE, *TOOLKIT]
        environment = {**ENVIRONMENT, "LD_PRELOAD": str(killer), **more}
        return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT).returncode

    assert install(COUNT_TO=str(tmp_path / "calls")) == 0
    calls = int((tmp_path / "calls").read_text(encoding="ascii"))
    new = contents(folder)
    assert gpuenv("rollback", "--yes", "--python", folder)[0] == 0
    assert contents(folder) == before
    results: Counter[str] = Counter()
    for point in points(calls - 1, 20):
        code = install(KILL_AT=str(point))
        between = contents(folder)
        assert code == KILLED or (code == 0 and between == new), point
        _, report = gpuenv("doctor", "--python", folder)
        first = report["findings"][0]
        if first["code"] == "ENV403":
            assert first["primary"]
            ((_, *command),) = [fix["command"] for fix in first["fix"]]
            assert gpuenv(*command)[0] == 0
        state = contents(folder)
        assert state in (before, new), (point, set(state.items()) ^ set(before.items()))
        results["new" if state == new else "restored" if between != before else "untouched"] += 1
        if state == new:
            assert gpuenv("rollback", "--yes", "--python", folder)[0] == 0
    with capsys.disabled():
        sys.stdout.write(f"\nSIGKILL at 20 of {calls} calls, real CuPy: {dict(results)}\n")
    assert results["restored"] >= 5
