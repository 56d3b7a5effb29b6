"""Properties of assembling a Snapshot from any raw facts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.model.codec import decode, encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import RawFacts, SmiFacts
from tests.probe.raw_facts import (
    ONE,
    CudaDevice,
    CudaFacts,
    DriverGpu,
    KernelFacts,
    NvmlFacts,
    NvmlGpu,
    RawToolkit,
    TargetFacts,
    Uname,
)

TEXT = st.none() | st.text(max_size=12) | st.sampled_from(["535.104.05", "12.4", "0000:3a:00.0", ONE, "9.0", "linux"])
COUNT = st.integers(-(2**40), 2**40)
NUMBER = st.none() | COUNT
RAW = st.builds(
    lambda **facts: RawFacts(**facts),  # noqa: PLW0108 - else builds generates each missing field
    kernel=st.builds(
        KernelFacts,
        uname=st.builds(Uname, TEXT, TEXT, TEXT),
        distribution=TEXT,
        container=TEXT,
        sys_version=TEXT,
        proc_version=TEXT,
        driver_gpus=st.lists(st.builds(DriverGpu, TEXT, TEXT, TEXT), max_size=3).map(tuple),
        toolkits=st.lists(st.builds(RawToolkit, st.text(), st.text(), TEXT, TEXT), max_size=2).map(tuple),
    ),
    nvml=st.builds(
        NvmlFacts,
        driver_version=TEXT,
        library=TEXT,
        cuda=NUMBER,
        count=NUMBER,
        gpus=st.lists(
            st.builds(NvmlGpu, st.integers(0, 3), TEXT, TEXT, TEXT, TEXT, memory_total=NUMBER, memory_free=NUMBER),
            max_size=3,
        ).map(tuple),
    ),
    cuda=st.builds(
        CudaFacts,
        library=TEXT,
        cuda=NUMBER,
        init=NUMBER,
        count=NUMBER,
        devices=st.lists(st.builds(CudaDevice, st.integers(0, 3), TEXT, TEXT, TEXT, TEXT, NUMBER), max_size=3).map(
            tuple
        ),
    ),
    smi=st.tuples(TEXT, TEXT).map(lambda texts: SmiFacts(*texts)),
    target=st.builds(TargetFacts, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT),
)


@given(RAW)
@settings(deadline=None)
def test_any_raw_facts_are_assembled_into_a_snapshot_that_can_be_saved(raw: RawFacts) -> None:
    snapshot = assemble(raw, "2026-11-21T12:00:00+00:00")
    assert decode(Snapshot, encode(snapshot)) == snapshot
