"""Recordings from strangers, and what children print that lie: judged whole, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.probe.assemble import assemble
from gpuenv.probe.outcome import each, typed
from gpuenv.probe.protocol import nested, parse_facts
from gpuenv.probe.raw import CudaDevice, CudaFacts, NvmlFacts, NvmlGpu, RawFacts, SmiFacts
from gpuenv.probe.raw_kernel import KernelFacts
from gpuenv.probe.raw_target import FileFacts, LibraryFacts, TargetFacts
from tests.cli.recorded import EVERY, FIT
from tests.fuzz.judged import whole
from tests.fuzz.records import inputs_of


@st.composite
def recordings(draw: st.DrawFn) -> Any:  # noqa: ANN401 - plain values
    """A recording with whole parts of it replaced."""
    data = encode(draw(st.sampled_from(list(EVERY.values()))))
    parts = draw(inputs_of(Snapshot, right=draw(st.booleans())))
    if isinstance(parts, dict):
        data |= {name: value for name, value in parts.items() if draw(st.booleans())}
    return data


def check_snapshot(data: Any) -> None:  # noqa: ANN401 - plain values
    """Refused with a path, or judged and told in every form."""
    try:
        snapshot = decode(Snapshot, data)
    except DecodeError as error:
        assert ": " in str(error)
        return
    whole(snapshot)


_CHILDREN = (KernelFacts, NvmlFacts, CudaFacts, SmiFacts, TargetFacts, LibraryFacts, FileFacts)


@st.composite
def printed(draw: st.DrawFn) -> dict[str, str]:
    """The output of each child, of those that said anything."""
    return {
        kind.__name__: _lines(draw, draw(inputs_of(kind, right=draw(st.booleans()))))
        for kind in _CHILDREN
        if draw(st.booleans())
    }


def _lines(draw: st.DrawFn, facts: Any) -> str:  # noqa: ANN401 - plain values
    if not isinstance(facts, dict):
        return f"gpuenv:{json.dumps(facts)}\n"
    lines = []
    for name, value in facts.items():
        if name in ("gpus", "devices") and isinstance(value, list):
            prefix, number = ("gpu", "index") if name == "gpus" else ("device", "ordinal")
            for position, entry in enumerate(value):
                told = {number: position, **(entry if isinstance(entry, dict) else {"name": entry})}
                lines += [{f"{prefix}.{position}.{key}": fact} for key, fact in told.items()]
        else:
            lines.append({name: value})
    cut = draw(st.one_of(st.none(), st.integers(0, 400)))
    return "".join(f"gpuenv:{json.dumps(line)}\n" for line in lines)[:cut]


def check_children(printed: dict[str, str]) -> None:
    """Whatever they print, a machine comes of it that can be judged."""
    facts = {name: parse_facts(printed.get(name, "")) for name in (kind.__name__ for kind in _CHILDREN)}
    nvml = replace(typed(NvmlFacts, facts["NvmlFacts"]), gpus=each(NvmlGpu, nested(facts["NvmlFacts"], "gpu"), "index"))
    cuda = replace(
        typed(CudaFacts, facts["CudaFacts"]), devices=each(CudaDevice, nested(facts["CudaFacts"], "device"), "ordinal")
    )
    raw = RawFacts(
        kernel=typed(KernelFacts, facts["KernelFacts"]),
        nvml=nvml,
        cuda=cuda,
        smi=typed(SmiFacts, facts["SmiFacts"]),
        target=typed(TargetFacts, facts["TargetFacts"]),
        libraries=typed(LibraryFacts, facts["LibraryFacts"]),
        files=typed(FileFacts, facts["FileFacts"]),
        sources=FIT.sources,
    )
    whole(assemble(raw, None))
