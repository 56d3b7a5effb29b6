"""Runs a command on a pretend machine: the stub driver is compiled once and kept, the machine laid out for each run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from gpuenv.data import data_path
from gpuenv.model.simulated import VARIABLE
from gpuenv.model.unread import reason_of
from gpuenv.simulate.build import FLAGS, SOURCES, StubDriver, build, built_in
from gpuenv.simulate.machine import SimulatedMachine, materialise
from gpuenv.simulate.programs import search_path
from gpuenv.simulate.reader import ProfileError
from gpuenv.simulate.records import Profile
from gpuenv.simulate.toolkit import compile_toolkit

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

Announce = Callable[[str], None]


def run_on(profile: Profile, command: Sequence[str], environment: Mapping[str, str], announce: Announce) -> int:
    """Runs a command with the caller's own streams; answers its exit code as a shell would.

    Args:
        profile: the machine.
        command: argument vector.
        environment: the caller's variables.
        announce: told when the stub driver is compiled, which takes a moment.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
        ProfileError: when the machine cannot be laid out.
    """
    cache = cache_folder(environment)
    with tempfile.TemporaryDirectory(prefix="gpuenv-machine-") as folder:
        stub = kept_stub(cache, Path(folder), announce)
        machine = _laid_out(profile, Path(folder), stub)
        return _run(command, combined(machine, environment, stub) | {VARIABLE: profile.name})


def _laid_out(profile: Profile, folder: Path, stub: StubDriver) -> SimulatedMachine:
    try:
        return materialise(profile, folder / "machine", stub, partial(compile_toolkit, folder=folder))
    except OSError as error:  # two things in one place, a name that is too long, a disk that is full
        place = str(error.filename2 or error.filename or "").partition("/machine/root/")[2]
        where = f"{profile.name}: {place}" if place else profile.name
        raise ProfileError(f"{where}: the machine cannot be laid out: {reason_of(error)}") from error


def combined(machine: SimulatedMachine, environment: Mapping[str, str], stub: StubDriver) -> dict[str, str]:
    """The caller's variables with those of the machine: its libraries and programs are found before all others.

    What keeps the host's programs out is laid out beside the machine; its driver's libraries the loader is kept from.
    """
    kept = {name: value for name, value in environment.items() if name not in _OWN and not name.startswith(_OWN_KINDS)}
    for name, value in {**machine.environment, "LD_AUDIT": str(stub.audit)}.items():
        if name in _CALLERS:
            continue
        given = kept.get(name)
        kept[name] = f"{value}:{given}" if name in _ADDED and given else value
    return kept | {"PATH": search_path(machine, environment.get("PATH"))}


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Where compiled stub drivers are kept, by what they were compiled of; None where the user has no such place."""
    home = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or "", ".cache")  # noqa: PTH118
    if not os.path.isabs(home):  # noqa: PTH117 - no HOME
        return None
    sources = data_path("native")
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((sources / name).read_bytes())
    digest.update(f"{sys.platform} {os.uname().machine} {environment.get('CC', '')} {FLAGS}".encode())
    return Path(home) / "gpuenv" / f"stub-{digest.hexdigest()[:16]}"


def kept_stub(cache: Path | None, folder: Path, announce: Announce) -> StubDriver:
    """The stub driver from the cache, compiled into it the first time; into the run's own folder where there is none.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    if cache is not None and _is_whole(built_in(cache)):
        return built_in(cache)
    announce("compiling the stub driver, once")
    made = build(folder / "stub")
    if cache is None:
        return made
    with contextlib.suppress(OSError):  # a cache that cannot be written costs a moment, no more
        cache.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".stub-", dir=cache.parent))
        try:
            shutil.copytree(made.folder, part / "stub", symlinks=True)
            shutil.rmtree(cache, ignore_errors=True)  # of which somebody has removed a part
            (part / "stub").rename(cache)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return made


def _is_whole(stub: StubDriver) -> bool:
    return all(part.is_file() for part in (stub.nvml, stub.cuda, stub.uname, stub.audit, stub.nvidia_smi))


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
