"""Scenarios: a machine profile, changes to it, and a setup of the target's files.

Everything is real: kernel files, the stub driver, a virtual environment; the program runs in its own process.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
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
PYTHON = ("--assume", "python=3.12")  # independent of the Python that runs the tests
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Workspace:
    """The files of a scenario's machine and its target.

    Attributes:
        machine: the driver root and the environment variables of programs.
        prefix: the target environment.
        folder: a directory for other files.
    """

    machine: SimulatedMachine
    prefix: Path
    folder: Path

    @property
    def site(self) -> Path:
        """The site-packages directory of the target."""
        (path,) = self.prefix.glob("lib/python*/site-packages")
        return path


Change = Callable[[Profile], Profile]
Setup = Callable[[Workspace], Mapping[str, str]]


def unchanged(profile: Profile) -> Profile:
    return profile


def no_setup(workspace: Workspace) -> Mapping[str, str]:
    del workspace
    return {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A machine that has a cause.

    Attributes:
        cause: the slug of the cause.
        name: a short description.
        base: the machine profile from which it is derived.
        change: changes to the profile.
        spoil: what is done to files; answers further variables of the caller.
        error: whether the cause is the primary error; otherwise it is a warning or a note.
        command: the command that shows it.
        unprivileged: the program runs without root\'s permission to open every file.
        needs_root: whether only root can build it.
        assumptions: arguments of --assume; empty to probe a broken Python.
    """

    cause: str
    name: str
    base: str
    change: Change = unchanged
    setup: Setup = no_setup
    error: bool = True
    command: tuple[str, ...] = ("doctor",)
    unprivileged: bool = False
    needs_root: bool = False
    assumptions: tuple[str, ...] = PYTHON

    def __str__(self) -> str:
        return f"{self.cause}: {self.name}"


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The stub driver and the CUDA libraries of scenarios."""

    stub: StubDriver
    libraries: CudaLibraries


@dataclass(frozen=True, slots=True)
class DoctorRun:
    """The exit code and report of a run."""

    exit_code: int
    report: Any


@cache
def load_machine(name: str) -> Profile:
    return load(MACHINES / f"{name}.yaml")


@dataclass(frozen=True, slots=True)
class PreparedScenario:
    """A scenario whose files exist: the command, its variables, its limit of permissions and its directory."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    prefix: list[str]
    folder: Path

    def run(self, *lines: str) -> DoctorRun:
        """Runs the program, after these lines in the same shell."""
        command = [*self.prefix, *self.command]
        if lines:
            command = ["bash", "-c", "\n".join((*lines, f"exec {shlex.join(command)}"))]
        process = subprocess.run(
            command,
            env=dict(self.environment),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert "Traceback" not in process.stderr, process.stderr
        assert process.stdout.startswith("{"), f"{self.name}: {process.stdout[:400]}\n{process.stderr}"
        return DoctorRun(process.returncode, json.loads(process.stdout))


def run_scenario(scenario: Scenario, context: BuildContext, folder: Path) -> DoctorRun:
    """Builds a scenario in an empty directory and runs the program on it."""
    return prepare_scenario(scenario, context, folder).run()


def prepare_scenario(scenario: Scenario, context: BuildContext, folder: Path) -> PreparedScenario:
    """Builds a scenario in an empty directory."""
    profile = scenario.change(load_machine(scenario.base))
    machine = materialise(profile, folder, context.stub, context.libraries.of)
    interpreter = Targets(folder / "targets").interpreter(profile.target)
    workspace = Workspace(machine, interpreter.parents[1], folder)
    further_variables = scenario.setup(workspace)
    limit = [] if profile.timeout is None else ["--timeout", str(profile.timeout)]
    options = ["--python", str(interpreter), *scenario.assumptions, *limit, "--format", "json"]
    return PreparedScenario(
        str(scenario),
        [sys.executable, "-m", "gpuenv", *scenario.command, *options],
        {**machine.environment, **further_variables},
        _drop_permissions() if scenario.unprivileged else [],
        machine.root,
    )


def _drop_permissions() -> list[str]:
    """A command prefix that drops root's permission to open files of any mode."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "setpriv belongs to util-linux"
    return [setpriv, "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


def driver(**fields: Any) -> Change:  # noqa: ANN401 - fields of many kinds
    return lambda profile: replace(profile, driver=replace(profile.driver, **fields))


def host(**fields: Any) -> Change:  # noqa: ANN401 - fields of many kinds
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


def gpus(**fields: Any) -> Change:  # noqa: ANN401 - fields of many kinds
    return lambda profile: replace(profile, gpus=tuple(replace(gpu, **fields) for gpu in profile.gpus))


def files(**texts: str) -> Change:
    """Adds files below the driver root; two underscores stand for a slash."""
    paths = {name.replace("__", "/"): text for name, text in texts.items()}
    return lambda profile: replace(profile, files={**profile.files, **paths})


def combine(*changes: Change) -> Change:
    def change(profile: Profile) -> Profile:
        for step in changes:
            profile = step(profile)
        return profile

    return change


def variables(**values: str) -> Setup:
    return lambda _: values


def combine_setups(*setups: Setup) -> Setup:
    return lambda workspace: {name: value for setup in setups for name, value in setup(workspace).items()}
