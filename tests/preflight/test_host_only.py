"""``--host-only``: nodes without CuPy, and what such a call cannot honour."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import LIMIT, MINIMAL, PROGRAM, gpuenv, run_gpuenv
from tests.report.readers import READERS

EXPECT_NO_GPU = "--expect-no-gpu"


@pytest.mark.parametrize(
    ("machine", "options", "code"),
    [
        ("no-cupy", ("--require", "gpu>=1", "--require", "driver>=550"), 0),
        ("no-cupy", (EXPECT_NO_GPU,), 1),
        ("no-gpu", (EXPECT_NO_GPU,), 0),
        ("no-gpu", (), 1),
        ("mismatch-535", ("--retry-elsewhere",), 75),
        ("a100-row-pending", (), 1),
    ],
)
def test_a_node_is_judged_by_driver_and_gpus(machine: str, options: tuple[str, ...], code: int) -> None:
    command = ("simulate", machine, "--", *PROGRAM, "preflight", "--no-config", "--host-only", *options)
    result = run_gpuenv((*command, "--format", "json"), MINIMAL, LIMIT)
    report = json.loads(result.stdout)
    assert result.returncode == code, report["findings"]
    assert report["host_only"] is True
    assert [finding["code"] for finding in report["findings"] if finding["code"][:3] in ("ENV", "WHL", "LIB")] == []
    assert {entry["name"]: entry["state"] for entry in report["snapshot"]["sources"]}["target"] == "not-asked"


def test_no_form_of_the_report_names_an_environment_or_a_wheel(tmp_path: Path) -> None:
    files = {form: tmp_path / f"report.{form}" for form in READERS if form != "json"}
    formats = [f"--format={form}={path}" for form, path in files.items()]
    command = ("simulate", "no-cupy", "--", *PROGRAM, "preflight", "--no-config", "--host-only")
    result = run_gpuenv((*command, *formats), MINIMAL, LIMIT)
    assert result.stdout.startswith("FIT: CUDA programs can use the GPU here.\n")
    for form, path in files.items():
        text = path.read_text(encoding="utf-8")
        assert "CuPy    " not in text, form
        assert "right wheel" not in text, form


def test_what_needs_an_environment_is_a_usage_error() -> None:
    options = ("--python", ".", "--smoke", "--require", "cupy>=14", "--require", "numpy>=2")
    result = gpuenv("preflight", "--no-config", "--host-only", *options)
    assert (result.returncode, result.stdout) == (2, "")
    excluded = "cupy>=14 (--require), numpy>=2 (--require), --python, --smoke"
    assert f"--host-only judges no environment, and excludes {excluded}" in " ".join(result.stderr.split())


def test_a_configuration_that_needs_an_environment_is_named(tmp_path: Path) -> None:
    (tmp_path / "gpuenv.toml").write_text('smoke = "quick"\nrequire = ["cupy>=14"]\n', encoding="utf-8")
    result = gpuenv("preflight", "--host-only", cwd=tmp_path)
    assert result.returncode == 2
    assert "excludes cupy>=14 (gpuenv.toml: line 2), smoke (gpuenv.toml)" in result.stderr
