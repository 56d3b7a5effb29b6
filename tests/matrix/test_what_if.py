"""--what-if, --why-not, and one answer for several machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuenv.matrix.assume import AssumeError
from gpuenv.matrix.resolve import merged, resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.matrix.what_if import UnknownCandidateError, resolve_fleet, what_if, why_not
from gpuenv.model.codec import encode
from gpuenv.model.resolution import Change, ConstraintName
from gpuenv.report.resolution_text import fleet_lines
from tests.cli.program import answer, gpuenv
from tests.matrix.resolutions import machine, resolution_of

_H100: tuple[str, ...] = (
    "--no-probe",
    "--assume",
    "os=linux",
    "--assume",
    "arch=x86_64",
    "--assume",
    "libc=glibc-2.36",
)
_H100 += ("--assume", "python=3.12", "--assume", "driver=535.104.05", "--assume", "gpu=H100")


def test_each_row_equals_the_answer_of_resolve(matrix: Matrix) -> None:
    base = machine(matrix, "driver=535.104.05", "gpu=H100")
    table = what_if(base, ["driver=535,580,590", "python=3.9,3.14,3.15"], matrix)
    assert len(table.rows) == 9
    for row in table.rows:
        wheel = resolution_of(matrix, "driver=535.104.05", "gpu=H100", *row.given).wheel
        assert row.requirements == (wheel.requirements if wheel else ())


def test_each_row_names_the_driver_that_better_wheel_lines_need(matrix: Matrix) -> None:
    table = what_if(machine(matrix, "gpu=A100"), ["driver=460.32.03,525.60.13,580.65.06"], matrix)
    better = [[(b.candidate.name, [c.needed for c in b.changes]) for b in row.better] for row in table.rows]
    assert better == [
        [("cupy-cuda13x", [">= 580.65.06"]), ("cupy-cuda12x", [">= 525.60.13"])],
        [("cupy-cuda13x", [">= 580.65.06"])],
        [],
    ]


def test_a_plus_separates_gpus_of_one_machine(matrix: Matrix) -> None:
    table = what_if(machine(matrix, "driver=580.65.06"), ["gpu=H100,V100+H100"], matrix)
    assert [row.candidate.name for row in table.rows if row.candidate] == ["cupy-cuda13x", "cupy-cuda12x"]
    assert table.rows[1].given == ("gpu=V100", "gpu=H100")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["driver"], "expected KEY=VALUE,VALUE"),
        (["driver=580,,590"], "expected KEY=VALUE,VALUE"),
        (["drivr=580"], "did you mean driver?"),
        (["gpu-count=" + ",".join(map(str, range(40))), "python=" + ",".join(f"3.{n}" for n in range(40))], "1600"),
    ],
)
def test_an_invalid_table_is_refused_with_a_reason(columns: list[str], message: str, matrix: Matrix) -> None:
    with pytest.raises(AssumeError, match="--what-if") as caught:
        what_if(machine(matrix), columns, matrix)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["cupy-cuda13x", "13x", "cupy-cuda13x==14.2.0", "cupy-cuda13x[ctk]"])
def test_why_not_lists_every_rejection_of_the_candidate(name: str, matrix: Matrix) -> None:
    base = machine(matrix, "driver=580.95.05", "gpu=V100")
    reasons = why_not(base, name, matrix)
    every = [entry for entry in resolve(base, matrix).rejected if entry.candidate == reasons.candidate]
    assert list(reasons.rejections) == every
    assert {entry.constraint for entry in every} == {
        ConstraintName.NVRTC_COMPILES_FOR_GPU,
        ConstraintName.WHEEL_HAS_CODE_FOR_GPU,
    }
    assert reasons.changes is None
    assert reasons.preferred is not None
    assert reasons.preferred.label == "cupy-cuda12x[ctk] 14.2.0"


def test_why_not_of_a_fitting_candidate_names_the_preferred_one(matrix: Matrix) -> None:
    base = machine(matrix, "driver=580.95.05", "gpu=H100")
    explanation = why_not(base, "cupy-cuda12x", matrix)
    assert (explanation.rejections, explanation.changes) == ((), None)
    assert explanation.preferred is not None
    assert explanation.preferred.name == "cupy-cuda13x"
    assert why_not(base, "13x", matrix).preferred is None


def test_why_not_covers_images_and_conda(matrix: Matrix) -> None:
    base = machine(matrix, "driver=545.23.06", "gpu=A100")
    image = why_not(base, "nvidia/cuda:12.9.1-base-ubuntu24.04", matrix)
    assert [entry.constraint for entry in image.rejections] == [ConstraintName.IMAGE_ADMITS_DRIVER]
    assert why_not(base, "conda", matrix).rejections == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [("cupy-cuda14x", "did you mean"), ("13x==1.0", "no such release"), ("--", "expected a line")],
)
def test_why_not_refuses_an_unknown_candidate(name: str, message: str, matrix: Matrix) -> None:
    with pytest.raises(UnknownCandidateError, match=message):
        why_not(machine(matrix), name, matrix)


def test_a_fleet_gets_one_answer_if_one_fits_every_machine(matrix: Matrix) -> None:
    machines = {
        "old": machine(matrix, "driver=580.65.06", "gpu=V100"),
        "new": machine(matrix, "driver=580.65.06", "gpu=RTX 5090"),
    }
    fleet = resolve_fleet(machines, matrix)
    (shared,) = fleet.answers
    assert shared.machines == ("old", "new")
    assert shared.requirements == ("cupy-cuda12x[ctk]==14.2.0", "cuda-toolkit>=12.8,<13")
    assert fleet.unserved == ()


def test_the_machine_that_forces_another_wheel_on_all_is_named(matrix: Matrix) -> None:
    machines = {"t4": machine(matrix, "driver=470.256.02", "gpu=T4")}
    machines |= {name: machine(matrix, "driver=550.54.15", "gpu=H100") for name in ("a", "b", "c")}
    fleet = resolve_fleet(machines, matrix)
    assert [(entry.candidate.name, len(entry.machines)) for entry in fleet.answers] == [("cupy-cuda11x", 4)]
    assert fleet.preferred is not None
    assert (fleet.preferred.candidate.name, fleet.preferred.machines) == ("cupy-cuda12x", ("a", "b", "c"))
    (forcing,) = fleet.forcing
    assert (forcing.machines, forcing.alternative.name) == (("t4",), "cupy-cuda11x")
    assert forcing.rejections[0].found.startswith("driver 470.256.02")
    lines = [line.text for line in fleet_lines(fleet)]
    assert "  t4: needs driver >= 525.60.13, found driver 470.256.02 (CUDA 11.4)" in lines
    by_weight = resolve_fleet(machines, matrix, {"t4": 9, "a": 1, "b": 1, "c": 1})
    assert by_weight.preferred is not None
    assert by_weight.preferred.candidate.name == "cupy-cuda11x"
    assert by_weight.forcing == ()


def test_a_fleet_gets_the_fewest_answers_if_none_fits_every_machine(matrix: Matrix) -> None:
    machines = {
        "k80": machine(matrix, "driver=470.256.02", "gpu=K80"),
        "v100": machine(matrix, "driver=580.65.06", "gpu=V100"),
        "h100": machine(matrix, "driver=580.65.06", "gpu=H100"),
        "musl": machine(matrix, "driver=580.65.06", "gpu=H100", "libc=musl-1.2"),
    }
    fleet = resolve_fleet(machines, matrix)
    assert fleet.unserved == ("musl",)
    assert len(fleet.answers) <= 2
    assert sorted(name for shared in fleet.answers for name in shared.machines) == ["h100", "k80", "v100"]
    for shared in fleet.answers:
        for name in shared.machines:
            assert shared.candidate not in {entry.candidate for entry in resolve(machines[name], matrix).rejected}


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ([">= 450.80.02", "branch 450 or newer", "branch 470 or older"], ">= 450.80.02, branch 470 or older"),
        ([">= 450.80.02, branch 580 or older", "branch 520 or newer"], "branch 520 or newer, branch 580 or older"),
        (["branch 580 or older", "branch 470 or older"], "branch 470 or older"),
        ([">= 580.65.06", "branch 470 or older"], None),
        (["branch 590 or newer", ">= 525.60.13, branch 580 or older"], None),
    ],
)
def test_changes_of_one_driver_are_merged(changes: list[str], result: str | None) -> None:
    combined = merged([Change("driver.version", needed, "418") for needed in changes])
    assert (combined[0].needed if combined else None) == result


def test_the_command_line_prints_each_kind_of_answer(tmp_path: Path, matrix: Matrix) -> None:
    code, table = answer("resolve", *_H100, "--what-if", "driver=580,590", "--what-if", "python=3.13,3.14")
    assert (code, table["schema"], len(table["rows"])) == (0, "gpuenv.what-if/1", 4)
    code, reasons = answer("resolve", *_H100, "--why-not", "cupy-cuda13x")
    assert (code, reasons["schema"], reasons["changes"][0]["needed"]) == (0, "gpuenv.why-not/1", ">= 580.65.06")
    files: list[str | Path] = []
    for name, gpu in (("a", "V100"), ("b", "H100")):
        snapshot = machine(matrix, "driver=580.65.06", f"gpu={gpu}")
        files += ["--snapshot", tmp_path / f"{name}.json"]
        (tmp_path / f"{name}.json").write_text(json.dumps(encode(snapshot)), encoding="utf-8")
    code, fleet = answer("resolve", *files)
    assert (code, fleet["schema"], len(fleet["answers"])) == (0, "gpuenv.fleet/1", 1)
    assert "One wheel fits every machine." in gpuenv("resolve", *files).stdout


def test_a_table_without_a_fitting_candidate_exits_with_3() -> None:
    done = gpuenv("resolve", *_H100, "--what-if", "libc=musl-1.2,glibc-2.5")
    assert done.returncode == 3
    assert done.stdout.count("none fits") == 2


def test_what_if_and_why_not_exclude_each_other() -> None:
    done = gpuenv("resolve", *_H100, "--what-if", "driver=580", "--why-not", "13x")
    assert done.returncode == 2
    assert "exclude each other" in done.stderr
