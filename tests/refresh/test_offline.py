"""A whole refresh against an index of this machine's own: through uv and pip, cut short in every way, gone on with."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from tests.refresh.local_index import LocalIndex, Wheel, serve, wheels

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")
_LINE = "  - name: cupy-cuda13x"


def _small() -> str:
    """The shipped matrix with one release of one wheel line, without the newest CUDA minor and without companions."""
    head, _, rest = TEXT.partition("\nwheel_lines:\n")
    releases = [line for line in rest.splitlines() if "source: cupy-cuda13x-14.1.1}" in line]
    products = rest[rest.index("\nproducts:\n") + 1 :]
    lines = [line for line in head.splitlines() if "nvrtc-13.5" not in line and "cupy-cuda13x-14.2.0:" not in line]
    line = [_LINE, "    cuda_major: 13", "    first_cuda: 13.0", "    source: cupy-install", "    releases:", *releases]
    return "\n".join([*lines, "wheel_lines:", *line, "", products])


SMALL = _small()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return {wheel.file: wheel for wheel in wheels(tmp_path_factory.mktemp("wheels"))}


@pytest.fixture
def index(made: dict[str, Wheel]) -> Iterator[LocalIndex]:
    here = LocalIndex(made)
    server = serve(here)
    yield here
    here.release.set()
    server.shutdown()
    server.server_close()


@dataclass(frozen=True, slots=True)
class Bench:
    """A matrix to refresh, and the environment of a user whose installers know the local index alone."""

    matrix: Path
    environment: dict[str, str]

    def start(self, *options: str, limit: int | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gpuenv", "matrix", "refresh", "--matrix", str(self.matrix), *options]

        def bounded() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell lets what it starts in the background ignore it
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.Popen(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=bounded,  # noqa: PLW1509 - nothing else runs in this child yet
        )

    def run(self, *options: str, limit: int | None = None) -> tuple[int, str, str]:
        child = self.start(*options, limit=limit)
        out, error = child.communicate(timeout=900)
        assert "Traceback" not in error, error
        return child.returncode, out, error

    @property
    def text(self) -> str:
        return self.matrix.read_text(encoding="utf-8")


@pytest.fixture
def bench(index: LocalIndex, tmp_path: Path) -> Bench:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(SMALL, encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "tmp"),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_DEFAULT_INDEX": f"{index.address}/simple/",
        "UV_NO_CONFIG": "1",
        "UV_HTTP_RETRIES": "0",
        "UV_PYTHON_DOWNLOADS": "never",
        "PIP_INDEX_URL": f"{index.address}/simple/",
        "PIP_CACHE_DIR": str(tmp_path / "pip"),
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    return Bench(matrix, environment)


def _undated(text: str) -> str:
    return re.sub(r"(seen: |revision: ')\d{4}-\d\d-\d\d", "", text)


def test_what_is_new_is_measured_and_written_and_then_nothing_is_new(bench: Bench) -> None:
    code, out, error = bench.run()
    assert code == 0, error
    after = load(bench.matrix)
    minor = next(row for row in after.cuda_minors if str(row.cuda) == "13.5")
    assert [str(capability) for capability in minor.capabilities] == ["7.5", "8.0", "9.0"]
    assert (minor.ptx, minor.soname, minor.builtins) == ("9.5", "libnvrtc.so.13", "libnvrtc-builtins.so.13.5")
    assert (str(minor.cudart), str(minor.libc), minor.toolkit_wheels) == ("13.0", "glibc-2.17", True)
    release = next(row for row in after.wheel_lines[0].releases if row.cupy == "14.2.0")
    platform = release.platforms["linux-x86_64"]
    assert (platform.sass, platform.ptx, platform.tag) == (("7.5", "8.0", "9.0"), ("9.0",), "manylinux2014_x86_64")
    assert (release.numpy, release.requires_python, release.uploaded) == ("<2.6,>=2.0", ">=3.10", "2026-08-20")
    assert "to be measured: 2; to be downloaded" in error
    assert re.search(r"2/2 cupy-cuda13x 14\.2\.0 \(\d+ MB\): downloading and measuring", error)
    assert "measured: 2" in error
    assert "machines that now resolve differently" in out
    assert "No machine profile resolves differently" in out  # this NVRTC knows none of their GPUs better
    before = bench.text
    assert "is up to date" in bench.run()[1]
    assert bench.text == before


@pytest.mark.parametrize("columns", ["20", "33", "40", "100"])
def test_a_narrow_terminal_changes_nothing(bench: Bench, columns: str) -> None:
    """uv breaks its words as wide as a terminal is, between any two of them."""
    bench.environment["COLUMNS"] = columns
    code, _, error = bench.run()
    assert code == 0, error
    assert "measured: 2" in error


def _pip(folder: Path) -> Path:
    """A folder for PATH with a pip in it, and no uv."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    return folder / "bin"


def test_pip_s_own_configuration_serves_too_and_gives_the_same_rows(bench: Bench, tmp_path: Path) -> None:
    assert bench.run()[0] == 0
    by_uv = bench.text
    bench.matrix.write_text(SMALL, encoding="utf-8")
    bench.environment["PATH"] = f"{_pip(tmp_path / 'venv')}:{bench.environment['PATH']}"
    code, _, error = bench.run("--index", "pip")
    assert code == 0, error
    assert "through pip" in error
    # pip tells no dates, and that is the whole difference.
    assert _undated(bench.text) == _undated(by_uv).replace("uploaded: 2026-08-20, pythons: [cp311]", "pythons: [cp311]")


