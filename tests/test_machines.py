"""Every profile of ``machines``: doctor and resolve, run as processes, give the expected results."""

from __future__ import annotations

import ctypes.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpuenv.matrix.strict_yaml import parse
from gpuenv.model.json_schema import json_schema
from gpuenv.model.reading import ASSUMED
from gpuenv.report.report import Report
from gpuenv.simulate.layout import SimulatedMachine, counted, materialise
from gpuenv.simulate.profile import PciVisibility, Profile, ProfileError, load
from tests.scenarios.expected_checks import expected_checks
from tests.support.processes import run_timed
from tests.support.trust import rank
from tools.fact_sources import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark import ParameterSet

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

PROFILES = tuple(load(path) for path in sorted((Path(__file__).parent / "machines").glob("*.yaml")))


def in_two_lanes() -> Iterator[ParameterSet]:
    """Every profile; in the long lane those that wait for a deadline, and repetitions of findings and status."""
    seen = set()
    for profile in PROFILES:
        expected = profile.expect.status, profile.expect.primary, *profile.expect.causes
        is_long = profile.timeout is not None or expected in seen
        yield pytest.param(profile, id=profile.name, marks=[pytest.mark.long] if is_long else [])
        if not is_long:
            seen.add(expected)


each_profile = pytest.mark.parametrize("profile", tuple(in_two_lanes()))
NOTHING_FITS = 3
WITH_PYTHON = ("--assume", "python=3.12")  # the tests may run with another Python
OVERHEAD = 1.0  # seconds beyond --timeout: starting Python, waiting for killed processes, printing


