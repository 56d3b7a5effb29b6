"""Runs a command on a pretend machine, which is laid out for each run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from gpuenv.model.gpus import VARIABLE
from gpuenv.model.strings import error_reason
from gpuenv.simulate.build import Announce, StubDriver, cache_folder, kept_stub, kept_toolkit
from gpuenv.simulate.machine import SimulatedMachine, materialise, search_path
from gpuenv.simulate.profile import Profile, ProfileError

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells say it
_SIGNALLED = 128
_HANDED_ON = ("SIGTERM", "SIGHUP")
# What the caller's own machine says of its GPUs, of a job's share of them and of what contains a process is not to be
# heard on another one.
_OWN_KINDS = ("NVIDIA_", "CUDA_MPS_", "GPUENV_STUB", "GPUENV_DRIVER_ROOT")
_OWN = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "_CONDOR_AssignedGPUs"),
    *("container", "KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"),
)
_ADDED = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
_CALLERS = ("HOME", "LC_ALL")


def run_on(profile: Profile, command: Sequence[str], environment: Mapping[str, str], announce: Announce) -> int:
    """Runs a command with the caller's own streams; answers its exit code as a shell would.

    Args:
        profile: the machine.
        command: argument vector.
        environment: the caller's variables.
        announce: called when the stub driver is compiled, which takes a moment.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
        ProfileError: when the machine cannot be laid out.
    """
    cache = cache_folder(environment)
    with tempfile.TemporaryDirectory(prefix="gpuenv-machine-") as folder:
        stub = kept_stub(cache, Path(folder), announce)
        machine = _laid_out(profile, Path(folder), stub, cache)
        return _run(command, combined(machine, environment, stub) | {VARIABLE: profile.name})


def _laid_out(profile: Profile, folder: Path, stub: StubDriver, cache: Path | None) -> SimulatedMachine:
    try:
        return materialise(profile, folder / "machine", stub, partial(kept_toolkit, cache=cache, folder=folder))
    except OSError as error:  # two things in one place, a name that is too long, a disk that is full
        place = str(error.filename2 or error.filename or "").partition("/machine/root/")[2]
        where = f"{profile.name}: {place}" if place else profile.name
        raise ProfileError(f"{where}: the machine cannot be laid out: {error_reason(error)}") from error


def combined(machine: SimulatedMachine, environment: Mapping[str, str], stub: StubDriver) -> dict[str, str]:
    """The caller's variables with those of the machine: its libraries and programs are found before all others.

    What keeps the host's programs out is laid out next to the machine; its driver's libraries the loader is kept from.
    """
    kept = {name: value for name, value in environment.items() if name not in _OWN and not name.startswith(_OWN_KINDS)}
    for name, value in {**machine.environment, "LD_AUDIT": str(stub.audit)}.items():
        if name in _CALLERS:
            continue
        given = kept.get(name)
        kept[name] = f"{value}:{given}" if name in _ADDED and given else value
    return kept | {"PATH": search_path(machine, environment.get("PATH"))}


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    named = command[0]
    program = named if os.sep in named and os.path.exists(named) else shutil.which(named, path=environment.get("PATH"))  # noqa: PTH110 - as given
    if program is None:
        sys.stderr.write(f"gpuenv: {named}: command not found\n")
        return _NOT_FOUND
    try:
        process = subprocess.Popen(command, executable=program, env=environment)
    except OSError as error:
        sys.stderr.write(f"gpuenv: {named}: {error.strerror or error}\n")
        return _NOT_EXECUTABLE
    with _handed_on(process):
        while True:
            try:
                code = process.wait()
                return code if code >= 0 else _SIGNALLED - code
            except KeyboardInterrupt:  # the terminal has sent it to the command as well, whose answer counts
                continue


@contextlib.contextmanager
def _handed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whoever asks this program to end means the command: what that makes of it counts."""

    def hand_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    numbers = [number for name in _HANDED_ON if (number := getattr(signal, name, None)) is not None]
    former = {
        number: signal.signal(number, hand_on) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
