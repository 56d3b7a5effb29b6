"""``gpuenv fleet collect`` through engines on this host: Dask's scheduler and workers, OpenSSH's server, and kubectl.

Each node has an address of the loopback network, and its own simulated machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.fleet.node_report import parse_node_report
from tests.support.kubernetes_api import Cluster, serving
from tests.support.slurm import free_ports, simulated_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries

pytestmark = pytest.mark.fleet
PROFILES = ("h200-580", "no-cupy", "l4-550", "h200-580", "mismatch-535", "a100-row-failed", "hung-nvml", "hung-nvml")
HOSTS = tuple(f"127.0.0.{number}" for number in range(1, 9))
FIT, UNFIT, DYING = HOSTS[:4], HOSTS[4:7], HOSTS[7]
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
TIMEOUT, WAIT = 12, 10  # seconds
SLACK = 20  # of two cores that run eight nodes


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> Mapping[str, str]:
    """The shell lines that put a program on the machine of each host."""
    folder = tmp_path_factory.mktemp("machines")
    return {
        host: simulated_machine(name, folder / host, stub_driver, cuda_libraries)
        for host, name in zip(HOSTS, PROFILES, strict=True)
    }


def write_program(folder: Path, machines: Mapping[str, str], host: str) -> Path:
    """A program that is gpuenv on the machine of its host, the address in a shell expression."""
    for name, lines in machines.items():
        (folder / name).write_text(lines, encoding="utf-8")
    program = folder / "gpu env"
    program.write_text(f'#!/bin/sh\n. "{folder}/{host}"\nexec gpuenv "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


@contextlib.contextmanager
def running(*command: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, env={"PATH": PATH, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a collection."""

    code: int
    record: Any
    messages: str
    seconds: float
    folder: Path

    def assert_nothing_is_lost_but(self, dead: str, reason: str) -> None:
        assert self.code == 1
        assert tuple(self.record["fit"]) == FIT
        assert tuple(entry["node"] for entry in self.record["unfit"]) == UNFIT
        (silent,) = self.record["silent"]
        assert silent["node"] == dead
        assert reason in silent["reason"]
        assert self.seconds < TIMEOUT + WAIT + SLACK
        reports = {path.stem: parse_node_report(path.read_bytes()) for path in self.folder.glob("[0-9]*.json")}
        assert set(reports) == {*FIT, *UNFIT}
        assert all((report.node, report.run) == (name, self.record["run"]) for name, report in reports.items())