def test_a_withdrawn_release_is_marked_and_a_restored_one_no_longer(bench: Bench, index: LocalIndex) -> None:
    assert bench.run()[0] == 0
    index.yanked["cupy-cuda13x==14.1.1"] = "it's broken, says upstream: wait"
    code, out, error = bench.run()
    assert code == 0, error
    assert "- cupy-cuda13x 14.1.1: withdrawn: it's broken, says upstream: wait" in out
    assert load(bench.matrix).wheel_lines[0].releases[1].yanked == "it's broken, says upstream: wait"
    index.yanked.clear()
    assert "14.1.1: no longer withdrawn" in bench.run()[1]
    assert load(bench.matrix).wheel_lines[0].releases[1].yanked is None


@pytest.fixture(scope="module")
def whole() -> dict[str, str]:
    """What an undisturbed refresh writes; filled by the first who needs it."""
    return {}


def _undisturbed(bench: Bench, whole: dict[str, str]) -> str:
    if not whole:
        assert bench.run()[0] == 0
        whole["text"] = bench.text
        bench.matrix.write_text(SMALL, encoding="utf-8")
        for folder in ("cache", "uv", "tmp"):
            shutil.rmtree(bench.matrix.parent / folder, ignore_errors=True)
        (bench.matrix.parent / "tmp").mkdir()
    return whole["text"]


def _goes_on(bench: Bench, index: LocalIndex, wanted: str) -> None:
    """The matrix is as it was; the next run measures only what is left, and ends as an undisturbed one."""
    assert bench.text == SMALL
    index.held, index.gone, index.gone_after_hold = None, False, False
    index.release.set()
    code, _, error = bench.run()
    assert code == 0, error
    assert "CUDA 13.5: downloading" not in error
    assert "cupy-cuda13x 14.2.0 " in error
    assert _undated(bench.text) == _undated(wanted)
    kept = bench.matrix.parent / "cache" / "gpuenv" / "refresh"
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_refresh_that_is_killed_in_a_download_goes_on(
    how: signal.Signals, bench: Bench, index: LocalIndex, whole: dict[str, str]
) -> None:
    wanted = _undisturbed(bench, whole)
    index.held = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    child = bench.start()
    assert index.reached.wait(120)
    child.send_signal(how)
    _, error = child.communicate(timeout=60)
    assert child.returncode == (-how if how is signal.SIGKILL else 130), error
    assert "Traceback" not in error
    _goes_on(bench, index, wanted)


def test_a_network_that_goes_away_leaves_the_matrix_as_it_was(
    bench: Bench, index: LocalIndex, whole: dict[str, str]
) -> None:
    wanted = _undisturbed(bench, whole)
    index.held = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    index.gone_after_hold = True
    child = bench.start()
    assert index.reached.wait(120)
    index.release.set()
    _, error = child.communicate(timeout=120)
    assert child.returncode == 8, error
    assert "cupy-cuda13x==14.2.0: the package index could not be asked" in error
    assert "the matrix is as it was" in error
    code, _, error = bench.run()  # still gone
    assert code == 8, error
    _goes_on(bench, index, wanted)


def test_a_disk_that_is_full_leaves_the_matrix_as_it_was(bench: Bench, whole: dict[str, str]) -> None:
    """No file may grow to the size of the matrix: all is measured, and nothing can be written."""
    wanted = _undisturbed(bench, whole)
    code, out, error = bench.run(limit=len(SMALL) - 1000)
    assert code != 0
    assert "written, revision" not in out
    assert "cannot be written: File too large" in error
    assert bench.text == SMALL
    assert [path.name for path in bench.matrix.parent.glob(".m.yaml*")] == []
    code, _, error = bench.run()
    assert code == 0, error
    assert "downloading" not in error.replace("to be downloaded", "")
    assert _undated(bench.text) == _undated(wanted)


def test_a_matrix_that_is_changed_meanwhile_is_not_written_over(bench: Bench, index: LocalIndex) -> None:
    index.held = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    child = bench.start()
    assert index.reached.wait(120)
    bench.matrix.write_text(SMALL + "# mine\n", encoding="utf-8")
    index.release.set()
    _, error = child.communicate(timeout=900)
    assert child.returncode == 2
    assert "was changed meanwhile" in error
    assert bench.text == SMALL + "# mine\n"


def test_what_is_kept_of_another_file_or_another_program_is_measured_again(bench: Bench) -> None:
    kept = bench.matrix.parent / "cache" / "gpuenv" / "refresh"
    kept.mkdir(parents=True)
    (kept / "nvrtc-13.5.json").write_text('{"form": "2", "files": ["00"], "row": {}}', encoding="utf-8")
    (kept / "cupy-cuda13x-14.2.0.json").write_text("{", encoding="utf-8")
    code, _, error = bench.run()
    assert code == 0, error
    assert "CUDA 13.5" in error
    assert "cupy-cuda13x 14.2.0" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--index", "conda"), "expected uv or pip"),
        (("--again", "cuda/99.9"), "no release and no CUDA minor is called"),
    ],
)
def test_what_cannot_be_meant_is_said(options: tuple[str, ...], message: str, bench: Bench) -> None:
    code, _, error = bench.run(*options)
    assert code == 2
    assert message in error
    assert bench.text == SMALL


def test_a_known_row_is_measured_again_on_demand(bench: Bench) -> None:
    assert bench.run()[0] == 0
    assert bench.run("--again", "cupy-cuda13x/14.2.0")[0] == 0  # now its CUDA is known
    text = bench.text
    spoiled = text.replace("sass: [7.5, 8.0, 9.0], ptx: [9.0]", "sass: [8.0]")
    assert spoiled != text
    bench.matrix.write_text(spoiled, encoding="utf-8")
    code, _, error = bench.run("--again", "cupy-cuda13x/14.2.0")
    assert code == 0, error
    assert bench.text == text
