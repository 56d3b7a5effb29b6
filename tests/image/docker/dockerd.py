"""Starts a temporary Docker engine in its own network, mount and process namespaces. Needs root."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
REQUIRED_PROGRAMS = ("dockerd", "containerd", "slirp4netns", "unshare", "setpriv", "ip", "busybox")
_START_SECONDS = 60.0


def engine_skip_reason() -> str | None:
    """Why this machine cannot start an engine; None if it can."""
    if os.geteuid() != 0:
        return "starting an engine needs root"
    absent = [name for name in REQUIRED_PROGRAMS if shutil.which(name, path=SYSTEM_PATH) is None]
    if absent:
        return f"missing {', '.join(absent)}: apt-get install docker.io busybox-static slirp4netns iproute2"
    return None


def answers(path: str | Path, page: str = "/_ping") -> bool:
    """Whether an engine answers on a socket."""
    connection = http.client.HTTPConnection("localhost", timeout=2)
    try:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(2)
        connection.sock.connect(str(path))
        connection.request("GET", page)
        return connection.getresponse().read() == b"OK"
    except OSError:
        return False
    finally:
        connection.close()


class Dockerd:
    """dockerd with its own folder; ``with`` starts it, and removes it with all its files.

    Args:
        config: content of daemon.json.
        path_prefix: folders that come first in PATH: another version of the engine.
        setup: shell commands that run inside the namespaces before the engine starts.
        network: whether containers reach the network.
    """

    def __init__(
        self, config: dict[str, object] | None = None, path_prefix: str = "", setup: str = "", *, network: bool = True
    ) -> None:
        # The path of a socket has at most 107 bytes; pytest's folders are longer.
        self.folder = Path(tempfile.mkdtemp(prefix="pd."))
        (self.folder / "root").mkdir()
        (self.folder / "daemon.json").write_text(json.dumps(config or {}), encoding="utf-8")
        self.socket = self.folder / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.setup = setup
        self.network = network
        self.path = ":".join(filter(None, (path_prefix, SYSTEM_PATH)))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log: IO[bytes] | None = None
        self._group = f"/pd-{os.getpid()}-{self.folder.name}"

    def start(self) -> Self:
        if self._log is not None:
            self._log.close()
        self._log = (self.folder / "dockerd.log").open("ab")
        namespaces = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        script = f'ip link set lo up; {self.setup} exec "$@"'
        daemon = (
            *("dockerd", "--config-file", self.folder / "daemon.json", "--data-root", self.folder / "root"),
            *("--exec-root", self.folder / "exec", "--pidfile", self.folder / "docker.pid"),
            *("--host", self.host, "--cgroup-parent", self._group),
        )
        self._spawn("unshare", *namespaces, "sh", "-c", script, "sh", *map(str, daemon))
        end = time.monotonic() + _START_SECONDS
        while not answers(self.socket):
            if self._processes[0].poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError((self.folder / "dockerd.log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)
        if self.network:
            options = ("--configure", "--mtu=1400", "--disable-host-loopback", str(self.pid), "tap0")
            self._spawn("slirp4netns", *options)
            time.sleep(0.5)
        return self

    def _spawn(self, *command: str) -> None:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={"PATH": self.path, "HOME": str(self.folder)},
            start_new_session=True,
        )
        self._processes.append(process)

    @property
    def pid(self) -> int:
        """The daemon's process ID on the host."""
        parent = self._processes[0].pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])

    def in_network(self, *command: str) -> tuple[str, ...]:
        """The command line that runs a command in the network of the engine, with its loopback."""
        return ("nsenter", "--target", str(self.pid), "--net", "--", *command)

    def start_registry(self, config: Path) -> None:
        """Starts a registry on the engine's loopback; it stops with the engine."""
        self._spawn(*self.in_network("docker-registry", "serve", str(config)))

    def cut_network(self) -> None:
        """Disconnects the engine and its containers from the network."""
        self._end(self._processes.pop())

    def kill(self) -> None:
        """Kills the daemon, its containers and their shims."""
        for process in reversed(self._processes):
            self._end(process)
        self._processes.clear()
        shutil.rmtree(self.folder / "exec", ignore_errors=True)
        (self.folder / "docker.pid").unlink(missing_ok=True)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def stop(self) -> None:
        if self._processes and self._processes[0].poll() is None:
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._processes[0].wait(20)
        self.kill()

    def close(self) -> None:
        self.stop()
        if self._log is not None:
            self._log.close()
        for cgroup in sorted(Path("/sys/fs/cgroup").glob(f"**{self._group}"), reverse=True):
            for folder in [*sorted((sub for sub in cgroup.rglob("*") if sub.is_dir()), reverse=True), cgroup]:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


# Folders of other engines, unpacked from Debian's packages, with a colon between several.
_FOLDERS_VARIABLE = "GPUENV_TEST_ENGINES"


def engines() -> list[tuple[str, str, dict[str, object]]]:
    """Name, folder and daemon.json of the system's engine, and of the unpacked engines with both image stores."""
    found: list[tuple[str, str, dict[str, object]]] = [("the system's", "", {})]
    for folder in filter(None, os.environ.get(_FOLDERS_VARIABLE, "").split(":")):
        found.append((Path(folder).name, folder, {}))
        found.append(
            (f"{Path(folder).name}, containerd's store", folder, {"features": {"containerd-snapshotter": True}})
        )
    return found


def cli_environment(engine: Dockerd, folder: str, tmp_path: Path) -> dict[str, str]:
    """The variables for the command line of an engine, and for its buildx plug-in if it has one."""
    plugin = Path(folder, "usr/libexec/docker/cli-plugins/docker-buildx") if folder else None
    if plugin is not None and plugin.exists():
        (tmp_path / "cli-plugins").mkdir(exist_ok=True)
        shutil.copy(plugin, tmp_path / "cli-plugins")
    path = f"{folder}/usr/bin:/usr/bin:/bin" if folder else "/usr/bin:/bin"
    return {"PATH": path, "HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path), "DOCKER_HOST": engine.host}
