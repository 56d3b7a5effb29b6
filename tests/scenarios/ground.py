"""What a scenario is made of: a recorded machine, what is changed of it, and what is done to the files of its target.

Everything is built for real: kernel files, the stub driver, a virtual environment; the program runs as a whole process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import Profile, load
from tests.support.target import Targets

if TYPE_CHECKING:
    from gpuenv.simulate.layout import SimulatedMachine
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries

MACHINES = Path(__file__).parents[1] / "machines"
PYTHON = ("--assume", "python=3.12")  # whatever Python runs the tests
LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Ground:
    """A machine that has been laid out, and its target.

    Attributes:
        machine: its driver root and the environment of programs on it.
        prefix: the target environment.
        folder: for whatever else a scenario needs.
    """

    machine: SimulatedMachine
    prefix: Path
    folder: Path

    @property
    def site(self) -> Path:
        """Where the target's packages are installed."""
        (found,) = self.prefix.glob("lib/python*/site-packages")
        return found


Change = Callable[[Profile], Profile]
Spoil = Callable[[Ground], Mapping[str, str]]


def as_recorded(profile: Profile) -> Profile:
    return profile


def nothing(ground: Ground) -> Mapping[str, str]:
    del ground
    return {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A machine that shows a cause.

    Attributes:
        cause: its slug.
        name: what is the matter.
        base: the recorded machine that it is derived from.
        change: what is different of the machine.
        spoil: what is done to files; answers further variables of the caller.
        error: whether the cause is the one to cure first; else it is a warning or a note beside a fit machine.
        command: the command that shows it.
        without_rights: the program runs without root's right to open every file.
        root: whether it can only be built by root.
        assuming: what is assumed; a Python that is broken is asked itself.
    """

    cause: str
    name: str
    base: str
    change: Change = as_recorded
    spoil: Spoil = nothing
    error: bool = True
    command: tuple[str, ...] = ("doctor",)
    without_rights: bool = False
    root: bool = False
    assuming: tuple[str, ...] = PYTHON

    def __str__(self) -> str:
        return f"{self.cause}: {self.name}"


@dataclass(frozen=True, slots=True)
class Workshop:
    """What scenarios are built with."""

    stub: StubDriver
    libraries: CudaLibraries


@dataclass(frozen=True, slots=True)
class Shown:
    """What the program said of a scenario, and the seconds that it took."""

    exit_code: int
    report: Any
    seconds: float


@cache
def recorded(name: str) -> Profile:
    return load(MACHINES / f"{name}.yaml")


def show(scenario: Scenario, workshop: Workshop, folder: Path) -> Shown:
    """Builds a scenario in an empty folder and runs the program on it."""
    profile = scenario.change(recorded(scenario.base))
    machine = materialise(profile, folder, workshop.stub, workshop.libraries.of)
    interpreter = Targets(folder / "targets").interpreter(profile.target)
    ground = Ground(machine, interpreter.parents[1], folder)
    further = scenario.spoil(ground)
    limit = [] if profile.timeout is None else ["--timeout", str(profile.timeout)]
    options = ["--python", str(interpreter), *scenario.assuming, *limit, "--format", "json"]
    command = [sys.executable, "-m", "gpuenv", *scenario.command, *options]
    started = time.monotonic()
    done = subprocess.run(
        [*(_without_rights() if scenario.without_rights else ()), *command],
        env={**machine.environment, **further},
        cwd=machine.root,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    took = time.monotonic() - started
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout.startswith("{"), f"{scenario}: {done.stdout[:400]}\n{done.stderr}"
    return Shown(done.returncode, json.loads(done.stdout), took)


def _without_rights() -> list[str]:
    """Root may open every file, whatever its mode; a program that is started so may not."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "util-linux brings it"
    return [setpriv, "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


def driver(**fields: Any) -> Change:  # noqa: ANN401 - fields of many kinds
    return lambda profile: replace(profile, driver=replace(profile.driver, **fields))


def host(**fields: Any) -> Change:  # noqa: ANN401 - likewise
    return lambda profile: replace(profile, host=replace(profile.host, **fields))


def target(*packages: str, toolkit: str | None = "as it is") -> Change:
    def change(profile: Profile) -> Profile:
        kit = profile.toolkit if toolkit == "as it is" else toolkit
        return replace(profile, target=replace(profile.target, packages=packages), toolkit=kit)

    return change


def stub(**keys: str) -> Change:
    """Keys of the stub driver; two underscores stand for a dot."""
    table = {name.replace("__", "."): value for name, value in keys.items()}
    return lambda profile: replace(profile, stub={**profile.stub, **table})


def gpus(**fields: Any) -> Change:  # noqa: ANN401 - likewise
    return lambda profile: replace(profile, gpus=tuple(replace(gpu, **fields) for gpu in profile.gpus))


def files(**texts: str) -> Change:
    """Further files below the driver root; two underscores stand for a slash."""
    paths = {name.replace("__", "/"): text for name, text in texts.items()}
    return lambda profile: replace(profile, files={**profile.files, **paths})


def both(*changes: Change) -> Change:
    def change(profile: Profile) -> Profile:
        for step in changes:
            profile = step(profile)
        return profile

    return change


def variables(**values: str) -> Spoil:
    return lambda _: values
