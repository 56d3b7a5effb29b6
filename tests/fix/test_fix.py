"""``gpuenv doctor --fix`` in broken environments, with the real uv and stand-in packages.

test_real_fix.py uses the real packages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.install.sandbox import MACHINE, contents, versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.install.sandbox import Sandbox

V100 = MACHINE
OLD_DRIVER = ("--assume", "driver=535.104.05", "--assume", "gpu=H100")
CUDA_12 = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}


def site(target: Path) -> Path:
    (folder,) = target.glob("lib/python*/site-packages")
    return folder


def doctor(
    sandbox: Sandbox, target: Path, *options: str | Path, machine: tuple[str, ...] = V100, **more: str
) -> tuple[int, Any]:
    result = sandbox.gpuenv("doctor", "--python", target, "--format", "json", "--no-redact", *machine, *options, **more)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def codes(report: Any) -> set[str]:  # noqa: ANN401 - JSON
    return {finding["code"] for finding in report["findings"] if finding["severity"] != "note"}


def plan_lines(plan: str) -> list[str]:
    """Returns the lines of a plan, except the free disk space."""
    return [line for line in plan.splitlines() if "GiB" not in line]


def delete(path: str) -> Callable[[Path], None]:
    return lambda target: (site(target) / path).unlink()


def append(path: str) -> Callable[[Path], None]:
    def damage(target: Path) -> None:
        with (site(target) / path).open("a", encoding="utf-8") as file:
            file.write("# corrupt\n")

    return damage


def add_old_extension(target: Path) -> None:
    """Adds a CuPy extension module of an old Python, as after copying an environment."""
    core = site(target) / "cupy/_core"
    core.mkdir()
    (core / "core.cpython-36m-x86_64-linux-gnu.so").write_bytes(b"")


def leave_unchanged(target: Path) -> None:
    del target


@dataclass(frozen=True, slots=True)
class Broken:
    """An environment, how it is broken, its finding, and the releases after the fix."""

    packages: tuple[str, ...]
    code: str
    releases: dict[str, str]
    damage: Callable[[Path], None] = leave_unchanged
    machine: tuple[str, ...] = V100
    options: tuple[str, ...] = ()


BOTH = ("cupy-cuda11x==13.6.0", "cupy-cuda12x==14.2.0", "numpy==2.1.0")
HEALTHY = ("cupy-cuda12x==14.2.0", "numpy==2.1.0")
BROKEN = {
    "two lines": Broken(BOTH, "WHL502", CUDA_12),
    "two lines, the right one first": Broken((BOTH[1], BOTH[0], BOTH[2]), "WHL502", CUDA_12),
    "two lines that do not fit": Broken(
        ("cupy-cuda13x==14.2.0", "cupy-cuda11x==13.6.0", "numpy==2.1.0"), "WHL502", CUDA_12
    ),
    "a line without code for the GPU": Broken(("cupy-cuda13x==14.2.0", "numpy==2.1.0"), "WHL505", CUDA_12),
    "a line beyond the driver": Broken(("cupy-cuda13x==14.2.0", "numpy==2.1.0"), "WHL504", CUDA_12, machine=OLD_DRIVER),
    "no CuPy": Broken(("numpy==2.1.0",), "WHL503", CUDA_12),
    "another NumPy than CuPy needs": Broken(
        ("cupy-cuda12x==14.2.0", "numpy==1.26.4"), "WHL506", {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"}
    ),
    "a file of CuPy's is missing": Broken(HEALTHY, "WHL510", CUDA_12, delete("cupy/part3.py")),
    "a file of NumPy's is missing": Broken(HEALTHY, "WHL510", CUDA_12, delete("numpy/__init__.py")),
    "a file of CuPy's has grown": Broken(HEALTHY, "WHL510", CUDA_12, append("cupy/part4.py")),
    "a file of a CUDA wheel has grown": Broken(
        (*HEALTHY, "nvidia-cuda-nvrtc-cu12==12.9.86"),
        "WHL510",
        {**CUDA_12, "nvidia-cuda-nvrtc-cu12": "12.9.86"},
        append("nvidia/cuda_nvrtc/n12.py"),
    ),
    "modules of another Python": Broken(HEALTHY, "WHL512", CUDA_12, add_old_extension),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_environment_is_fixed_and_can_be_rolled_back(sandbox: Sandbox, name: str) -> None:
    broken = BROKEN[name]
    target = sandbox.target("broken", *broken.packages)
    broken.damage(target)
    _, before = doctor(sandbox, target, machine=broken.machine)
    assert broken.code in codes(before)
    former = contents(target)
    code, after = doctor(sandbox, target, "--fix", "--yes", machine=broken.machine)
    assert after["repair"]["status"] == "mended", after["repair"]
    assert (code, after["status"], codes(after)) == (0, "fit", set())
    assert (broken.code in after["repair"]["gone"], after["repair"]["left"]) == (True, [])
    installed = versions(target)
    assert {package: installed.get(package) for package in broken.releases} == broken.releases
    assert len([package for package in installed if package.startswith("cupy")]) == 1
    number = after["repair"]["transaction"]
    result = sandbox.gpuenv("rollback", "--yes", "--python", target, number)
    assert result.returncode == 0, result.stderr
    assert contents(target) == former


def test_a_fix_keeps_an_older_release_that_fits(sandbox: Sandbox) -> None:
    """Its missing file is reinstalled; it is not replaced by a newer release."""
    target = sandbox.target("older", "cupy-cuda12x==13.6.0", "numpy==1.26.4")
    delete("cupy/part3.py")(target)
    _, after = doctor(sandbox, target, "--fix", "--yes")
    assert after["repair"]["gone"] == ["WHL510"]
    assert versions(target) == {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"}


def test_a_healthy_environment_is_not_changed(sandbox: Sandbox) -> None:
    target = sandbox.target("sound", *HEALTHY)
    before = contents(target)
    code, report = doctor(sandbox, target, "--fix", "--yes")
    assert (code, report["repair"]["status"]) == (0, "nothing-to-mend")
    assert contents(target) == before


def test_the_plan_is_shown_and_needs_consent(sandbox: Sandbox) -> None:
    target = sandbox.target("consent", *BOTH)
    before = contents(target)
    result = sandbox.gpuenv("doctor", "--python", target, *V100, "--fix")
    assert result.returncode == 2
    assert "- cupy-cuda11x 13.6.0 (another CuPy line, which owns the same files)" in result.stdout
    assert "not a terminal, so cannot prompt; nothing was changed\nPass --yes to accept the plan." in result.stderr
    shown = sandbox.gpuenv("doctor", "--python", target, *V100, "--fix", "--dry-run")
    assert shown.returncode == 1, "still unfit"
    assert plan_lines(shown.stdout) == plan_lines(result.stdout)
    code, report = doctor(sandbox, target, "--fix", "--dry-run")
    assert (code, report["schema"], report["status"]) == (1, "gpuenv.report/1", "unfit")
    assert report["repair"]["status"] == "planned"
    assert "WHL502" in report["repair"]["left"]
    assert "  - cupy-cuda11x 13.6.0 (another CuPy line, which owns the same files)" in report["repair"]["plan"]
    for form, word in (("json", "planned"), ("text", "planned"), ("markdown", "UNFIT")):
        file = sandbox.folder / f"planned.{form}"
        written = sandbox.gpuenv(
            "doctor", "--python", target, *V100, "--fix", "--dry-run", "--format", form, "-o", file
        )
        assert (written.returncode, written.stdout) == (1, "")
        assert word in file.read_text(encoding="utf-8")
    assert contents(target) == before


def test_problems_of_the_machine_are_not_fixed(sandbox: Sandbox) -> None:
    """Without a driver no wheel can be selected; with one the environment is fixed."""
    target = sandbox.target("no-driver", *BOTH)
    before = contents(target)
    code, report = doctor(sandbox, target, "--fix", "--yes", machine=("--assume", "driver=none"))
    assert code == 1
    assert report["repair"]["status"] == "nothing-to-mend"
    assert "WHL502" in report["repair"]["left"]
    assert contents(target) == before
    result = sandbox.gpuenv("doctor", "--python", target, *V100, "--fix", "--yes")
    assert "Repair\n  fixed: " in result.stdout
    assert "  resolved: WHL502" in result.stdout
    assert f"$ gpuenv rollback --python {target} 0001" in " ".join(result.stdout.split()).replace(" \\ ", " ")


def test_a_suppressed_finding_is_not_fixed(sandbox: Sandbox, tmp_path: Path) -> None:
    config = tmp_path / "gpuenv.toml"
    entry = '[[allow]]\ncode = "WHL510"\nreason = "deleted by a test"\nexpires = 2999-01-01\n'
    config.write_text(entry, encoding="utf-8")
    target = sandbox.target("allowed", *HEALTHY)
    delete("cupy/part3.py")(target)
    before = contents(target)
    _, report = doctor(sandbox, target, "--fix", "--yes", "--config", config)
    assert report["repair"]["status"] == "nothing-to-mend"
    assert contents(target) == before


@pytest.mark.parametrize("numpy", ["1.26.4", None])
def test_numpy_and_missing_libraries_are_fixed_in_one_plan(sandbox: Sandbox, numpy: str | None) -> None:
    """The plan has CuPy with its libraries, and the NumPy that this CuPy requires."""
    target = sandbox.target("both", "cupy-cuda12x==14.2.0", *([f"numpy=={numpy}"] if numpy else []))
    no_libraries = str(sandbox.folder)
    _, before = doctor(sandbox, target, LD_LIBRARY_PATH=no_libraries)
    assert {"WHL506", "LIB601"} <= codes(before)
    shown = sandbox.gpuenv(
        "doctor", "--python", target, *V100, "--fix", "--dry-run", "--yes", LD_LIBRARY_PATH=no_libraries
    )
    assert shown.returncode == 1, shown.stderr
    assert "cupy-cuda12x[ctk]==14.2.0" in shown.stdout
    assert "numpy 2.1.0" in shown.stdout
    assert "nvidia-cuda-nvrtc-cu12 12.9.86" in shown.stdout
    assert "needs consent" not in shown.stdout


def test_a_numpy_required_by_another_package_is_not_changed(sandbox: Sandbox) -> None:
    target = sandbox.target("held", "cupy-cuda12x==14.2.0", "numpy==1.26.4", "old-science==1.0")
    before = contents(target)
    no_libraries = {"LD_LIBRARY_PATH": str(sandbox.folder)}
    result = sandbox.gpuenv("doctor", "--python", target, *V100, "--fix", "--yes", "--format", "json", **no_libraries)
    report = json.loads(result.stdout)
    assert (result.returncode, report["repair"]["status"]) == (1, "nothing-to-mend")
    assert "Installed packages: old-science needs numpy<2." in report["repair"]["message"]
    assert contents(target) == before


def test_a_failed_fix_leaves_the_former_state(sandbox: Sandbox) -> None:
    """The index serves a wheel with a wrong digest."""
    target = sandbox.target("failing", *BOTH)
    before = contents(target)
    sandbox.index.replacements["cupy_cuda12x-14.2.0-py3-none-any.whl"] = b"no wheel"
    result = sandbox.gpuenv("doctor", "--python", target, *V100, "--fix", "--yes", UV_NO_CACHE="1")
    assert result.returncode == 4, result.stdout
    assert "nothing was changed" in result.stderr
    code, report = doctor(sandbox, target, "--fix", "--yes", UV_NO_CACHE="1")
    assert (code, report["exit_code"], report["repair"]["status"]) == (4, 4, "failed")
    assert report["repair"]["left"]
    assert report["repair"]["message"].endswith("; nothing was changed.")
    assert contents(target) == before


def test_a_snapshot_cannot_be_fixed(sandbox: Sandbox) -> None:
    result = sandbox.gpuenv("doctor", "--snapshot", "x.json", "--fix")
    assert result.returncode == 2
    assert "--fix repairs this machine" in result.stderr
    result = sandbox.gpuenv("doctor", "--yes")
    assert result.returncode == 2
    assert "--yes and --dry-run require --fix" in result.stderr
