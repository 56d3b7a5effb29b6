"""``gpuenv fleet report --via dask`` on a real scheduler with two workers, one of which dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import MINIMAL, PROGRAM, gpuenv
from tests.fleet.node_reports import write_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENVIRONMENT = {**MINIMAL, "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and its workers."""
    file = tmp_path / "scheduler.json"
    common = ("--scheduler-file", str(file), "--no-dashboard")

    def start(name: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *common, *options]
        return subprocess.Popen(command, env=ENVIRONMENT, cwd=tmp_path, stderr=subprocess.DEVNULL)

    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    workers = [start("worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1") for _ in range(2)]
    try:
        text = ""
        for _ in range(300):
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            if text.endswith("}"):
                break
            time.sleep(0.1)
        yield text.partition('"address": "')[2].partition('"')[0], workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def test_a_cluster_gives_the_same_answer_although_a_worker_dies(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    address, workers = cluster
    folder = write_nodes(tmp_path / "fleet", [f"n{number:04d}" for number in range(2500)], "l4-550")
    (folder / "broken.json").write_bytes(b"{")
    expected = gpuenv("fleet", "report", folder)
    command = [*PROGRAM, "fleet", "report", str(folder), "--via", "dask", "--scheduler", address]
    process = subprocess.Popen(command, env=MINIMAL, stdout=subprocess.PIPE, encoding="utf-8")
    time.sleep(1.5)
    os.kill(workers[0].pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert output == expected.stdout
    assert process.returncode == expected.returncode == 0
    assert "2501 nodes: 2500 fit" in output
