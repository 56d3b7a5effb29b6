"""A healthy simulated machine into which one fault is injected, and the invariants of the doctor's answer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.data import data_path
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from gpuenv.simulate.stub_driver import FLAGS
from tests.cli.program import PROGRAM
from tests.faults.file_faults import faults_on_open

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

TIMEOUT = 6.0  # seconds that the machine may take to answer
OVER = 1.5  # extra seconds for starting Python, reaping killed children and printing; a busy host's share is measured
STATUS_OF_WORD = {"FIT": "fit", "FIT, with warnings": "degraded", "UNFIT": "unfit", "UNKNOWN": "unknown"}
EXIT_CODES = {"fit": 0, "degraded": 0, "unfit": 1, "unknown": 8}
PROFILE = "h200-580"


@dataclass(frozen=True, slots=True)
class DoctorRun:
    """One run of the doctor, with its text and its JSON report."""

    code: int
    report: Any
    text: str
    stderr: str
    duration: float

    @property
    def status(self) -> str:
        """``fit`` and so on."""
        return str(self.report["status"])

    @property
    def errors(self) -> list[str]:
        """The codes of findings of severity error."""
        return [entry["code"] for entry in self.report["findings"] if entry["severity"] == "error"]

    def source(self, name: str) -> tuple[str, str]:
        """The state of a source and its detail."""
        (source,) = [entry for entry in self.report["snapshot"]["sources"] if entry["name"] == name]
        return source["state"], source["detail"] or ""

    def fact(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """The value at a path of the Snapshot."""
        value: Any = self.report["snapshot"]
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return value["value"]


@dataclass(frozen=True, slots=True)
class HealthyMachine:
    """A healthy machine until a test injects a fault.

    Attributes:
        folder: the folder of the test.
        root: the driver root.
        libraries: the folder of libcuda and NVML.
        programs: the folder with nvidia-smi, the first on PATH.
        python: the target's interpreter.
        environment: the variables of a call.
    """

    folder: Path
    root: Path
    libraries: Path
    programs: Path
    python: Path
    environment: dict[str, str]

    def faults_on_open(self, folder: Path, fault: str) -> dict[str, str]:
        """The variables that inject a fault into files below a folder when they are opened."""
        return faults_on_open(compile_library("files.c", self.folder), folder, fault, self.environment)

    def doctor(
        self, *options: str, environment: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()
    ) -> DoctorRun:
        """Run the doctor for text and JSON, and check the invariants of its answer."""
        report_file = self.folder / "report.json"
        report_file.unlink(missing_ok=True)
        command = [
            *prefix, *PROGRAM, "doctor", "--python", str(self.python.parents[1]), "--timeout", str(TIMEOUT),
            "--format", "text", "--format", f"json={report_file}", *options,
        ]  # fmt: skip
        before = startup_time(self.environment)
        started = time.monotonic()
        process = subprocess.run(
            command,
            env=self.environment | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
        duration = time.monotonic() - started
        stderr = process.stderr.decode("utf-8", "replace")
        assert "Traceback" not in stderr, stderr
        assert process.returncode in (0, 1, 8), stderr
        assert duration < TIMEOUT + OVER + 2 * max(before, startup_time(self.environment)), f"took {duration:.1f} s"
        report = json.loads(report_file.read_text(encoding="utf-8"))
        run = DoctorRun(process.returncode, report, process.stdout.decode("utf-8", "replace"), stderr, duration)
        assert_outputs_agree(run)
        return run


def startup_time(environment: Mapping[str, str]) -> float:
    """Seconds to start the program without any probing, on this host now."""
    started = time.monotonic()
    subprocess.run([*PROGRAM, "--help"], env=dict(environment), capture_output=True, check=True)
    return time.monotonic() - started


def compile_library(source: str, folder: Path) -> Path:
    """A library for LD_PRELOAD, compiled from a C file of tests/native."""
    library = folder / f"{source.removesuffix('.c')}.so"
    if not library.exists():
        command = ["cc", *FLAGS, "-o", str(library), str(data_path("native") / source)]
        subprocess.run(command, check=True)
    return library


def assert_outputs_agree(run: DoctorRun) -> None:
    """Text, JSON and the exit code agree, no check crashed, and an unfit machine has one primary finding."""
    report = run.report
    assert run.code == report["exit_code"] == EXIT_CODES[report["status"]]
    verdict = re.match(r"([A-Za-z, ]+): ", run.text)
    assert verdict is not None, run.text[:200]
    assert STATUS_OF_WORD[verdict[1]] == report["status"]
    assert [run["code"] for run in report["checks"] if run["status"] == "crashed"] == []
    primary = [entry for entry in report["findings"] if entry["primary"]]
    assert len(primary) == (report["status"] == "unfit")
    missing = [entry["code"] for entry in report["findings"] if f"{entry['code']} {entry['cause']}" not in run.text]
    assert missing == []


def make_healthy_machine(
    folder: Path, stub: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> HealthyMachine:
    """A healthy machine below a folder, with a target environment that a test may damage."""
    profile = load(data_path("machines") / f"{PROFILE}.yaml")
    machine = materialise(profile, folder / "machine", stub, cuda_libraries.of)
    environment = dict(machine.environment)
    libraries = next(
        Path(place) for place in environment["LD_LIBRARY_PATH"].split(":") if (Path(place) / "libcuda.so.1").exists()
    )
    venv = folder / "venv"
    shutil.copytree(targets.interpreter(profile.target).parents[1], venv, symlinks=True)
    base = (venv / "bin/python3").resolve()
    for name in (venv / "bin").glob("python*"):
        name.unlink()
    (venv / "bin/python3").symlink_to(base)  # the only name by which it is found
    return HealthyMachine(
        folder,
        machine.root,
        libraries,
        Path(environment["PATH"].split(":")[0]),
        venv / "bin/python3",
        environment,
    )
