"""Slurm's recipes on a real Slurm of one machine, where Debian's packages of it are installed and this is root."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuenv
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
FOUND = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or any(shutil.which(name, path=FOUND) is None for name in PROGRAMS),
        reason="no Slurm is installed, or this is not root",
    ),
]
RECIPES = Path(gpuenv.__file__).parent / "recipes/slurm"
MACHINES = Path(__file__).parents[1] / "machines"
FIT, BROKEN = "h200-580", "mismatch-535"
LONGEST = 60.0  # seconds to wait for the scheduler
CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
GresTypes=gpu
Prolog={folder}/prolog.sh
PrologFlags=Alloc
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=10 State=UP
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One node, its folder, and what makes each simulated machine of it."""

    folder: Path
    host: str
    machine: Callable[[str], str]

    def call(self, *command: str) -> str:
        done = subprocess.run(
            command,
            env={"PATH": FOUND, "SLURM_CONF": str(self.folder / "slurm.conf")},
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def node_is(self, name: str) -> None:
        """What the node's prolog meets from now on."""
        log = shlex.quote(str(self.folder / "prolog.log"))
        text = f"#!/bin/sh\n{self.machine(name)}GPUENV_LOG={log} exec sh {shlex.quote(str(RECIPES / 'prolog.sh'))}\n"
        (self.folder / "prolog.sh").write_text(text, encoding="utf-8")
        (self.folder / "prolog.sh").chmod(0o755)

    def submit(self, name: str) -> str:
        """The recipe's job on a machine; answers its number."""
        text = (RECIPES / "job.sh").read_text(encoding="utf-8")
        assert text.count("\ncode=0\n") == 1
        (self.folder / "job.sh").write_text(
            text.replace("\ncode=0\n", f"\n{self.machine(name)}code=0\n"), encoding="utf-8"
        )
        told = self.call("sbatch", "-o", str(self.folder / "job.out"), str(self.folder / "job.sh"))
        return told.split()[-1]

    def await_of(self, number: str, wanted: str) -> str:
        """What the scheduler says of a job, as soon as it says this."""
        return self._await(lambda: self.call("scontrol", "show", "job", number), wanted)

    def await_node(self, wanted: str) -> str:
        return self._await(lambda: self.call("scontrol", "show", "node", self.host), wanted)

    def _await(self, ask: Callable[[], str], wanted: str) -> str:
        until = time.monotonic() + LONGEST
        while not re.search(wanted, told := ask()):
            assert time.monotonic() < until, told + (self.folder / "slurmd.log").read_text(encoding="utf-8")[-2000:]
            time.sleep(0.5)
        return told


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> Callable[[str], str]:
    """The lines of a shell that put a script on a simulated machine."""
    folder = tmp_path_factory.mktemp("machines")
    lines = {}
    for name in (FIT, BROKEN):
        profile = load(MACHINES / f"{name}.yaml")
        machine = materialise(profile, folder / name, stub_driver, cuda_libraries.of)
        scripts = sysconfig.get_path("scripts")
        variables = {
            **machine.environment,
            "VIRTUAL_ENV": str(targets.interpreter(profile.target).parents[1]),
            # Python for the job's own work, this program, and Slurm's.
            "PATH": f"{scripts}:{machine.environment['PATH']}:{FOUND}",
        }
        lines[name] = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())
    return lambda name: lines[name]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, machines: Callable[[str], str]) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().split(".")[0]
    text = CONFIGURATION.format(host=host, folder=folder, ports=free_ports())
    (folder / "slurm.conf").write_text(text, encoding="utf-8")
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n", encoding="utf-8")
    (folder / "train.py").write_text("print('trained', flush=True)\n", encoding="utf-8")
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    one = Cluster(folder, host, machines)
    one.node_is(FIT)
    munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"]
    munged += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
    configuration = ["-D", "-f", str(folder / "slurm.conf")]
    with contextlib.ExitStack() as stack:
        for command in (munged, ["slurmctld", *configuration], ["slurmd", *configuration]):
            stack.enter_context(running(command, folder))
            time.sleep(1)
        one.await_node("State=IDLE")
        yield one


def free_ports() -> list[int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return [one.getsockname()[1], other.getsockname()[1]]


@contextlib.contextmanager
def running(command: list[str], folder: Path) -> Iterator[None]:
    environment = {"PATH": FOUND, "SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / f"{command[0]}.out").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_a_fit_node_runs_the_job(cluster: Cluster) -> None:
    cluster.node_is(FIT)
    number = cluster.submit(FIT)
    cluster.await_of(number, "JobState=COMPLETED")
    out = (cluster.folder / "job.out").read_text(encoding="utf-8")
    assert out.startswith("FIT: ")
    assert out.endswith("trained\n")
    assert (cluster.folder / "prolog.log").read_text(encoding="utf-8").startswith("FIT: ")


def test_a_job_that_meets_a_bad_node_is_requeued_without_it(cluster: Cluster) -> None:
    """The node was fit when the prolog looked, and is bad for the job."""
    cluster.node_is(FIT)
    number = cluster.submit(BROKEN)
    told = cluster.await_of(number, f"ExcNodeList={cluster.host}")
    assert "JobState=PENDING" in told
    assert "Restarts=1" in told
    assert "Try another host: driver-library-version-mismatch" in (cluster.folder / "job.out").read_text(
        encoding="utf-8"
    )
    cluster.call("scancel", number)


def test_the_prolog_drains_a_bad_node(cluster: Cluster) -> None:
    cluster.node_is(BROKEN)
    number = cluster.submit(FIT)
    told = cluster.await_node(r"State=\S*DRAIN")
    assert "Prolog error" in told
    assert (cluster.folder / "prolog.log").read_text(encoding="utf-8").startswith("UNFIT: ")
    cluster.call("scancel", number)
