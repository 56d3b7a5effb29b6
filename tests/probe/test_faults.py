"""Faults of every function that the probe calls in NVML and libcuda: each return code, a crash, a hang.

The functions are those named in the scripts; a run through the stub shows the symbol of each, and that no other
function is called.
"""

from __future__ import annotations

import contextlib
import py_compile
import re
import time
from collections import Counter
from typing import TYPE_CHECKING

import pynvml  # type: ignore[import-untyped]
import pytest

from gpuenv.model.snapshot import Snapshot, Source, SourceState
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import RawFacts
from tests.probe.nvidia import CUDA_CALLED, NVML_CALLED, OLDER, PAIR, calls_of, cuda_of, nvml_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver

# nvmlReturn_t of nvidia-ml-py 13.615.71, and codes that no release defines.
NVML_CODES = (*range(1, 31), 999, 31, -1, 2147483647)
# The ranges of CUresult in cuda.h (CUDA 13.0), named or not.
CUDA_CODES = (
    *range(1, 9), *range(34, 37), 46, *range(100, 103), *range(200, 228), *range(300, 305), *range(400, 403), 500, 600,
    *range(700, 724), *range(800, 822), *range(900, 917), 999, -1, 2147483647,
)  # fmt: skip
LIMIT, KILL_MARGIN = 3.0, 1.0  # seconds to start and answer, and to kill the child, on a busy host
INTERNAL = {"nvmlErrorString", "nvmlShutdown"}  # called by nvidia-ml-py itself, if at all


def symbols_of(function: str, called: set[str]) -> set[str]:
    """The called symbols of a function: pynvml uses its newest version."""
    if function == "nvmlInit":
        return called & {"nvmlInitWithFlags", "nvmlInit_v2"}
    others = {name for name in (*NVML_CALLED, *CUDA_CALLED) if name != function}
    return {name for name in called - others if re.fullmatch(rf"{function}(_v\d+)?", name)}


@pytest.fixture(scope="module")
def machines(
    stub_driver: StubDriver, tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[Mapping[str, str], set[str]], ...]:
    """Machines, and the functions called on each.

    nvidia-ml-py is compiled first, as pip does; otherwise each of thousands of children would compile it.
    """
    with contextlib.suppress(OSError):
        py_compile.compile(pynvml.__file__)
    folder = tmp_path_factory.mktemp("calls")
    return tuple((keys, calls_of(stub_driver, folder, keys)) for keys in (PAIR, PAIR | OLDER))


def machine_for(
    function: str, machines: tuple[tuple[Mapping[str, str], set[str]], ...]
) -> tuple[Mapping[str, str], str]:
    """A machine on which a function is called, and its symbol."""
    for keys, called in machines:
        for symbol in sorted(symbols_of(function, called), reverse=True):
            return keys, symbol
    raise AssertionError(f"{function} is never called")


def test_only_functions_named_in_the_scripts_are_called(
    machines: tuple[tuple[Mapping[str, str], set[str]], ...],
) -> None:
    called = set().union(*(names for _, names in machines))
    tested = set().union(*(symbols_of(function, called) for function in (*NVML_CALLED, *CUDA_CALLED)))
    assert called - tested - INTERNAL == set()
    assert all(symbols_of(function, called) for function in (*NVML_CALLED, *CUDA_CALLED))


def probe(
    stub: StubDriver, folder: Path, api: str, keys: Mapping[str, str], limit: float = 20.0
) -> tuple[Source, Snapshot]:
    """The Snapshot from one library."""
    if api == "nvml":
        nvml, source = nvml_of(stub, folder, keys, limit)
        return source, assemble(RawFacts(nvml=nvml, sources=(source,)), None)
    cuda, source = cuda_of(stub, folder, keys, limit)
    return source, assemble(RawFacts(cuda=cuda, sources=(source,)), None)


EVERY_FUNCTION = pytest.mark.parametrize(
    ("api", "function"), [*(("nvml", name) for name in NVML_CALLED), *(("cuda", name) for name in CUDA_CALLED)]
)


@EVERY_FUNCTION
def test_a_failed_function_does_not_affect_the_others(
    api: str,
    function: str,
    machines: tuple[tuple[Mapping[str, str], set[str]], ...],
    stub_driver: StubDriver,
    tmp_path: Path,
) -> None:
    keys, symbol = machine_for(function, machines)
    source, snapshot = probe(stub_driver, tmp_path, api, {**keys, f"{api}.return.{symbol}": "999"})
    if function in ("nvmlInit", "cuInit"):
        assert source.state is SourceState.FAILED
        return
    assert source.state is SourceState.ANSWERED
    counts = function in ("nvmlDeviceGetCount", "cuDeviceGetCount")
    # libcuda shows only the one MIG instance of the pair, NVML both GPUs
    assert len(snapshot.gpus) == (0 if counts else 2 if api == "nvml" else 1)
    unnamed = ("nvmlDeviceGetName", "nvmlDeviceGetHandleByIndex", "cuDeviceGet")
    if api == "nvml" and not counts:
        assert (snapshot.gpus[1].name.value is None) == (function in unnamed)


@pytest.mark.slow
@EVERY_FUNCTION
def test_every_fault_ends_in_a_snapshot_within_the_deadline(
    api: str,
    function: str,
    machines: tuple[tuple[Mapping[str, str], set[str]], ...],
    stub_driver: StubDriver,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    keys, symbol = machine_for(function, machines)
    outcomes: Counter[str] = Counter()
    for code in NVML_CODES if api == "nvml" else CUDA_CODES:
        source, snapshot = probe(stub_driver, tmp_path, api, {**keys, f"{api}.return.{symbol}": str(code)})
        assert source.state in (SourceState.ANSWERED, SourceState.FAILED, SourceState.ABSENT), (code, source)
        assert "Traceback" not in (source.detail or "")
        assert "Error:" not in (source.detail or ""), (code, source)
        assert snapshot.sources == (source,)
        outcomes[f"code: {source.state.value}"] += 1
    for crash in ("segv", "abort", "exit:3"):
        source, snapshot = probe(stub_driver, tmp_path, api, {**keys, f"{api}.crash.{symbol}": crash})
        expected = SourceState.FAILED if crash.startswith("exit") else SourceState.CRASHED
        assert source.state is expected, (crash, source)
        assert snapshot.sources == (source,)
        outcomes[f"{crash.partition(':')[0]}: {source.state.value}"] += 1
    started = time.monotonic()
    source, snapshot = probe(stub_driver, tmp_path, api, {**keys, f"{api}.delay.{symbol}": "forever"}, LIMIT)
    assert source.state is SourceState.TIMED_OUT, source
    assert time.monotonic() - started < LIMIT + KILL_MARGIN
    assert snapshot.sources == (source,)
    outcomes[f"hang: {source.state.value}"] += 1
    record_property("fault", [api, symbol, dict(outcomes)])
