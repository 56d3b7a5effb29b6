"""A Slurm of eight nodes on this host, each a simulated machine: Debian's slurm-wlm and munge, started as root."""

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries

T = TypeVar("T")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo")
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
MACHINES = Path(__file__).parents[1] / "machines"
TIMEOUT = 150.0  # seconds that a state may take on a busy host
# A requeued job may start once the credential of its first start has expired (slurm.conf(5), AuthInfo, cred_expire).
CONFIGURATION = """\
ClusterName=simulated
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
GresTypes=gpu
ReturnToService=2
MessageTimeout=60
BatchStartTimeout=120
PrologFlags=Alloc
Prolog={folder}/node.sh
Epilog={folder}/node.sh
TaskProlog={folder}/task.sh
HealthCheckProgram={folder}/node.sh
HealthCheckInterval={interval}
HealthCheckNodeState=IDLE
NodeName=DEFAULT CPUs=1 Gres=gpu:1 State=UNKNOWN
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=10 State=UP
"""


def missing_part() -> str | None:
    """What the cluster needs and this host lacks."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=SEARCH_PATH) is None]
    if os.geteuid() != 0:
        return "needs root"
    return f"needs {', '.join(absent)}: apt install slurm-wlm munge" if absent else None


@dataclass(frozen=True, slots=True)
class SlurmCluster:
    """The cluster: its folder, its nodes and their ports."""

    folder: Path
    host: str
    nodes: tuple[str, ...]
    ports: tuple[int, ...]

    def call(self, *command: str) -> str:
        """Runs one of Slurm's programs and returns its output."""
        result = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=90
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": SEARCH_PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def configure(self, *, interval: int) -> None:
        """Writes the configuration, with the interval of the health check in seconds; 0 for none."""
        address = f"NodeHostname={self.host} NodeAddr=127.0.0.1"
        places = zip(self.nodes, self.ports[1:], strict=True)
        nodes = [f"NodeName={node} {address} Port={port}" for node, port in places]
        text = CONFIGURATION.format(
            folder=self.folder, host=self.host, ports=self.ports, nodes="\n".join(nodes), interval=interval
        )
        (self.folder / "slurm.conf").write_text(text, encoding="utf-8")

    def reconfigure(self, *, interval: int) -> None:
        """Changes the interval of the health check while the cluster runs."""
        self.configure(interval=interval)
        self.call("scontrol", "reconfigure")

    def submit(self, script: str, *options: str) -> str:
        """Submits a batch script that needs one GPU, and returns the number of the job."""
        output = str(self.folder / "job-%j.out")
        command = ("sbatch", "--parsable", "--gpus=1", "-o", output, *options)
        file = self.folder / "job.sh"
        file.write_text(script, encoding="utf-8")
        return self.call(*command, str(file)).strip()

    def states(self) -> dict[str, str]:
        """The state of each node: ``idle``, ``drained``, ``drained*``."""
        return dict(line.split() for line in self.call("sinfo", "-h", "-N", "-o", "%N %T").splitlines())

    def reasons(self) -> dict[str, str]:
        """The reason of each drained node, as ``sinfo -R`` shows it."""
        lines = self.call("sinfo", "-h", "-N", "-R", "-o", "%N|%E").splitlines()
        return dict(line.split("|", 1) for line in lines)

    def await_idle(self) -> None:
        """Takes every node back into service, also those that a health check still drains."""
        self._await(self._resumed, lambda states: set(states.values()) == {"idle"})

    def _resumed(self) -> dict[str, str]:
        if drained := [node for node, state in self.states().items() if state.startswith("drain")]:
            self.call("scontrol", "update", f"NodeName={','.join(drained)}", "State=RESUME")
        return self.states()

    def await_job(self, number: str, pattern: str) -> str:
        """Waits for a pattern in Slurm's description of a job, and returns the description."""
        found = re.compile(pattern)
        return self._await(lambda: self.call("scontrol", "show", "job", number), lambda text: bool(found.search(text)))

    def await_states(self, expected: Mapping[str, str]) -> None:
        """Waits until every node has its expected state."""
        self._await(self.states, lambda states: states == expected)

    def _await(self, query: Callable[[], T], holds: Callable[[T], bool]) -> T:
        until = time.monotonic() + TIMEOUT
        while not holds(found := query()):
            assert time.monotonic() < until, f"{found}\n{self._logs()}"
            time.sleep(1)
        return found

    def _logs(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text(encoding='utf-8', errors='replace')[-1500:]}" for log in logs)


def simulated_machine(name: str, folder: Path, stub: StubDriver, libraries: CudaLibraries) -> str:
    """Creates a machine of ``tests/machines``, and returns the shell lines that put a script on it."""
    machine = materialise(load(MACHINES / f"{name}.yaml"), folder, stub, libraries.of)
    path = f"{sysconfig.get_path('scripts')}:{machine.environment['PATH']}:{SEARCH_PATH}"
    variables = {**machine.environment, "PATH": path, "GPUENV_TIMEOUT": "25"}
    return "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())


@contextlib.contextmanager
def slurm_cluster(folder: Path, machines: Mapping[str, str], recipe: Path) -> Iterator[SlurmCluster]:
    """Starts a cluster, and stops it at the end.

    Args:
        folder: of its configuration, state and logs.
        machines: the shell lines that put a script on each node's machine; tasks of jobs have its variables, too.
        recipe: the health check, prolog and epilog.
    """
    folder.chmod(0o755)
    for name in ("state", "spool", "machines", *(f"spool/{node}" for node in machines)):
        (folder / name).mkdir()
    for node, lines in machines.items():
        (folder / "machines" / node).write_text(lines, encoding="utf-8")
    load_machine = f'. {shlex.quote(str(folder / "machines"))}/"$SLURMD_NODENAME"'
    scripts = {
        "node.sh": f"{load_machine}\nexport SLURM_CONF={folder}/slurm.conf\nexec sh {shlex.quote(str(recipe))}\n",
        "task.sh": f'cat {shlex.quote(str(folder / "machines"))}/"$SLURMD_NODENAME"\n',
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n", encoding="utf-8")
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    cluster = SlurmCluster(folder, host, tuple(machines), free_ports(len(machines) + 1))
    cluster.configure(interval=0)
    munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"]
    munged += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
    configuration = ["-D", "-f", str(folder / "slurm.conf")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_running("munged", munged, cluster))
        time.sleep(1)
        stack.enter_context(_running("slurmctld", ["slurmctld", *configuration], cluster))
        time.sleep(1)
        for node in machines:
            stack.enter_context(_running(node, ["slurmd", *configuration, "-N", node], cluster))
        cluster.await_states(dict.fromkeys(machines, "idle"))
        yield cluster


def free_ports(count: int) -> tuple[int, ...]:
    """Ports of the loopback interface that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for entry in sockets:
            entry.bind(("127.0.0.1", 0))
        return tuple(entry.getsockname()[1] for entry in sockets)


@contextlib.contextmanager
def _running(name: str, command: list[str], cluster: SlurmCluster) -> Iterator[None]:
    with (cluster.folder / f"{name}.out").open("wb") as log:
        process = subprocess.Popen(command, env=cluster.environment, cwd=cluster.folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
