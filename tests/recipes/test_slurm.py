"""The Slurm recipes on a real one-node Slurm, if Debian's packages are installed and the tests run as root."""

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
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or any(shutil.which(name, path=SEARCH_PATH) is None for name in PROGRAMS),
        reason="needs Slurm and root",
    ),
]
RECIPES = Path(gpuenv.__file__).parent / "recipes/slurm"
MACHINES = Path(__file__).parents[1] / "machines"
FIT, BROKEN = "h200-580", "mismatch-535"
TIMEOUT = 60.0  # seconds
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
    """One node, its folder, and the shell lines that simulate each machine."""

    folder: Path
    host: str
    machine: Callable[[str], str]

    def call(self, *command: str) -> str:
        result = subprocess.run(
            command,
            env={"PATH": SEARCH_PATH, "SLURM_CONF": str(self.folder / "slurm.conf")},
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def set_node(self, name: str) -> None:
        """Makes the node's prolog run on a simulated machine from now on."""
        log = shlex.quote(str(self.folder / "prolog.log"))
        text = f"#!/bin/sh\n{self.machine(name)}GPUENV_LOG={log} exec sh {shlex.quote(str(RECIPES / 'prolog.sh'))}\n"
        (self.folder / "prolog.sh").write_text(text, encoding="utf-8")
        (self.folder / "prolog.sh").chmod(0o755)

    def submit(self, name: str) -> str:
        """Submits the recipe's job on a simulated machine and returns its number."""
        text = (RECIPES / "job.sh").read_text(encoding="utf-8")
        assert text.count("\ncode=0\n") == 1
        (self.folder / "job.sh").write_text(
            text.replace("\ncode=0\n", f"\n{self.machine(name)}code=0\n"), encoding="utf-8"
        )
        output = self.call("sbatch", "-o", str(self.folder / "job.out"), str(self.folder / "job.sh"))
        return output.split()[-1]

    def await_job(self, number: str, pattern: str) -> str:
        """Waits for a pattern in the scheduler's description of a job, and returns the description."""
        return self._await(lambda: self.call("scontrol", "show", "job", number), pattern)

    def await_node(self, pattern: str) -> str:
        return self._await(lambda: self.call("scontrol", "show", "node", self.host), pattern)

    def _await(self, query: Callable[[], str], pattern: str) -> str:
        until = time.monotonic() + TIMEOUT
        while not re.search(pattern, output := query()):
            assert time.monotonic() < until, output + (self.folder / "slurmd.log").read_text(encoding="utf-8")[-2000:]
            time.sleep(0.5)
        return output


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> Callable[[str], str]:
    """Returns the shell lines that put a script on a simulated machine."""
    folder = tmp_path_factory.mktemp("machines")
    lines = {}
    for name in (FIT, BROKEN):
        profile = load(MACHINES / f"{name}.yaml")
        machine = materialise(profile, folder / name, stub_driver, cuda_libraries.of)
        scripts = sysconfig.get_path("scripts")
        variables = {
            **machine.environment,
            "VIRTUAL_ENV": str(targets.interpreter(profile.target).parents[1]),
            # The job's Python, gpuenv, and Slurm's programs.
            "PATH": f"{scripts}:{machine.environment['PATH']}:{SEARCH_PATH}",
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
    one.set_node(FIT)
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
    environment = {"PATH": SEARCH_PATH, "SLURM_CONF": str(folder / "slurm.conf")}
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
    cluster.set_node(FIT)
    number = cluster.submit(FIT)
    cluster.await_job(number, "JobState=COMPLETED")
    out = (cluster.folder / "job.out").read_text(encoding="utf-8")
    assert out.startswith("FIT: ")
    assert out.endswith("trained\n")
    assert (cluster.folder / "prolog.log").read_text(encoding="utf-8").startswith("FIT: ")


def test_a_job_on_a_bad_node_is_requeued_with_the_node_excluded(cluster: Cluster) -> None:
    """The node is fit in the prolog and bad in the job."""
    cluster.set_node(FIT)
    number = cluster.submit(BROKEN)
    description = cluster.await_job(number, f"ExcNodeList={cluster.host}")
    assert "JobState=PENDING" in description
    assert "Restarts=1" in description
    assert "Try another host: driver-library-version-mismatch" in (cluster.folder / "job.out").read_text(
        encoding="utf-8"
    )
    cluster.call("scancel", number)


def test_the_prolog_drains_a_bad_node(cluster: Cluster) -> None:
    cluster.set_node(BROKEN)
    number = cluster.submit(FIT)
    description = cluster.await_node(r"State=\S*DRAIN")
    assert "Prolog error" in description
    assert (cluster.folder / "prolog.log").read_text(encoding="utf-8").startswith("UNFIT: ")
    cluster.call("scancel", number)