def collect(
    folder: Path, *options: str, kill_after: float, victim: Callable[[], object], **variables: str
) -> Collected:
    """Collects, and kills a node in the middle."""
    command = [sys.executable, "-m", "gpuenv", "fleet", "collect", "-o", str(folder), "--host-only"]
    command += ["--timeout", str(TIMEOUT), "--wait", str(WAIT), "--format", "json", *options]
    started = time.monotonic()
    process = subprocess.Popen(
        command, env={"PATH": PATH, **variables}, cwd="/", text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(kill_after)
    victim()
    stdout, stderr = process.communicate(timeout=120)
    assert stdout, stderr
    return Collected(process.returncode, json.loads(stdout), stderr, time.monotonic() - started, folder)


def test_dask_loses_only_the_worker_that_dies(machines: Mapping[str, str], tmp_path: Path) -> None:
    """A scheduler and nine workers on eight hosts."""
    program = write_program(tmp_path, machines, "$DASK_HOST")
    dask = str(Path(sys.executable).with_name("dask"))
    (port,) = free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"))
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--death-timeout", "60")
        workers = {
            name: stack.enter_context(running(dask, "worker", address, "--host", host, *options, DASK_HOST=host))
            for name, host in [*zip(HOSTS, HOSTS, strict=True), ("second", HOSTS[0])]
        }
        await_workers(address, len(workers))
        options = ("--via", "dask", "--scheduler", address, "--program", str(program))
        found = collect(tmp_path / "reports", *options, kill_after=6, victim=workers[DYING].kill)
    found.assert_nothing_is_lost_but(DYING, "its Dask worker was lost")
    assert "asking 8 nodes by dask, at most 22 s" in found.messages


def test_dask_names_a_scheduler_that_is_lost(tmp_path: Path) -> None:
    """What is lost is the engine, not the folder of the reports."""
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    dask = str(Path(sys.executable).with_name("dask"))
    (port,) = free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        words = (dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        scheduler = stack.enter_context(running(*words))
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--death-timeout", "60")
        stack.enter_context(running(dask, "worker", address, "--host", HOSTS[0], *options))
        await_workers(address, 1)
        asked = ("--via", "dask", "--scheduler", address, "--program", str(program), "--timeout", "60")
        found = collect(tmp_path / "reports", *asked, kill_after=6, victim=scheduler.kill)
    assert found.code == 8, found.messages
    (silent,) = found.record["silent"]
    assert silent["node"] == HOSTS[0]
    assert "scheduler" in silent["reason"]
    assert "cannot be written" not in found.messages


def await_workers(address: str, count: int) -> None:
    program = f"from distributed import Client; Client({address!r}, timeout=60).wait_for_workers({count}, timeout=90)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=120)


@pytest.fixture
def ssh_client(machines: Mapping[str, str], tmp_path: Path) -> Iterator[Path]:
    """A folder with a program ``ssh`` that has its own configuration, and the program of the nodes."""
    server = shutil.which("sshd", path=PATH)
    if server is None or os.geteuid() != 0:
        pytest.fail("needs root and sshd: apt install openssh-server")
    Path("/run/sshd").mkdir(exist_ok=True)  # where it drops its privileges
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    (port,) = free_ports(1)
    settings = {
        "Port": str(port),
        "HostKey": str(tmp_path / "host"),
        "AuthorizedKeysFile": str(tmp_path / "user.pub"),
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "MaxStartups": "100",
    }
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    lines += [f"ListenAddress {host}\n" for host in HOSTS]
    (tmp_path / "sshd_config").write_text("".join(lines), encoding="utf-8")
    public = (tmp_path / "host.pub").read_text(encoding="utf-8").split()[:2]
    known = "".join(f"[{host}]:{port} {' '.join(public)}\n" for host in HOSTS)
    (tmp_path / "known_hosts").write_text(known, encoding="utf-8")
    client = tmp_path / "bin/ssh"
    client.parent.mkdir()
    own = f"-F none -p {port} -i {tmp_path}/user -o UserKnownHostsFile={tmp_path}/known_hosts"
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {own} "$@"\n', encoding="utf-8")
    client.chmod(0o755)
    write_program(tmp_path, machines, '$(echo "$SSH_CONNECTION" | cut -d " " -f 3)')
    with running(server, "-D", "-f", str(tmp_path / "sshd_config")) as process:
        time.sleep(1)
        assert process.poll() is None
        yield client.parent


def kill_sessions(host: str) -> None:
    """Kills the programs that a client of the host's server has started, and their servers, as a power failure does."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            variables = (entry / "environ").read_bytes().decode("utf-8", "replace").split("\0")
            connection = next((text for text in variables if text.startswith("SSH_CONNECTION=127.0.0.1 ")), "")
            if connection.split(" ")[2:3] == [host]:
                parent = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                if "sshd: root" in (Path("/proc") / str(parent) / "cmdline").read_text(encoding="utf-8"):
                    os.kill(parent, signal.SIGKILL)
                os.kill(int(entry.name), signal.SIGKILL)


def test_ssh_loses_only_the_node_that_dies(ssh_client: Path, tmp_path: Path) -> None:
    options = ("--via", "ssh", "--nodes", "127.0.0.[1-8]", "--program", str(tmp_path / "gpu env"))
    path = f"{ssh_client}:{PATH}"
    found = collect(tmp_path / "reports", *options, kill_after=6, victim=lambda: kill_sessions(DYING), PATH=path)
    found.assert_nothing_is_lost_but(DYING, "closed")


def test_ssh_names_hosts_that_it_cannot_reach_and_asks_for_no_password(ssh_client: Path, tmp_path: Path) -> None:
    key = tmp_path / "user.pub"
    key.write_text("", encoding="utf-8")  # the server accepts no key now
    options = ("--via", "ssh", "--nodes", "127.0.0.[1,9]", "--program", str(tmp_path / "gpu env"))
    found = collect(tmp_path / "reports", *options, kill_after=0, victim=lambda: None, PATH=f"{ssh_client}:{PATH}")
    reasons = {entry["node"]: entry["reason"] for entry in found.record["silent"]}
    assert found.code == 8
    assert "Permission denied" in reasons["127.0.0.1"]
    assert "Connection refused" in reasons["127.0.0.9"]
    assert found.seconds < WAIT + SLACK


def variables_of(lines: str) -> dict[str, str]:
    """The variables that shell lines export."""
    shown = subprocess.run(["sh", "-c", f"{lines}env -0"], env={}, capture_output=True, check=True, text=True).stdout
    return dict(entry.split("=", 1) for entry in shown.split("\0") if entry)


@pytest.fixture
def kubernetes(machines: Mapping[str, str], tmp_path: Path) -> Iterator[Cluster]:
    if shutil.which("kubectl") is None:
        pytest.fail("needs kubectl: apt install kubernetes-client")
    labels = {host: {"nvidia.com/gpu.present": "true"} for host in HOSTS}
    cluster = Cluster(tmp_path, {host: variables_of(lines) for host, lines in machines.items()}, labels)
    with serving(cluster):
        yield cluster


def kubectl_environment(cluster: Cluster) -> dict[str, str]:
    return {"KUBECONFIG": str(cluster.folder / "kubeconfig"), "HOME": str(cluster.folder)}


def test_kubernetes_loses_only_the_node_that_dies(kubernetes: Cluster, tmp_path: Path) -> None:
    """The pods request no GPU; each Job is pinned to its node, and nothing of them is left."""
    options = ("--via", "kubernetes", "--nodes", "nvidia.com/gpu.present=true", "--image", "registry.example/gpuenv:1")
    found = collect(
        tmp_path / "reports",
        *options,
        kill_after=8,
        victim=lambda: kubernetes.kill_node(DYING),
        **kubectl_environment(kubernetes),
    )
    found.assert_nothing_is_lost_but(DYING, "the pod is Running after 22 s")
    assert kubernetes.jobs == {}


def test_kubernetes_names_nodes_that_are_not_ready_or_cannot_pull_the_image(
    kubernetes: Cluster, tmp_path: Path
) -> None:
    kubernetes.not_ready.add(HOSTS[1])
    kubernetes.without_image.add(HOSTS[2])
    names = ",".join((*HOSTS[:3], "absent"))
    options = ("--via", "kubernetes", "--nodes", names, "--image", "registry.example/gpuenv:1", "--wait", "3")
    environment = kubectl_environment(kubernetes)
    found = collect(tmp_path / "reports", *options, kill_after=0, victim=lambda: None, **environment)
    assert (found.code, found.record["fit"]) == (8, [HOSTS[0]])
    reasons = {entry["node"]: entry["reason"].partition(";")[0] for entry in found.record["silent"]}
    assert reasons == {
        HOSTS[1]: "not ready in Kubernetes",
        HOSTS[2]: "the pod is Pending: ErrImagePull after 15 s",
        "absent": "not a node of this Kubernetes cluster",
    }
    assert kubernetes.jobs == {}
