"""A sound machine as a whole process, of which one thing is spoilt, and what must hold of the answer all the same."""

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
from tests.faults.spoiling import as_opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

TIMEOUT = 6.0  # seconds that the machine may take to answer
OVER = 1.5  # seconds beyond: starting Python, burying the killed, printing; a busy host's share is measured
WORDS = {"FIT": "fit", "FIT, with warnings": "degraded", "UNFIT": "unfit", "UNKNOWN": "unknown"}
CODES = {"fit": 0, "degraded": 0, "unfit": 1, "unknown": 8}
PROFILE = "h200-580"


@dataclass(frozen=True, slots=True)
class Told:
    """What the doctor said, in both forms at once."""

    code: int
    report: Any
    text: str
    stderr: str
    took: float

    @property
    def status(self) -> str:
        """``fit`` and so on."""
        return str(self.report["status"])

    @property
    def errors(self) -> list[str]:
        """The codes of findings of severity error."""
        return [entry["code"] for entry in self.report["findings"] if entry["severity"] == "error"]

    def source(self, name: str) -> tuple[str, str]:
        """How the asking of a source ended, and its detail."""
        (found,) = [entry for entry in self.report["snapshot"]["sources"] if entry["name"] == name]
        return found["state"], found["detail"] or ""

    def fact(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """The value settled on at a path of the Snapshot."""
        found: Any = self.report["snapshot"]
        for part in path.split("."):
            found = found[int(part)] if isinstance(found, list) else found[part]
        return found["value"]


@dataclass(frozen=True, slots=True)
class Sound:
    """A machine on which nothing is wrong until a test spoils something.

    Attributes:
        folder: of the test's own.
        root: the driver root.
        libraries: where libcuda and NVML lie.
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

    def as_opened(self, folder: Path, how: str) -> dict[str, str]:
        """The variables under which what lies below a folder is spoilt as it is opened."""
        return as_opened(compiled("files.c", self.folder), folder, how, self.environment)

    def doctor(self, *options: str, environment: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()) -> Told:
        """Runs the doctor for text and JSON at once, and holds the answer against what is always true."""
        written = self.folder / "report.json"
        written.unlink(missing_ok=True)
        command = [
            *prefix, *PROGRAM, "doctor", "--python", str(self.python.parents[1]), "--timeout", str(TIMEOUT),
            "--format", "text", "--format", f"json={written}", *options,
        ]  # fmt: skip
        before = idle(self.environment)
        started = time.monotonic()
        done = subprocess.run(
            command,
            env=self.environment | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
        took = time.monotonic() - started
        stderr = done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in stderr, stderr
        assert done.returncode in (0, 1, 8), stderr
        assert took < TIMEOUT + OVER + 2 * max(before, idle(self.environment)), f"took {took:.1f} s"
        report = json.loads(written.read_text(encoding="utf-8"))
        told = Told(done.returncode, report, done.stdout.decode("utf-8", "replace"), stderr, took)
        agree(told)
        return told


def idle(environment: Mapping[str, str]) -> float:
    """Seconds that starting the program and asking nothing takes on this host just now."""
    started = time.monotonic()
    subprocess.run([*PROGRAM, "--help"], env=dict(environment), capture_output=True, check=True)
    return time.monotonic() - started


def compiled(source: str, folder: Path) -> Path:
    """A library for LD_PRELOAD, of one of the C files of tests/native."""
    library = folder / f"{source.removesuffix('.c')}.so"
    if not library.exists():
        command = ["cc", *FLAGS, "-o", str(library), str(data_path("native") / source)]
        subprocess.run(command, check=True)
    return library


def agree(told: Told) -> None:
    """Text, JSON and the exit code say the same, no check crashed, and an unfit machine has one thing to cure first."""
    report = told.report
    assert told.code == report["exit_code"] == CODES[report["status"]]
    word = re.match(r"([A-Za-z, ]+): ", told.text)
    assert word is not None, told.text[:200]
    assert WORDS[word[1]] == report["status"]
    assert [run["code"] for run in report["checks"] if run["status"] == "crashed"] == []
    primary = [entry for entry in report["findings"] if entry["primary"]]
    assert len(primary) == (report["status"] == "unfit")
    missing = [entry["code"] for entry in report["findings"] if f"{entry['code']} {entry['cause']}" not in told.text]
    assert missing == []


def lay_out(folder: Path, stub: StubDriver, cuda_libraries: CudaLibraries, targets: Targets) -> Sound:
    """A sound machine below a folder, with a target of its own that may be spoilt."""
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
    (venv / "bin/python3").symlink_to(base)  # the one name under which it is found
    return Sound(
        folder,
        machine.root,
        libraries,
        Path(environment["PATH"].split(":")[0]),
        venv / "bin/python3",
        environment,
    )