@dataclass(frozen=True, slots=True)
class MachineRunner:
    """Runs commands on a machine with a target environment."""

    profile: Profile
    machine: SimulatedMachine
    interpreter: Path

    def run(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the program; a traceback or an internal error fails the test."""
        timeout = self.profile.timeout
        limit = [] if timeout is None else ["--timeout", str(timeout)]
        result, duration = self._timed(command, "--python", str(self.interpreter), *WITH_PYTHON, *limit, *options)
        assert "Traceback" not in result.stderr, result.stderr
        assert result.returncode != 70, result.stderr
        if timeout is not None and duration >= timeout + OVERHEAD:
            _, startup = self._timed(command, "--no-probe", *WITH_PYTHON)  # the start-up time on a busy host
            assert duration < timeout + OVERHEAD + startup, f"took {duration:.1f} s"
        return result

    def _timed(self, *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
        return run_timed([sys.executable, "-m", "gpuenv", *arguments], self.machine)

    def run_json(self, command: str) -> tuple[int, Any]:
        """The exit code and JSON object of a command."""
        result = self.run(command, "--format", "json")
        return result.returncode, json.loads(result.stdout)


@pytest.fixture
def runner(
    profile: Profile, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> MachineRunner:
    if present := present_on_this_host(profile):
        pytest.skip(f"this host has what {profile.name} lacks: {present}")
    machine = materialise(profile, tmp_path, stub_driver, cuda_libraries.of)
    return MachineRunner(profile, machine, targets.interpreter(profile.target))


def present_on_this_host(profile: Profile) -> str | None:
    """Libraries and programs of this host that the loader or PATH would find although the profile lacks them."""
    driver = profile.driver
    parts = {
        "NVML": not driver.nvml and ctypes.util.find_library("nvidia-ml"),
        "libcuda": not driver.libcuda and ctypes.util.find_library("cuda"),
        "nvidia-smi": not driver.smi and shutil.which("nvidia-smi", path="/usr/bin:/bin:/usr/lib/wsl/lib"),
        "CUDA libraries": profile.toolkit is None and ctypes.util.find_library("nvrtc"),
    }
    return ", ".join(name for name, present in parts.items() if present) or None


@each_profile
def test_the_doctor_reports_the_expected_findings(runner: MachineRunner, tmp_path: Path) -> None:
    report_file = tmp_path / "report.json"
    result = runner.run("doctor", "--format", "text", "--format", f"json={report_file}")
    code = result.returncode
    report = json.loads(report_file.read_text(encoding="utf-8"))
    expect = runner.profile.expect
    findings = [finding for finding in report["findings"] if finding["severity"] != "note"]
    actual = {
        "exit_code": code,
        "status": report["status"],
        "primary": next((finding["cause"] for finding in findings if finding["primary"]), None),
        "causes": sorted({finding["cause"] for finding in findings}),
        "wheel": report["resolution"]["wheel"] and report["resolution"]["wheel"]["distribution"],
        "crashed": [run["code"] for run in report["checks"] if run["status"] == "crashed"],
    }
    assert actual == {
        "exit_code": expect.exit_code,
        "status": expect.status,
        "primary": expect.primary,
        "causes": sorted(expect.causes),
        "wheel": expect.wheel,
        "crashed": [],
    }, json.dumps(findings, indent=1)
    assert expected_checks(runner.profile.name) <= {finding["code"] for finding in report["findings"]}
    assert report["exit_code"] == code
    validator().validate(report)
    assert_sources_are_in_the_table(report["snapshot"])
    assert not {entry["value"] for finding in findings for entry in finding["evidence"]} & {"True", "False", "None"}
    if not expect.causes:
        assert report["findings"] == []
    if expect.status == "fit":
        assert_facts_match_the_profile(report["snapshot"], runner.profile)
    assert {path: fact_at(report["snapshot"], path) for path in expect.facts} == dict(expect.facts)
    if expect.primary:
        assert_text_names_the_same_cause(result.stdout, findings)


@cache
def validator() -> Draft202012Validator:
    """The validator of the schema that ``gpuenv schema report`` prints."""
    return Draft202012Validator(json_schema(Report, "gpuenv.report/1"))


def fact_at(snapshot: Any, path: str) -> str:  # noqa: ANN401 - JSON
    """The value at a path, as text: the entries of a list, the value of a reading."""
    value = snapshot
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def assert_sources_are_in_the_table(snapshot: Any) -> None:  # noqa: ANN401 - JSON
    """Asserts that the sources of each fact are in its row, in the order of trust."""
    for path, reading in readings(snapshot, ""):
        row = sources_of(path)
        assert row is not None, path
        named = [answer["source"] for answer in ({"source": reading["source"]}, *reading["others"]) if answer["source"]]
        ranks = [rank(row, name) for name in named if name != ASSUMED]
        assert None not in ranks, f"{path}: {named} are not all among {row.trust}"
        assert ranks == sorted(ranks, key=lambda place: place or 0), f"{path}: {named}"


def readings(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    """Every reading with its path, the entries of lists under ``[]``."""
    if isinstance(value, dict) and {"value", "source", "others", "reason"} == set(value):
        yield path, value
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from readings(entry, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for entry in value:
            yield from readings(entry, f"{path}[]")


def assert_facts_match_the_profile(snapshot: Any, profile: Profile) -> None:  # noqa: ANN401 - JSON
    assert snapshot["driver"]["version"]["value"] == profile.driver.version
    read = [(gpu["name"]["value"], gpu["compute_capability"]["value"]) for gpu in snapshot["gpus"]]
    opened = [(gpu, gpu.shown is PciVisibility.NVML) for gpu in counted(profile)]
    assert read == [(gpu.name, gpu.capability) if known else (None, None) for gpu, known in opened]
    assert snapshot["host"]["arch"]["value"] == profile.host.arch


def assert_text_names_the_same_cause(text: str, findings: list[Any]) -> None:
    primary = [(finding["code"], finding["cause"]) for finding in findings if finding["primary"]]
    assert re.findall(r"^Fix this first\n  (\S+) (\S+)", text, re.MULTILINE) == primary
    assert text.startswith("UNFIT: ")


@each_profile
@pytest.mark.long
def test_resolve_names_the_expected_wheel(runner: MachineRunner) -> None:
    code, resolution = runner.run_json("resolve")
    wheel = resolution["wheel"] and resolution["wheel"]["distribution"]
    assert wheel == runner.profile.expect.wheel, resolution["explanation"]
    assert code == (0 if wheel else NOTHING_FITS)


def test_every_profile_names_its_source_and_its_expected_results() -> None:
    def is_incomplete(profile: Profile) -> bool:
        content = parse((Path(__file__).parent / f"machines/{profile.name}.yaml").read_text(encoding="utf-8")).value
        return not isinstance(content, dict) or not {"about", "source", "expect"} <= set(content) or not profile.source

    assert [profile.name for profile in PROFILES if is_incomplete(profile)] == []


@pytest.mark.parametrize(
    ("original", "misspelled", "named"),
    [
        ("about:", "abuot:", "abuot"),
        ("module: open", "module: opne", "driver: module"),
        ("capability: 9.0", "capabilty: 9.0", "gpus[0]: capabilty"),
        ("3a:00.0", "3a:00", "gpus[0]: pci"),
        ("MiB", "GB", "gpus[0]: memory"),
        ("status: fit", "status: fine", "expect: status"),
        ("causes: []", "causes: [no-such-cause]", "expect: causes"),
        ("wheel: ", "wheels: ", "expect: wheels"),
        ("toolkit:", "about:", "a second time"),
        ("class: 3d", "class: 3d, shown: anywhere", "gpus[0]: shown"),
        ("class: 3d", "class: 3d, on_bus: no, shown: bus", "gpus[0]: shown"),
        ("toolkit: 13.0", "found_first: {libcuda.so.1: gone}", "found_first: libcuda.so.1"),
        ("toolkit: 13.0", "found_first: {libcuda: empty}", "found_first: libcuda is not a library's file name"),
        ("packages:", "package:", "target: package"),
        ("target:", "target:\n  lib64: perhaps", "target: lib64"),
        ("status: fit", "status: fit, facts: {driver.branch: [580]}", "expect: facts"),
    ],
)
def test_an_error_in_a_profile_is_named(tmp_path: Path, original: str, misspelled: str, named: str) -> None:
    text = (Path(__file__).parent / "machines/h200-580.yaml").read_text(encoding="utf-8")
    assert original in text
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace(original, misspelled), encoding="utf-8")
    with pytest.raises(ProfileError, match=re.escape(named)) as raised:
        load(broken)
    assert str(raised.value).startswith("broken.yaml: ")
