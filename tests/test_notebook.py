"""gpuenv in a real Jupyter kernel: the magic, the records' own form, and the example notebook."""

# mypy: disable-error-code="no-untyped-call"
# nbformat has no types.

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

from gpuenv.ipython_extension import run_command

if TYPE_CHECKING:
    from collections.abc import Iterable

NOTEBOOK = Path(__file__).parents[1] / "examples/gpuenv.ipynb"
SECONDS = 120


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's history, connection files and caches stay in the folder of the test."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def execute(notebook: Any, folder: Path) -> list[list[Any]]:  # noqa: ANN401 - nbformat has no types
    """The outputs of the code cells; an exception in one fails the test."""
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def run_cells(folder: Path, *cells: str) -> list[str]:
    """What each cell prints."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    return [printed(outputs) for outputs in execute(notebook, folder)]


def printed(outputs: Iterable[Any]) -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream")


def test_the_example_notebook_runs_and_shows_its_records(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []
    doctor, *records = execute(notebook, tmp_path)
    assert f"target  Python {sys.version.split()[0]}" in printed(doctor), printed(doctor)
    assert sys.executable in printed(doctor), "the target is the kernel's own environment"
    data = [output.data for cell in records for output in cell if "data" in output]
    pages = [entry["text/html"] for entry in data if "text/html" in entry]
    assert len(pages) == 4, "snapshot, report, resolution and explanation"
    assert max(len(entry["text/plain"]) for entry in data) < 10_000, "the text, not the repr"
    assert "cupy-cuda12x" in pages[2], "a V100 needs CUDA 12"
    assert "driver-too-old-for-cuda" in pages[3]


def test_the_magic_leaves_the_kernel_as_it_was(tmp_path: Path) -> None:
    state = (
        "import os, signal, sys, threading\n"
        "handlers = [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())]\n"
        "names = sorted(name for name in globals() if not name.startswith('_'))\n"
        "print([dict(os.environ), handlers, os.getcwd(), threading.active_count(), names])"
    )
    *_, before, version, usage, after, modules = run_cells(
        tmp_path,
        "%load_ext gpuenv",
        state,
        state,
        "%gpuenv --version",
        "%gpuenv doctor --no-such-option",
        state,
        "print([name for name in ('pynvml', 'cupy', 'typer', 'gpuenv.cli.app') if name in sys.modules])",
    )
    assert version.startswith("gpuenv ")
    assert "No such option: --no-such-option" in usage
    assert after == before
    assert modules == "[]\n"


def test_the_target_is_that_of_the_kernel_also_after_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)  # without the kernel's interpreter
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    run_command("--no-color -q probe --format json --no-redact")
    executable = json.loads(capsys.readouterr().out)["target"]["executable"]
    assert executable["value"] == sys.executable


@pytest.mark.parametrize("command", ["lock", "bundle -o bundle.tar"])
def test_lock_and_bundle_are_for_the_kernel_too(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "removed"))  # the active environment; it cannot be used
    run_command(f"{command} --assume gpu=H100 --assume driver=450")
    assert "no wheel" in capsys.readouterr().out


def test_another_target_can_be_named(tmp_path: Path) -> None:
    snapshot = tmp_path / "machine.json"
    outputs = run_cells(
        tmp_path,
        "%load_ext gpuenv",
        f"%gpuenv probe --no-probe --assume driver=580.95.05 -o '{snapshot}'",
        f"%gpuenv resolve --snapshot '{snapshot}' --assume gpu=V100 --format json",
    )
    assert outputs[:2] == ["", ""], "no notice that --python is ignored"
    assert json.loads(outputs[2])["assumptions"]


def test_explain_without_a_text_explains_the_last_error(tmp_path: Path) -> None:
    load, without, _, explained, named = run_cells(
        tmp_path,
        "%load_ext gpuenv",
        "%gpuenv explain",
        "get_ipython().run_cell('raise OSError(\"libnvrtc.so.12: cannot open shared object file: No such file\")')",
        "%gpuenv explain",
        "%gpuenv explain DRV106",
    )
    assert load == ""
    assert "the text is empty" in without
    assert "OSError: libnvrtc.so.12: cannot open shared object file" in explained
    assert explained.startswith("cuda-library-missing")
    assert named.startswith("DRV106")
