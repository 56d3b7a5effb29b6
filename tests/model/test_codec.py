"""Encoding of records as JSON and back; invalid data is rejected with the path to the fault."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuenv.model.codec import DecodeError, Form, decode, encode
from gpuenv.model.reading import Answer, Reading
from gpuenv.model.snapshot import Driver, Gpu, Module, PciGpu, Snapshot, Source, SourceState
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion

_texts = st.text(max_size=8)
R = TypeVar("R")
_drivers = st.builds(
    lambda parts: DriverVersion.parse(".".join(str(part) for part in parts)),
    st.tuples(st.integers(100, 999), st.integers(0, 99), st.integers(0, 99)),
)
_cudas = st.builds(CudaVersion, st.integers(1, 99), st.integers(0, 99))
_capabilities = st.builds(ComputeCapability, st.integers(1, 99), st.integers(0, 9))


def _readings(values: st.SearchStrategy[object]) -> st.SearchStrategy[Reading[object]]:
    answers = st.builds(Answer, values, _texts)
    return st.one_of(
        st.builds(lambda reason: Reading(reason=reason), _texts),
        st.builds(
            lambda value, source, others: Reading(value, source, tuple(others)),
            values,
            _texts,
            st.lists(answers, max_size=2),
        ),
    )


def _records(kind: Callable[..., R], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[R]:
    """Records with these fields and defaults for the others, which ``builds`` would generate from their types."""
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


_gpus = _records(
    Gpu,
    index=_readings(st.integers(0, 15)),
    name=_readings(_texts),
    compute_capability=_readings(_capabilities),
    memory_total=_readings(st.integers(0, 2**40)),
    mig=_readings(st.booleans()),
)
_snapshots = _records(
    Snapshot,
    driver=_records(
        Driver, version=_readings(_drivers), cuda=_readings(_cudas), module=_readings(st.sampled_from(Module))
    ),
    gpus=st.lists(_gpus, max_size=3).map(tuple),
    pci_gpus=st.one_of(
        st.none(), st.lists(_records(PciGpu, pci=_texts, vendor=_texts, device=_texts), max_size=2).map(tuple)
    ),
    environment=st.dictionaries(_texts, _texts, max_size=3),
    sources=st.lists(_records(Source, name=_texts, state=st.sampled_from(SourceState)), max_size=2).map(tuple),
)


@given(_snapshots)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=1000)
def test_a_snapshot_survives_a_json_round_trip(snapshot: Snapshot) -> None:
    assert decode(Snapshot, json.loads(json.dumps(encode(snapshot)))) == snapshot


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"driver": {"version": {"value": 580}}}, "driver.version.value: expected text, found 580"),
        ({"driver": {"version": {"value": "new"}}}, "driver.version.value: 'new' is no driver version"),
        ({"gpus": {}}, "gpus: expected a list"),
        ({"gpus": [{"memory_total": {"value": "80"}}]}, "gpus[0].memory_total.value: expected a whole number"),
        ({"gpus": [{"memory_total": {"value": True}}]}, "gpus[0].memory_total.value: expected a whole number"),
        ({"gpus": [{"memory_total": {"value": 10**400}}]}, "gpus[0].memory_total.value: expected a whole number"),
        ({"gpus": [{"health": {"power": {"value": 10**400}}}]}, "gpus[0].health.power.value: expected a number"),
        ({"gpus": [{"health": {"power": {"value": math.inf}}}]}, "gpus[0].health.power.value: expected a number"),
        (
            {"sources": [{"name": "nvml", "state": "failed", "duration": math.nan}]},
            "sources[0].duration: expected a number, found nan",
        ),
        ({"sources": [{"name": "nvml"}]}, "sources[0]: lacks state"),
        ({"sources": [{"name": "nvml", "state": "fine"}]}, "sources[0].state: expected one of answered, absent"),
        ([], "the input: expected an object"),
    ],
)
def test_a_fault_is_reported_with_its_path(data: object, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Snapshot, data)
    assert str(caught.value).startswith(message)


class Row(NamedTuple):
    """A record of a table."""

    name: str
    versions: tuple[DriverVersion, ...]
    note: str | None = None


def test_a_named_tuple_is_a_record() -> None:
    row = Row("580", (DriverVersion.parse("580.65.06"),))
    assert encode((row,)) == [{"name": "580", "versions": ["580.65.06"], "note": None}]
    assert decode(Row, encode(row)) == row
    with pytest.raises(DecodeError, match="the input: lacks versions"):
        decode(Row, {"name": "580"})


@dataclass(frozen=True, kw_only=True)
class Named:
    """A record whose fields are given by name alone."""

    name: str
    count: int = 0


def test_fields_given_by_name_alone_are_written() -> None:
    assert encode(Named(name="a", count=2)) == {"name": "a", "count": 2}
    assert decode(Named, {"name": "a"}) == Named(name="a")


def test_unknown_keys_are_ignored() -> None:
    assert decode(Snapshot, {"schema": "gpuenv.snapshot/1", "moon": "full"}) == Snapshot()


def test_unknown_keys_are_rejected_in_hand_written_data() -> None:
    with pytest.raises(DecodeError, match="moon: unknown key"):
        decode(Snapshot, {"moon": "full"}, Form.TEXTS)
