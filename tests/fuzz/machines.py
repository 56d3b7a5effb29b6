"""Fuzzing of Snapshots from files, and of facts printed by children."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from gpuenv import probe
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.snapshot import (
    CdiFile,
    CupyInstallation,
    DeviceNode,
    DkmsBuild,
    DriverLibrary,
    FileFault,
    GpuUser,
    Library,
    MigInstance,
    PciGpu,
    Snapshot,
)
from gpuenv.probe.assembly import assemble
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.probe.driver_probes import cuda_facts, kernel_facts, nvml_facts
from gpuenv.probe.protocol import parse_facts
from gpuenv.probe.raw import Raw, RawFacts
from gpuenv.probe.target_probes import target_facts
from tests.cli.snapshots import FIT, SNAPSHOTS
from tests.fuzz.records import TEXTS, inputs_of
from tests.fuzz.report_checks import check_machine


@st.composite
def snapshot_data(draw: st.DrawFn) -> Any:  # noqa: ANN401 - plain values
    """A Snapshot's data with some parts replaced."""
    data = encode(draw(st.sampled_from(list(SNAPSHOTS.values()))))
    parts = draw(inputs_of(Snapshot, valid=draw(st.booleans())))
    if isinstance(parts, dict):
        data |= {name: value for name, value in parts.items() if draw(st.booleans())}
    return data


def check_snapshot(data: Any) -> None:  # noqa: ANN401 - plain values
    """Data are rejected with a path, or decoded to a machine with a consistent report."""
    try:
        snapshot = decode(Snapshot, data)
    except DecodeError as error:
        assert ": " in str(error)
        return
    check_machine(snapshot)


_CHILDREN = ("kernel", "nvml", "cuda", "target", "libraries", "files")
_RECORDS = (
    *(PciGpu, DeviceNode, DkmsBuild, CdiFile, DriverLibrary),
    *(CupyInstallation, Library, FileFault, MigInstance, GpuUser),
)
# Read from the code, so that a new fact is fuzzed without being listed here.
_ASSEMBLED = "".join(path.read_text(encoding="utf-8") for path in Path(probe.__path__[0]).glob("*assembly.py"))
_NAMES = sorted(set(re.findall(r"""\b(?:text|get|all|parts?|reading|_nvml|_named)\((?:\w+, )?"(\w+)\"""", _ASSEMBLED)))
_SCALARS = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-2, 2), st.integers(), st.floats())


def _compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(_NAMES), TEXTS), inner, max_size=6),
        st.sampled_from(_RECORDS).flatmap(lambda kind: st.lists(inputs_of(kind, valid=True), max_size=3)),
    )


_FACTS = st.dictionaries(st.sampled_from(_NAMES), st.recursive(_SCALARS, _compound, max_leaves=8), max_size=12)


@st.composite
def child_outputs(draw: st.DrawFn) -> dict[str, str]:
    """The output of some children."""
    return {name: _lines(draw, draw(_FACTS)) for name in _CHILDREN if draw(st.booleans())}


def _lines(draw: st.DrawFn, facts: dict[str, Any]) -> str:
    lines: list[Any] = [{name: value} for name, value in facts.items()]
    for prefix, number in (("gpu", "index"), ("device", "ordinal")):
        for position in range(draw(st.integers(0, 2))):
            facts_of_gpu = {number: position, **draw(_FACTS)}
            lines += [{f"{prefix}.{position}.{key}": fact} for key, fact in facts_of_gpu.items()]
    cut = draw(st.one_of(st.none(), st.integers(0, 400)))
    return "".join(f"gpuenv:{json.dumps(line)}\n" for line in lines)[:cut]


def check_children(outputs: dict[str, str]) -> None:
    """Any output is assembled to a machine with a consistent report."""
    results = {name: ChildResult(Ending.EXITED, 0, outputs.get(name, ""), "", None, 0.1, 0.0) for name in _CHILDREN}
    raw = RawFacts(
        kernel=kernel_facts(results["kernel"])[0],
        nvml=nvml_facts(results["nvml"])[0],
        cuda=cuda_facts(results["cuda"])[0],
        target=target_facts(results["target"])[0],
        libraries=Raw(parse_facts(results["libraries"].stdout)),
        files=Raw(parse_facts(results["files"].stdout)),
        sources=FIT.sources,
    )
    check_machine(assemble(raw, None))
