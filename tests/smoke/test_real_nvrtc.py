"""Every kernel of the payload, compiled by real NVRTC libraries for every compute capability, without a driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.tables import SourceKind
from gpuenv.smoke.payload.cupy_device import FAULT_KERNELS, empty_kernels
from tests.smoke.payload import NAMES, gpu_test
from tests.smoke.test_examples import EXAMPLES, sources

pytestmark = pytest.mark.network

# Together they know every compute capability of the matrix: no single one does.
WHEELS = (
    "nvidia-cuda-nvrtc-cu11==11.8.89",
    "nvidia-cuda-nvrtc-cu12==12.0.140",
    "nvidia-cuda-nvrtc-cu12==12.9.86",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-nvrtc==13.5.37",
)
COMPILER = Path(__file__).with_name("nvrtc.py")


def kernels() -> list[dict[str, Any]]:
    """Every source once, with the names to instantiate and its compiler options.

    A source with empty bodies, as the injected fault makes it, is compiled for one architecture only.
    """
    entries: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}

    def add(name: str, source: str, expressions: tuple[str, ...] = (), *, everywhere: bool = True) -> None:
        options = ["-std=c++11"] if expressions else []
        entry = {"name": name, "source": source, "expressions": expressions, "options": options}
        entries.setdefault((source, expressions), {**entry, "everywhere": everywhere})

    for which in NAMES:
        for name, source in gpu_test(which).KERNELS.items():
            expressions = tuple(getattr(gpu_test(which), "EXPRESSIONS", ()))
            add(f"{which}.{name}", source, expressions)
            add(f"{which}.{name} emptied", empty_kernels(source), expressions, everywhere=False)
    for name, source in FAULT_KERNELS.items():
        add(f"fault.{name}", source)
    for path in EXAMPLES:
        for name, text in sources(path).items():
            add(f"examples.{path.stem}.{name}", text)
    return list(entries.values())


def test_the_sources_include_payload_faults_and_examples() -> None:
    names = [entry["name"] for entry in kernels()]
    assert len(names) > 25
    assert {"fault.gpuenv_endless", "streams.default.gpuenv_delayed_fill", "examples.stream_race.SOURCE"} <= set(names)


@pytest.fixture(scope="module")
def sources_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of sources for the compiling child."""
    path = tmp_path_factory.mktemp("sources") / "sources.json"
    path.write_text(json.dumps(kernels()), encoding="utf-8")
    return path


@cache
def compile_sources(wheel: str, sources_file: Path) -> Any:  # noqa: ANN401 - JSON
    """The answer of one library for all sources."""
    target = sources_file.parent / wheel
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(target), "--no-deps", wheel]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert process.returncode == 0, process.stderr
    (library,) = [path for path in target.rglob("libnvrtc.so.*") if "alt" not in path.name]
    # Its builtins are in the same folder, which not every release searches by itself.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    command = [sys.executable, str(COMPILER), str(library), str(sources_file)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=environment)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("wheel", WHEELS)
def test_every_kernel_compiles_for_every_architecture_of_this_nvrtc(sources_file: Path, wheel: str) -> None:
    answer = compile_sources(wheel, sources_file)
    assert answer["failed"] == []
    everywhere = sum(entry["everywhere"] for entry in kernels())
    assert answer["compiled"] == everywhere * len(answer["architectures"]) + len(kernels()) - everywhere


def test_every_compute_capability_of_the_matrix_is_compiled_for(sources_file: Path) -> None:
    """Those measured with an NVRTC: minors known only from a document have no library yet."""
    matrix = load(data_path("matrix.yaml"))
    expected = {
        f"{capability.major}{capability.minor}"
        for row in matrix.cuda_minors
        if matrix.sources[row.source].kind is SourceKind.BINARY
        for capability in row.capabilities
    }
    compiled_for = {
        str(architecture) for wheel in WHEELS for architecture in compile_sources(wheel, sources_file)["architectures"]
    }
    assert expected - compiled_for == set()
