"""``gpuenv doctor --fix`` in environments that are really broken: real uv, real files, packages that stand in.

The real packages are in test_real_fix.py.
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

    from tests.install.sandbox import Ground

V100 = MACHINE
OLD_DRIVER = ("--assume", "driver=535.104.05", "--assume", "gpu=H100")
TWELVE = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}


def site(target: Path) -> Path:
    (found,) = target.glob("lib/python*/site-packages")
    return found


def report(
    ground: Ground, target: Path, *options: str | Path, machine: tuple[str, ...] = V100, **more: str
) -> tuple[int, Any]:
    done = ground.gpuenv("doctor", "--python", target, "--format", "json", "--no-redact", *machine, *options, **more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def codes(told: Any) -> set[str]:  # noqa: ANN401 - JSON
    return {finding["code"] for finding in told["findings"] if finding["severity"] != "note"}


def told(plan: str) -> list[str]:
    """The lines of a plan, but for the room on the disk."""
    return [line for line in plan.splitlines() if "GiB" not in line]


def delete(path: str) -> Callable[[Path], None]:
    return lambda target: (site(target) / path).unlink()


def append(path: str) -> Callable[[Path], None]:
    def spoil(target: Path) -> None:
        with (site(target) / path).open("a", encoding="utf-8") as file:
            file.write("# spoilt\n")

    return spoil


def of_another_python(target: Path) -> None:
    """CuPy's compiled modules as a folder that was copied from an old Python has them."""
    core = site(target) / "cupy/_core"
    core.mkdir()
    (core / "core.cpython-36m-x86_64-linux-gnu.so").write_bytes(b"")


def untouched(target: Path) -> None:
    del target


@dataclass(frozen=True, slots=True)
class Broken:
    """An environment, how it was broken, what the doctor finds in it, and what is there once it is mended."""

    packages: tuple[str, ...]
    found: str
    mended: dict[str, str]
    harm: Callable[[Path], None] = untouched
    machine: tuple[str, ...] = V100
    options: tuple[str, ...] = ()


