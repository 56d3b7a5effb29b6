"""The Python interface: records, errors, and what it leaves as it was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gpuenv
from gpuenv.model.snapshot import Snapshot

V100 = ("gpu=V100", "driver=580.65.06", "os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "cupy=none")


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return gpuenv.take_snapshot(assume=V100)


def test_a_snapshot_is_of_the_interpreter_that_runs_this() -> None:
    facts = gpuenv.take_snapshot(timeout=60)
    assert facts.target.executable.value is not None
    assert Path(facts.target.executable.value).samefile(sys.executable)
    assert gpuenv.take_snapshot(host_only=True).target.executable.value is None


def test_resolve_finds_the_wheel_of_a_machine(snapshot: Snapshot) -> None:
    found = gpuenv.resolve(snapshot)
    assert found.wheel is not None
    assert found.wheel.distribution == "cupy-cuda12x"


def test_diagnose_and_check_return_reports(snapshot: Snapshot) -> None:
    assert gpuenv.diagnose(snapshot).findings
    report = gpuenv.check("gpu>=1", "cc>=9.0", snapshot=snapshot)
    assert [entry.status.value for entry in report.requirements] == ["met", "violated"]
    assert report.exit_code == 1
    nothing = gpuenv.diagnose(gpuenv.take_snapshot(assume=("gpu=none", "driver=none")), expect_no_gpu=True)
    assert not any(finding.code.startswith("DRV") for finding in nothing.findings)


def test_explain_text_names_causes() -> None:
    found = gpuenv.explain_text("cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: ...")
    assert found.causes[0].cause.value == "driver-too-old-for-cuda"


def test_records_have_json_and_a_notebook_form(snapshot: Snapshot) -> None:
    for record in (snapshot, gpuenv.resolve(snapshot), gpuenv.diagnose(snapshot), gpuenv.explain_text("<x> & y")):
        assert json.loads(record.to_json())["schema"].startswith("gpuenv.")
        page = record._repr_html_()
        assert page.startswith("<")
        assert "<script" not in page


@pytest.mark.parametrize(
    "call",
    [
        lambda: gpuenv.check("gpu>>1"),
        lambda: gpuenv.take_snapshot(python="/nowhere"),
        lambda: gpuenv.take_snapshot(assume=["driver=x"]),
    ],
)
def test_errors_are_of_one_tree(call: object) -> None:
    assert callable(call)
    with pytest.raises(gpuenv.GpuenvError):
        call()


def test_an_invalid_matrix_is_an_error(tmp_path: Path, snapshot: Snapshot) -> None:
    (tmp_path / "matrix.yaml").write_text("x: 1\n")
    with pytest.raises(gpuenv.GpuenvError):
        gpuenv.resolve(snapshot, matrix=tmp_path / "matrix.yaml")


def test_threads_and_event_loops_can_call_it() -> None:
    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), Path.cwd(), dict(os.environ))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: gpuenv.take_snapshot(timeout=60).taken_at, range(2)))
    assert all(found)

    async def in_a_loop() -> str | None:
        return (await asyncio.to_thread(gpuenv.take_snapshot, timeout=60)).taken_at

    assert asyncio.run(in_a_loop())
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), Path.cwd(), dict(os.environ))
    assert threading.active_count() < 10


def test_importing_it_alone_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import gpuenv; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "gpuenv"}


def test_names_are_listed_and_unknown_ones_are_refused() -> None:
    assert {"take_snapshot", "diagnose", "resolve", "check", "explain_text", "GpuenvError"} <= set(dir(gpuenv))
    with pytest.raises(AttributeError):
        _ = gpuenv.nothing
