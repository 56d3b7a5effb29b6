"""A GPU has the same pseudonym everywhere, and redaction changes no verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.planted import OTHER, WHO, in_all
from tests.cli.program import answer, gpuenv
from tests.cli.recorded import FIT, UUID, changed, record

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_the_same_gpu_has_the_same_pseudonym_wherever_it_is_named(recording: Path, tmp_path: Path) -> None:
    _, shown = answer("probe", "--snapshot", recording, environment=WHO)
    gpu = shown["gpus"][0]["uuid"]["value"]
    instance = shown["gpus"][0]["mig_instances"][0]["uuid"]
    assert shown["environment"]["CUDA_VISIBLE_DEVICES"] == f"{gpu},{instance}"
    assert gpu.startswith("GPU-")
    assert instance.startswith("MIG-")
    assert len(gpu) == len(UUID)
    another = record(changed(FIT, environment={"CUDA_VISIBLE_DEVICES": OTHER}), tmp_path / "another.json")
    _, second = answer("probe", "--snapshot", another)
    assert second["gpus"][0]["uuid"]["value"] == gpu, "in another recording too"
    assert second["environment"]["CUDA_VISIBLE_DEVICES"] not in (gpu, OTHER)


@pytest.mark.parametrize(
    ("length", "case"),
    [
        (40, str.lower),
        (36, str.upper),
        (13, str.lower),
        (12, str.upper),
        (8, str.lower),
        pytest.param(6, str.lower),
    ],
)
def test_the_beginning_of_a_uuid_stays_the_beginning_of_its_pseudonym(
    tmp_path: Path,
    length: int,
    case: Any,  # noqa: ANN401 - str's own functions
) -> None:
    """CUDA takes any beginning that fits one GPU alone."""
    named = "GPU-" + case(UUID[4:length])
    facts = changed(FIT, environment={"CUDA_VISIBLE_DEVICES": named})
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    told = shown["environment"]["CUDA_VISIBLE_DEVICES"]
    assert shown["gpus"][0]["uuid"]["value"].startswith(told)
    assert len(told) == length
    assert told != named


def test_a_word_that_begins_like_a_uuid_stays_as_it_is(tmp_path: Path) -> None:
    facts = changed(FIT, environment={"CUPY_NOTE": "a GPU-enabled node", "CUDA_VISIBLE_DEVICES": UUID[:5]})
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    assert shown["environment"]["CUPY_NOTE"] == "a GPU-enabled node"
    assert shown["gpus"][0]["uuid"]["value"].startswith(shown["environment"]["CUDA_VISIBLE_DEVICES"])


def test_uuids_of_old_drivers_are_hidden_too(tmp_path: Path) -> None:
    facts = changed(FIT, environment={"CUDA_VISIBLE_DEVICES": f"MIG-{UUID}/1/0", "NVIDIA_VISIBLE_DEVICES": UUID[4:]})
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    assert in_all(shown["environment"]["CUDA_VISIBLE_DEVICES"], UUID[4:]) == []


def test_what_is_hidden_once_stays_as_it_is(recording: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.json", tmp_path / "twice.json"
    gpuenv("probe", "--snapshot", recording, "-o", once, environment=WHO)
    gpuenv("probe", "--snapshot", once, "-o", twice, environment=WHO)
    assert once.read_text(encoding="utf-8") == twice.read_text(encoding="utf-8")
    assert once.read_text(encoding="utf-8") != recording.read_text(encoding="utf-8")


def test_a_recording_without_identities_has_the_same_verdict(recording: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.json"
    gpuenv("probe", "--snapshot", recording, "-o", hidden, environment=WHO)
    one, other = (answer("doctor", "--snapshot", path, environment=WHO) for path in (recording, hidden))
    assert one[0] == other[0] == 1
    assert _without_time(one[1]) == _without_time(other[1])


def test_this_machine_s_report_is_replayed_with_the_same_verdict(machine: Mapping[str, str], tmp_path: Path) -> None:
    """The variable names one of two GPUs by the beginning of its UUID."""
    report = tmp_path / "report.json"
    environment = {**machine, "CUDA_VISIBLE_DEVICES": UUID[:12]}
    first = gpuenv("doctor", "--format", "json", "-o", report, environment=environment)
    again = answer("doctor", "--snapshot", report)
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["snapshot"]["visible_count"]["value"] == 1
    assert again[0] == first.returncode
    assert _without_time(again[1]) == _without_time(written)


def _without_time(report: dict[str, Any]) -> dict[str, Any]:
    checks = [{**run, "duration": 0} for run in report["checks"]]
    return {**report, "duration": 0, "checks": checks}