BOTH = ("cupy-cuda11x==13.6.0", "cupy-cuda12x==14.2.0", "numpy==2.1.0")
SOUND = ("cupy-cuda12x==14.2.0", "numpy==2.1.0")
BROKEN = {
    "two lines": Broken(BOTH, "WHL502", TWELVE),
    "two lines, the right one first": Broken((BOTH[1], BOTH[0], BOTH[2]), "WHL502", TWELVE),
    "two lines, none of which fits": Broken(
        ("cupy-cuda13x==14.2.0", "cupy-cuda11x==13.6.0", "numpy==2.1.0"),
        "WHL502",
        TWELVE,
    ),
    "a line without code for the GPU": Broken(("cupy-cuda13x==14.2.0", "numpy==2.1.0"), "WHL505", TWELVE),
    "a line beyond the driver": Broken(("cupy-cuda13x==14.2.0", "numpy==2.1.0"), "WHL504", TWELVE, machine=OLD_DRIVER),
    "no CuPy": Broken(("numpy==2.1.0",), "WHL503", TWELVE),
    "another NumPy than CuPy needs": Broken(
        ("cupy-cuda12x==14.2.0", "numpy==1.26.4"), "WHL506", {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"}
    ),
    "a file of CuPy's is missing": Broken(SOUND, "WHL510", TWELVE, delete("cupy/part3.py")),
    "a file of NumPy's is missing": Broken(SOUND, "WHL510", TWELVE, delete("numpy/__init__.py")),
    "a file of CuPy's has grown": Broken(SOUND, "WHL510", TWELVE, append("cupy/part4.py")),
    "a file of a CUDA wheel has grown": Broken(
        (*SOUND, "nvidia-cuda-nvrtc-cu12==12.9.86"),
        "WHL510",
        {**TWELVE, "nvidia-cuda-nvrtc-cu12": "12.9.86"},
        append("nvidia/cuda_nvrtc/n12.py"),
    ),
    "modules of another Python": Broken(SOUND, "WHL512", TWELVE, of_another_python),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_mended_and_the_doctor_is_clean(ground: Ground, name: str) -> None:
    broken = BROKEN[name]
    target = ground.target("broken", *broken.packages)
    broken.harm(target)
    _, before = report(ground, target, machine=broken.machine)
    assert broken.found in codes(before)
    former = contents(target)
    code, after = report(ground, target, "--fix", "--yes", machine=broken.machine)
    assert after["repair"]["status"] == "mended", after["repair"]
    assert (code, after["status"], codes(after)) == (0, "fit", set())
    assert (broken.found in after["repair"]["gone"], after["repair"]["left"]) == (True, [])
    there = versions(target)
    assert {package: there.get(package) for package in broken.mended} == broken.mended
    assert len([package for package in there if package.startswith("cupy")]) == 1
    number = after["repair"]["transaction"]
    done = ground.gpuenv("rollback", "--python", target, number)
    assert done.returncode == 0, done.stderr
    assert contents(target) == former


def test_as_little_as_possible_changes(ground: Ground) -> None:
    """An older release that fits is put in anew, and not replaced by a newer one."""
    target = ground.target("older", "cupy-cuda12x==13.6.0", "numpy==1.26.4")
    delete("cupy/part3.py")(target)
    _, after = report(ground, target, "--fix", "--yes")
    assert after["repair"]["gone"] == ["WHL510"]
    assert versions(target) == {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"}


def test_a_healthy_environment_is_left_alone(ground: Ground) -> None:
    target = ground.target("sound", *SOUND)
    before = contents(target)
    code, told = report(ground, target, "--fix", "--yes")
    assert (code, told["repair"]["status"]) == (0, "nothing-to-mend")
    assert contents(target) == before


def test_the_plan_is_shown_and_consent_is_needed(ground: Ground) -> None:
    target = ground.target("asked", *BOTH)
    before = contents(target)
    done = ground.gpuenv("doctor", "--python", target, *V100, "--fix")
    assert done.returncode == 2
    assert "- cupy-cuda11x 13.6.0 (another CuPy line, which owns the same files)" in done.stdout
    assert "not a terminal, so cannot prompt; nothing was changed\nPass --yes to accept the plan." in done.stderr
    shown = ground.gpuenv("doctor", "--python", target, *V100, "--fix", "--dry-run")
    assert shown.returncode == 1, "it is as unfit as before"
    assert told(shown.stdout) == told(done.stdout)
    code, report_of = report(ground, target, "--fix", "--dry-run")
    assert (code, report_of["schema"], report_of["status"]) == (1, "gpuenv.report/1", "unfit")
    assert report_of["repair"]["status"] == "planned"
    assert "WHL502" in report_of["repair"]["left"]
    assert "  - cupy-cuda11x 13.6.0 (another CuPy line, which owns the same files)" in report_of["repair"]["plan"]
    for form, word in (("json", "planned"), ("text", "planned"), ("markdown", "UNFIT")):
        file = ground.folder / f"planned.{form}"
        asked = ground.gpuenv("doctor", "--python", target, *V100, "--fix", "--dry-run", "--format", form, "-o", file)
        assert (asked.returncode, asked.stdout) == (1, "")
        assert word in file.read_text(encoding="utf-8")
    assert contents(target) == before


def test_what_is_the_machines_is_left_for_a_person(ground: Ground) -> None:
    """Without a driver nobody can choose; with one that needs a restart the environment is mended and the rest said."""
    target = ground.target("no-driver", *BOTH)
    before = contents(target)
    code, told = report(ground, target, "--fix", "--yes", machine=("--assume", "driver=none"))
    assert code == 1
    assert told["repair"]["status"] == "nothing-to-mend"
    assert "WHL502" in told["repair"]["left"]
    assert contents(target) == before
    done = ground.gpuenv("doctor", "--python", target, *V100, "--fix", "--yes")
    assert "Repair\n  fixed: " in done.stdout
    assert "  resolved: WHL502" in done.stdout
    assert f"$ gpuenv rollback --python {target} 0001" in " ".join(done.stdout.split()).replace(" \\ ", " ")


def test_an_allowed_finding_is_not_mended(ground: Ground, tmp_path: Path) -> None:
    config = tmp_path / "gpuenv.toml"
    entry = '[[allow]]\ncode = "WHL510"\nreason = "tests delete it"\nexpires = 2999-01-01\n'
    config.write_text(entry, encoding="utf-8")
    target = ground.target("allowed", *SOUND)
    delete("cupy/part3.py")(target)
    before = contents(target)
    _, told = report(ground, target, "--fix", "--yes", "--config", config)
    assert told["repair"]["status"] == "nothing-to-mend"
    assert contents(target) == before


@pytest.mark.parametrize("numpy", ["1.26.4", None])
def test_a_numpy_that_does_not_fit_is_no_obstacle_to_the_libraries(ground: Ground, numpy: str | None) -> None:
    """One plan for both: CuPy with its libraries, and the NumPy that such a CuPy needs."""
    target = ground.target("both", "cupy-cuda12x==14.2.0", *([f"numpy=={numpy}"] if numpy else []))
    nothing = str(ground.folder)
    _, before = report(ground, target, LD_LIBRARY_PATH=nothing)
    assert {"WHL506", "LIB601"} <= codes(before)
    shown = ground.gpuenv("doctor", "--python", target, *V100, "--fix", "--dry-run", "--yes", LD_LIBRARY_PATH=nothing)
    assert shown.returncode == 1, shown.stderr
    assert "cupy-cuda12x[ctk]==14.2.0" in shown.stdout
    assert "numpy 2.1.0" in shown.stdout
    assert "nvidia-cuda-nvrtc-cu12 12.9.86" in shown.stdout
    assert "needs consent" not in shown.stdout


def test_a_numpy_that_others_need_stays(ground: Ground) -> None:
    target = ground.target("held", "cupy-cuda12x==14.2.0", "numpy==1.26.4", "old-science==1.0")
    before = contents(target)
    nothing = {"LD_LIBRARY_PATH": str(ground.folder)}
    done = ground.gpuenv("doctor", "--python", target, *V100, "--fix", "--yes", "--format", "json", **nothing)
    told = json.loads(done.stdout)
    assert (done.returncode, told["repair"]["status"]) == (1, "nothing-to-mend")
    assert "Of what is there, old-science needs numpy<2." in told["repair"]["message"]
    assert contents(target) == before


def test_a_failed_mending_leaves_the_former_state(ground: Ground) -> None:
    """The index gives something else than the wheel that was promised."""
    target = ground.target("failing", *BOTH)
    before = contents(target)
    ground.index.replacements["cupy_cuda12x-14.2.0-py3-none-any.whl"] = b"no wheel"
    done = ground.gpuenv("doctor", "--python", target, *V100, "--fix", "--yes", UV_NO_CACHE="1")
    assert done.returncode == 4, done.stdout
    assert "nothing was changed" in done.stderr
    code, told = report(ground, target, "--fix", "--yes", UV_NO_CACHE="1")
    assert (code, told["exit_code"], told["repair"]["status"]) == (4, 4, "failed")
    assert told["repair"]["left"]
    assert told["repair"]["message"].endswith("; nothing was changed.")
    assert contents(target) == before


def test_what_is_recorded_cannot_be_mended(ground: Ground) -> None:
    done = ground.gpuenv("doctor", "--snapshot", "x.json", "--fix")
    assert done.returncode == 2
    assert "--fix mends what is here" in done.stderr
    done = ground.gpuenv("doctor", "--yes")
    assert done.returncode == 2
    assert "--yes and --dry-run require --fix" in done.stderr
