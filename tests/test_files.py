"""Input files are read up to a limit; a FIFO or an endless device in place of a file does not block."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.files import NotRegularError, TooLargeError, open_regular, read_at_most, read_regular
from gpuenv.image.dockerfile.judge import DockerfileOptions, judge_files
from gpuenv.image.inspect.credentials import find_credentials
from gpuenv.image.reference import parse_reference
from gpuenv.install.conda_environment import pixi_manifest, read_history, read_packages
from gpuenv.install.environment import digest, read_installed, read_record
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.probe.jupyter_kernels import kernel_interpreter
from gpuenv.probe.target import TargetError
from tests.cli.program import run_gpuenv
from tests.support.matrix import MATRIX
from tests.support.syntax_trees import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 5
LIMIT = 30  # seconds of a whole program


@contextmanager
def time_limit() -> Iterator[None]:
    """Fails the test if the block does not end in time; an ``OSError`` could be handled by the tested code."""

    def on_alarm(*_: object) -> None:
        raise AssertionError(f"still waiting after {SECONDS} s")

    former = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def metadata(site: Path, name: str, **files: str | None) -> Path:
    """A folder of metadata; a file of None is a FIFO."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    contents = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "RECORD": "", **files}
    for file, text in contents.items():
        if text is None:
            os.mkfifo(folder / file)
        else:
            (folder / file).write_text(text, encoding="utf-8")
    return folder


def test_a_file_up_to_the_limit_is_read_and_a_larger_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    for read in (read_regular, read_at_most):
        assert read(path, 3_000_000) == b"x" * 3_000_000
        with pytest.raises(TooLargeError, match="larger than 2999999 bytes"):
            read(path, 2_999_999)
        with pytest.raises(IsADirectoryError):
            read(tmp_path, 10)
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none", 10)


def test_symbolic_links_are_followed_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    link = tmp_path / "link"
    link.symlink_to("file")
    assert read_regular(link, 10) == b"x"
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(link, follow=False)


def test_only_regular_files_are_read(fifo: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (fifo, tmp_path / "socket", Path("/dev/zero"), Path("/dev/null")):
            before = len([*Path("/proc/self/fd").iterdir()])
            with time_limit(), pytest.raises(NotRegularError, match="not a regular file"):
                read_regular(path, 10)
            assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_read_at_most_reads_pipes_and_devices(fifo: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", f"open({str(fifo)!r}, 'w').write('text')"]), time_limit():
        assert read_at_most(fifo, 10) == b"text"
    with pytest.raises(TooLargeError):
        read_at_most("/dev/zero", 10_000_000)


def test_a_record_that_is_a_fifo_is_not_read(tmp_path: Path, fifo: Path) -> None:
    folder = metadata(tmp_path / "site", "one", RECORD=None)
    with time_limit():
        assert read_record(str(folder)) is None
        assert [entry.name for entry in read_installed([str(tmp_path / "site")])] == ["one"]
    with time_limit(), pytest.raises(OSError, match="not a regular file"):
        digest(str(fifo))


@pytest.mark.parametrize("name", ["METADATA", "INSTALLER"])
def test_metadata_that_is_a_fifo_is_not_read(tmp_path: Path, name: str) -> None:
    """A distribution needs METADATA, but not INSTALLER."""
    metadata(tmp_path, "sound", INSTALLER="pip\n")
    metadata(tmp_path, "odd", **{name: None})
    with time_limit():
        installers = {entry.name: entry.installer for entry in read_installed([str(tmp_path)])}
    assert installers == {"sound": "pip"} | ({"odd": None} if name == "INSTALLER" else {})


def test_an_env_file_of_compose_that_is_a_fifo_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")
    os.mkfifo(tmp_path / "base.yaml")
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services:\n  a:\n    image: x\n  b:\n    extends: {file: base.yaml, service: b}\n", encoding="utf-8"
    )
    with time_limit():
        assert judge_files([path], DockerfileOptions(), MATRIX).files == (str(path),)


def test_a_docker_configuration_that_is_a_fifo_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with time_limit():
        found = find_credentials(parse_reference("ghcr.io/a"), {"HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)})
    assert found == (None, f"{tmp_path}/config.json: cannot be read: not a regular file")


def test_conda_records_that_are_fifos_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    for name in ("history", "pixi", "numpy-2.1.0-0.json"):
        os.mkfifo(tmp_path / "conda-meta" / name)
    with time_limit():
        assert read_history(str(tmp_path)) == ""
        assert pixi_manifest(str(tmp_path)) is None
    with time_limit(), pytest.raises(TargetUnusable, match="not a regular file"):
        read_packages(str(tmp_path))


@pytest.mark.parametrize("device", [None, "/dev/zero"])
def test_a_kernelspec_that_is_not_a_regular_file_is_reported(tmp_path: Path, device: str | None) -> None:
    spec = tmp_path / "kernels/odd/kernel.json"
    spec.parent.mkdir(parents=True)
    if device is None:
        os.mkfifo(spec)
    else:
        spec.symlink_to(device)
    with time_limit(), pytest.raises(TargetError, match="not a regular file"):
        kernel_interpreter("odd", {"JUPYTER_PATH": str(tmp_path)})


def test_entry_points_that_are_a_fifo_are_ignored(tmp_path: Path) -> None:
    """Checks of other packages are still found."""
    metadata(tmp_path, "odd", **{"entry_points.txt": None})
    points = "[gpuenv.checks]\nACME101 = acme:check\n"
    metadata(tmp_path, "acme", **{"entry_points.txt": points})
    metadata(tmp_path, "headless", METADATA=None, **{"entry_points.txt": points.replace("101", "102")})
    os.mkfifo(tmp_path / "archive")
    paths = os.pathsep.join(str(path) for path in (tmp_path, tmp_path / "archive"))
    result = run_gpuenv(["doctor", "--list", "--format", "json"], {**os.environ, "PYTHONPATH": paths}, LIMIT)
    packages = {check["code"]: check["package"] for check in json.loads(result.stdout)["checks"] if check["package"]}
    assert packages == {"ACME101": "acme 1.0", "ACME102": "an unknown package"}


@pytest.mark.parametrize("name", ["cublas.so", "cuda_runtime_api.h"])
def test_libraries_and_headers_that_are_fifos_are_not_read(tmp_path: Path, name: str) -> None:
    libs = tmp_path / "cupy_backends/cuda/libs"
    libs.mkdir(parents=True)
    os.mkfifo((libs if name.endswith(".so") else tmp_path) / name)
    expressions = f"needed_soname('cublas', {str(tmp_path)!r}), headers_version([{str(tmp_path)!r}])"
    result = subprocess.run(
        [sys.executable, "-c", f"from libraries import *; print({expressions})"],
        env={"PYTHONPATH": str(PACKAGE / "probe/scripts")},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (result.stdout, result.stderr) == ("None None\n", "")
