"""The Python interface: records, errors, and what it leaves as it was."""

from __future__ import annotations

import asyncio
import html
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
from gpuenv.data import data_path
from gpuenv.files import make_private_folder
from gpuenv.model.snapshot import Snapshot
from tests.cli import program
from tests.cli.published_matrix import NEWER, NEWEST, OLDER, published, without_newest

V100 = (
    *("gpu=V100", "driver=580.65.06", "os=linux", "arch=x86_64", "libc=glibc-2.36"),
    *("python=3.12", "cupy=none", "numpy=2.1.0"),
)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return gpuenv.take_snapshot(assume=V100)


def test_a_snapshot_is_of_the_interpreter_that_runs_this() -> None:
    facts = gpuenv.take_snapshot(timeout=60)
    assert (facts.taken_at or "").endswith("+00:00"), (
        "as gpuenv probe writes it; fromisoformat of Python 3.10 reads no Z"
    )
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


def test_explain_text_accepts_half_a_character() -> None:
    found = gpuenv.explain_text("\ud83d\ncudaErrorInsufficientDriver \udcff\n")
    assert found.causes[0].cause.value == "driver-too-old-for-cuda"


@pytest.fixture
def updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user's own matrix that ``gpuenv matrix update`` writes."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    make_private_folder(tmp_path / "gpuenv")
    return tmp_path / "gpuenv/matrix.json"


def test_the_updated_matrix_is_used_as_in_the_commands(
    updated: Path, snapshot: Snapshot, capfd: pytest.CaptureFixture[str]
) -> None:
    updated.write_bytes(published(NEWER, without_newest))
    options = [part for fact in V100 for part in ("--assume", fact)]
    command = ["resolve", "--no-probe", *options]
    _, expected = program.full_answer(command, {**program.MINIMAL, "XDG_DATA_HOME": str(updated.parents[1])}, 60)
    found = gpuenv.resolve(snapshot)
    assert found.wheel is not None
    assert (found.matrix_revision, found.wheel.version) == (NEWER, expected["wheel"]["version"])
    assert found.wheel.version != NEWEST
    assert gpuenv.diagnose(snapshot).matrix_revision == NEWER
    assert gpuenv.check("gpu>=1", snapshot=snapshot).matrix_revision == NEWER
    shipped = gpuenv.resolve(snapshot, matrix=data_path("matrix.yaml"))
    assert shipped.matrix_revision != NEWER
    assert capfd.readouterr() == ("", "")


def test_an_older_updated_matrix_is_not_used(updated: Path, snapshot: Snapshot) -> None:
    updated.write_bytes(published(OLDER))
    shipped = gpuenv.resolve(snapshot, matrix=data_path("matrix.yaml"))
    assert gpuenv.resolve(snapshot).matrix_revision == shipped.matrix_revision


def test_an_updated_matrix_that_others_can_change_is_not_used(updated: Path, snapshot: Snapshot) -> None:
    updated.write_bytes(published(NEWER))
    updated.chmod(0o666)
    assert gpuenv.resolve(snapshot).matrix_revision != NEWER


def test_an_invalid_updated_matrix_is_an_error_that_names_it(updated: Path, snapshot: Snapshot) -> None:
    updated.write_bytes(published(NEWER, lambda data: data.update(wheel_lines=3)))
    with pytest.raises(gpuenv.GpuenvError, match="wheel_lines") as raised:
        gpuenv.resolve(snapshot)
    assert f"this is your own matrix, {updated}; remove it" in str(raised.value)


SMI = "| NVIDIA-SMI 580.95.05       Driver Version: 580.95.05      CUDA Version: 13.0     |\n"
PIP = "Package       Version\n------------- -------\ncupy-cuda13x  14.2.0\nnumpy         2.3.4\n"
CONFIG = (
    "CuPy Version          : 14.2.0\nDevice 0 Name         : Tesla V100-SXM2-16GB\nDevice 0 Compute Capability : 70\n"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n'
    "cupy_backends.cuda.libs.nvrtc.NVRTCError: NVRTC_ERROR_INVALID_OPTION (5)\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"$ nvidia-smi\n{SMI}$ pip list\n{PIP}\n{CONFIG}\n{TRACEBACK}",
        f"{TRACEBACK}I have a Tesla V100 and cupy-cuda13x 14.2.0\n",
        TRACEBACK,
    ],
    ids=["pasted", "stated", "alone"],
)
def test_explain_text_reads_what_the_command_reads(text: str, tmp_path: Path) -> None:
    (tmp_path / "error.txt").write_text(text)
    _, expected = program.full_answer(["explain", "error.txt"], program.MINIMAL, 60, cwd=tmp_path)
    found = json.loads(gpuenv.explain_text(text).to_json())
    assert found["causes"]
    names = ("cause", "confidence", "title")
    assert [[entry[name] for name in names] for entry in found["causes"]] == [
        [entry[name] for name in names] for entry in expected["causes"]
    ]
    assert (found["facts"], found["notes"]) == (expected["facts"], expected["notes"])


def test_records_have_json_and_a_notebook_form(snapshot: Snapshot) -> None:
    for record in (snapshot, gpuenv.resolve(snapshot), gpuenv.diagnose(snapshot), gpuenv.explain_text("<x> & y")):
        assert json.loads(record.to_json())["schema"].startswith("gpuenv.")
        page = record._repr_html_()
        assert page.startswith("<")
        assert "<script" not in page
        assert html.unescape(page.partition(">")[2].removesuffix("</pre>")) == str(record)


def test_an_explanation_shows_its_lines_and_fixes_in_a_notebook() -> None:
    page = gpuenv.explain_text("CuPy failed to load libnvrtc.so.12: OSError: libnvrtc.so.12: cannot open")._repr_html_()
    assert "line 1: CuPy failed to load libnvrtc.so.12" in page
    assert "gpuenv resolve" in page
    assert page.startswith('<pre style="font-family: monospace">')


@pytest.mark.parametrize(
    "call",
    [
        lambda: gpuenv.check("gpu>>1"),
        lambda: gpuenv.check("gpu==0", "gpu>=1", snapshot=Snapshot()),
        lambda: gpuenv.take_snapshot(python="/nowhere"),
        lambda: gpuenv.take_snapshot(assume=["driver=x"]),
    ],
)
def test_errors_are_of_one_tree(call: object) -> None:
    assert callable(call)
    with pytest.raises(gpuenv.GpuenvError):
        call()


def test_requirements_name_the_function_that_got_them(snapshot: Snapshot) -> None:
    with pytest.raises(gpuenv.GpuenvError, match=r"^gpuenv\.check: gup>=1: unknown key"):
        gpuenv.check("gup>=1")
    assert [entry.source for entry in gpuenv.check("gpu>=1", snapshot=snapshot).requirements] == ["gpuenv.check"]


def test_an_invalid_matrix_is_an_error(tmp_path: Path, snapshot: Snapshot) -> None:
    (tmp_path / "matrix.yaml").write_text("x: 1\n")
    with pytest.raises(gpuenv.GpuenvError):
        gpuenv.resolve(snapshot, matrix=tmp_path / "matrix.yaml")
    with pytest.raises(gpuenv.GpuenvError, match="cannot be read"):
        gpuenv.resolve(snapshot, matrix=tmp_path / "missing.yaml")


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
