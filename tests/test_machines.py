"""Every profile of ``machines`` as a whole process: what doctor and resolve say of it is what is right to say."""

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
from tests.support.processes import timed
from tests.support.trust import rank
from tools.fact_sources import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

PROFILES = tuple(load(path) for path in sorted((Path(__file__).parent / "machines").glob("*.yaml")))
EVERY = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
NOTHING_FITS = 3
WITH_PYTHON = ("--assume", "python=3.12")  # whatever Python runs the tests
OVER = 1.0  # seconds beyond --timeout: starting Python, burying the killed, printing


@dataclass(frozen=True, slots=True)
class Bench:
    """A machine and the target environment on it."""

    profile: Profile
    machine: SimulatedMachine
    interpreter: Path

    def run(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the program; a traceback or a fault of its own is never right."""
        timeout = self.profile.timeout
        limit = [] if timeout is None else ["--timeout", str(timeout)]
        done, took = self._timed(command, "--python", str(self.interpreter), *WITH_PYTHON, *limit, *options)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode != 70, done.stderr
        if timeout is not None and took >= timeout + OVER:
            _, asking_nothing = self._timed(command, "--no-probe", *WITH_PYTHON)  # what a busy host makes of it
            assert took < timeout + OVER + asking_nothing, f"took {took:.1f} s"
        return done

    def _timed(self, *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
        return timed([sys.executable, "-m", "gpuenv", *arguments], self.machine)

    def ask(self, command: str) -> tuple[int, Any]:
        """Exit code and JSON object of a command."""
        done = self.run(command, "--format", "json")
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def bench(
    profile: Profile, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> Bench:
    if lacking := found_on_this_host(profile):
        pytest.skip(f"this host has what {profile.name} lacks: {lacking}")
    machine = materialise(profile, tmp_path, stub_driver, cuda_libraries.of)
    return Bench(profile, machine, targets.interpreter(profile.target))


def found_on_this_host(profile: Profile) -> str | None:
    """A library or program of this very host that the loader or PATH would find in place of the one left out."""
    driver = profile.driver
    parts = {
        "NVML": not driver.nvml and ctypes.util.find_library("nvidia-ml"),
        "libcuda": not driver.libcuda and ctypes.util.find_library("cuda"),
        "nvidia-smi": not driver.smi and shutil.which("nvidia-smi", path="/usr/bin:/bin:/usr/lib/wsl/lib"),
        "CUDA libraries": profile.toolkit is None and ctypes.util.find_library("nvrtc"),
    }
    return ", ".join(name for name, there in parts.items() if there) or None


@EVERY
def test_doctor_says_what_is_right(bench: Bench, tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    done = bench.run("doctor", "--format", "text", "--format", f"json={written}")
    code = done.returncode
    report = json.loads(written.read_text(encoding="utf-8"))
    expect = bench.profile.expect
    findings = [finding for finding in report["findings"] if finding["severity"] != "note"]
    said = {
        "exit_code": code,
        "status": report["status"],
        "primary": next((finding["cause"] for finding in findings if finding["primary"]), None),
        "causes": sorted({finding["cause"] for finding in findings}),
        "wheel": report["resolution"]["wheel"] and report["resolution"]["wheel"]["distribution"],
        "crashed": [run["code"] for run in report["checks"] if run["status"] == "crashed"],
    }
    assert said == {
        "exit_code": expect.exit_code,
        "status": expect.status,
        "primary": expect.primary,
        "causes": sorted(expect.causes),
        "wheel": expect.wheel,
        "crashed": [],
    }, json.dumps(findings, indent=1)
    assert expected_checks(bench.profile.name) <= {finding["code"] for finding in report["findings"]}
    assert report["exit_code"] == code
    validator().validate(report)
    assert_sources_stand_in_the_table(report["snapshot"])
    assert not {entry["value"] for finding in findings for entry in finding["evidence"]} & {"True", "False", "None"}
    if not expect.causes:
        assert report["findings"] == []
    if expect.status == "fit":
        assert_is_read_right(report["snapshot"], bench.profile)
    assert {path: fact_at(report["snapshot"], path) for path in expect.facts} == dict(expect.facts)
    if expect.primary:
        assert_text_names_the_same_cause(done.stdout, findings)


@cache
def validator() -> Draft202012Validator:
    """Of what ``gpuenv schema report`` prints."""
    return Draft202012Validator(json_schema(Report, "gpuenv.report/1"))


def fact_at(snapshot: Any, path: str) -> str:  # noqa: ANN401 - JSON
    """The value at a path, as text: of a list its entries, of a reading the value settled on."""
    found = snapshot
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    if isinstance(found, dict) and "value" in found:
        found = found["value"]
    if isinstance(found, list):
        return ", ".join(map(str, found))
    if isinstance(found, bool):
        return "yes" if found else "no"
    return "none" if found is None else str(found)


def assert_sources_stand_in_the_table(snapshot: Any) -> None:  # noqa: ANN401 - JSON
    """Whoever told a fact is in its row, and the answers stand in the order of trust."""
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


def assert_is_read_right(snapshot: Any, profile: Profile) -> None:  # noqa: ANN401 - JSON
    assert snapshot["driver"]["version"]["value"] == profile.driver.version
    read = [(gpu["name"]["value"], gpu["compute_capability"]["value"]) for gpu in snapshot["gpus"]]
    opened = [(gpu, gpu.shown is PciVisibility.NVML) for gpu in counted(profile)]
    assert read == [(gpu.name, gpu.capability) if known else (None, None) for gpu, known in opened]
    assert snapshot["host"]["arch"]["value"] == profile.host.arch


def assert_text_names_the_same_cause(text: str, findings: list[Any]) -> None:
    primary = [(finding["code"], finding["cause"]) for finding in findings if finding["primary"]]
    assert re.findall(r"^Fix this first\n  (\S+) (\S+)", text, re.MULTILINE) == primary
    assert text.startswith("UNFIT: ")


@EVERY
@pytest.mark.long
def test_resolve_names_the_right_wheel(bench: Bench) -> None:
    code, resolution = bench.ask("resolve")
    wheel = resolution["wheel"] and resolution["wheel"]["distribution"]
    assert wheel == bench.profile.expect.wheel, resolution["explanation"]
    assert code == (0 if wheel else NOTHING_FITS)


def test_a_machine_of_ours_says_where_its_facts_come_from_and_what_is_right() -> None:
    def lacks_something(profile: Profile) -> bool:
        written = parse((Path(__file__).parent / f"machines/{profile.name}.yaml").read_text(encoding="utf-8")).value
        return not isinstance(written, dict) or not {"about", "source", "expect"} <= set(written) or not profile.source

    assert [profile.name for profile in PROFILES if lacks_something(profile)] == []


@pytest.mark.parametrize(
    ("written", "misspelt", "named"),
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
        ("class: 3d", "class: 3d, shown: nobody", "gpus[0]: shown"),
        ("class: 3d", "class: 3d, on_bus: no, shown: bus", "gpus[0]: shown"),
        ("toolkit: 13.0", "found_first: {libcuda.so.1: gone}", "found_first: libcuda.so.1"),
        ("toolkit: 13.0", "found_first: {libcuda: empty}", "found_first: libcuda is not a library's file name"),
        ("packages:", "package:", "target: package"),
        ("target:", "target:\n  lib64: perhaps", "target: lib64"),
        ("status: fit", "status: fit, facts: {driver.branch: [580]}", "expect: facts"),
    ],
)
def test_a_slip_in_a_profile_is_named(tmp_path: Path, written: str, misspelt: str, named: str) -> None:
    text = (Path(__file__).parent / "machines/h200-580.yaml").read_text(encoding="utf-8")
    assert written in text
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace(written, misspelt), encoding="utf-8")
    with pytest.raises(ProfileError, match=re.escape(named)) as told:
        load(broken)
    assert str(told.value).startswith("broken.yaml: ")
