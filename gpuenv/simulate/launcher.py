"""Runs a command on a simulated machine, which is laid out for each run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from gpuenv.model.gpus import SIMULATED
from gpuenv.model.strings import error_reason
from gpuenv.simulate.layout import SimulatedMachine, materialise, search_path
from gpuenv.simulate.profile import Profile, ProfileError
from gpuenv.simulate.stub_driver import Announce, StubDriver, cache_folder, cached_stub, cached_toolkit

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as in shells
_SIGNALLED = 128
_FORWARDED = ("SIGTERM", "SIGHUP")
# Variables about the caller's GPUs, toolkit, job and container, which do not apply to the simulated machine.
_REMOVED_PREFIXES = ("NVIDIA_", "CUDA_MPS_", "GPUENV_STUB", "GPUENV_DRIVER_ROOT")
_REMOVED = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("CUDA_PATH", "CUDA_HOME"),
    *("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "_CONDOR_AssignedGPUs"),
    *("container", "KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"),
)
_PREPENDED = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
_UNCHANGED = ("HOME", "LC_ALL")


def run_on(
    profile: Profile, command: Sequence[str], environment: Mapping[str, str], announce: Announce, progress: Announce
) -> int:
    """Runs a command with the caller's streams; returns its exit code as a shell would.

    ``progress`` gets a message before the stub driver is compiled, which takes a moment; ``announce`` gets all others.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
        ProfileError: when the machine cannot be laid out.
    """
    cache = cache_folder(environment, announce)
    with tempfile.TemporaryDirectory(prefix="gpuenv-machine-") as folder:
        stub = cached_stub(cache, Path(folder), announce, progress)
        toolkit = partial(cached_toolkit, cache=cache, folder=Path(folder), announce=announce)
        try:
            machine = materialise(profile, Path(folder, "machine"), stub, toolkit)
        except OSError as error:  # two entries with the same path, a name that is too long, a full disk
            path = str(error.filename2 or error.filename or "").partition("/machine/root/")[2]
            where = f"{profile.name}: {path}" if path else profile.name
            raise ProfileError(f"{where}: the machine cannot be laid out: {error_reason(error)}") from error
        return _run(command, machine_environment(machine, environment, stub) | {SIMULATED: profile.name}, announce)


def machine_environment(machine: SimulatedMachine, environment: Mapping[str, str], stub: StubDriver) -> dict[str, str]:
    """The caller's variables with those of the machine, whose libraries and programs are found first.

    ``search_path`` hides the host's nvidia-smi and nvcc, and LD_AUDIT the libraries of its driver and toolkit.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _REMOVED and not name.startswith(_REMOVED_PREFIXES)
    }
    for name, value in {**machine.environment, "LD_AUDIT": str(stub.audit)}.items():
        if name in _UNCHANGED:
            continue
        former = kept.get(name)
        kept[name] = f"{value}:{former}" if name in _PREPENDED and former else value
    return kept | {"PATH": search_path(machine, environment.get("PATH"))}


def _run(command: Sequence[str], environment: Mapping[str, str], announce: Announce) -> int:
    name = command[0]
    program = name if os.sep in name and os.path.exists(name) else shutil.which(name, path=environment.get("PATH"))  # noqa: PTH110 - kept unchanged
    if program is None:
        announce(f"{name}: command not found")
        return _NOT_FOUND
    try:
        process = subprocess.Popen(command, executable=program, env=environment)
    except OSError as error:
        announce(f"{name}: {error.strerror or error}")
        return _NOT_EXECUTABLE
    with _forwarded_signals(process):
        while True:
            try:
                code = process.wait()
                return code if code >= 0 else _SIGNALLED - code
            except KeyboardInterrupt:  # the terminal sends it to the command as well, whose exit code counts
                continue


@contextlib.contextmanager
def _forwarded_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forwards termination signals to the command, whose exit code counts."""

    def forward(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    numbers = [number for name in _FORWARDED if (number := getattr(signal, name, None)) is not None]
    former = {
        number: signal.signal(number, forward) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
