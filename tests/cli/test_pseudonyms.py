"""A GPU has the same pseudonym everywhere, and redaction changes no verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.identities import OTHER_UUID, USER_ENVIRONMENT, texts_containing, without_commands
from tests.cli.program import answer, gpuenv
from tests.cli.snapshots import FIT, UUID, replace_facts, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_a_gpu_has_the_same_pseudonym_everywhere(snapshot_file: Path, tmp_path: Path) -> None:
    _, output = answer("probe", "--snapshot", snapshot_file, environment=USER_ENVIRONMENT)
    gpu = output["gpus"][0]["uuid"]["value"]
    instance = output["gpus"][0]["mig_instances"][0]["uuid"]
    assert output["environment"]["CUDA_VISIBLE_DEVICES"] == f"{gpu},{instance}"
    assert gpu.startswith("GPU-")
    assert instance.startswith("MIG-")
    assert len(gpu) == len(UUID)
    another = write_snapshot(
        replace_facts(FIT, environment={"CUDA_VISIBLE_DEVICES": OTHER_UUID}), tmp_path / "another.json"
    )
    _, second = answer("probe", "--snapshot", another)
    assert second["gpus"][0]["uuid"]["value"] == gpu, "the pseudonym is the same in another snapshot"
    assert second["environment"]["CUDA_VISIBLE_DEVICES"] not in (gpu, OTHER_UUID)


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
def test_a_prefix_of_a_uuid_becomes_a_prefix_of_its_pseudonym(
    tmp_path: Path,
    length: int,
    case: Any,  # noqa: ANN401 - str's own functions
) -> None:
    """CUDA accepts every prefix that identifies one GPU."""
    prefix = "GPU-" + case(UUID[4:length])
    facts = replace_facts(FIT, environment={"CUDA_VISIBLE_DEVICES": prefix})
    _, output = answer("probe", "--snapshot", write_snapshot(facts, tmp_path / "facts.json"))
    pseudonym = output["environment"]["CUDA_VISIBLE_DEVICES"]
    assert output["gpus"][0]["uuid"]["value"].startswith(pseudonym)
    assert len(pseudonym) == length
    assert pseudonym != prefix


def test_a_word_that_begins_like_a_uuid_is_unchanged(tmp_path: Path) -> None:
    facts = replace_facts(FIT, environment={"CUPY_NOTE": "a GPU-enabled node", "CUDA_VISIBLE_DEVICES": UUID[:5]})
    _, output = answer("probe", "--snapshot", write_snapshot(facts, tmp_path / "facts.json"))
    assert output["environment"]["CUPY_NOTE"] == "a GPU-enabled node"
    assert output["gpus"][0]["uuid"]["value"].startswith(output["environment"]["CUDA_VISIBLE_DEVICES"])


def test_uuids_in_the_format_of_old_drivers_are_hidden(tmp_path: Path) -> None:
    facts = replace_facts(
        FIT, environment={"CUDA_VISIBLE_DEVICES": f"MIG-{UUID}/1/0", "NVIDIA_VISIBLE_DEVICES": UUID[4:]}
    )
    _, output = answer("probe", "--snapshot", write_snapshot(facts, tmp_path / "facts.json"))
    assert texts_containing(output["environment"]["CUDA_VISIBLE_DEVICES"], UUID[4:]) == []


def test_redaction_is_idempotent(snapshot_file: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.json", tmp_path / "twice.json"
    gpuenv("probe", "--snapshot", snapshot_file, "-o", once, environment=USER_ENVIRONMENT)
    gpuenv("probe", "--snapshot", once, "-o", twice, environment=USER_ENVIRONMENT)
    assert once.read_text(encoding="utf-8") == twice.read_text(encoding="utf-8")
    assert once.read_text(encoding="utf-8") != snapshot_file.read_text(encoding="utf-8")


def test_a_redacted_snapshot_has_the_same_verdict(snapshot_file: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.json"
    gpuenv("probe", "--snapshot", snapshot_file, "-o", hidden, environment=USER_ENVIRONMENT)
    one, other = (
        answer("doctor", "--snapshot", path, environment=USER_ENVIRONMENT) for path in (snapshot_file, hidden)
    )
    assert one[0] == other[0] == 1
    assert without_commands(_without_time(one[1])) == without_commands(_without_time(other[1]))


def test_a_replayed_report_has_the_same_verdict(machine: Mapping[str, str], tmp_path: Path) -> None:
    """The variable selects one of two GPUs by a prefix of its UUID."""
    report = tmp_path / "report.json"
    environment = {**machine, "CUDA_VISIBLE_DEVICES": UUID[:12]}
    first = gpuenv("doctor", "--format", "json", "-o", report, environment=environment)
    again = answer("doctor", "--snapshot", report)
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["snapshot"]["visible_count"]["value"] == 1
    assert again[0] == first.returncode
    assert _without_time(again[1]) == _without_time(written)


def _without_time(report: dict[str, Any]) -> dict[str, Any]:
    """The report without durations, and without the host, which is not that of a replay."""
    checks = [{**run, "duration": 0} for run in report["checks"]]
    return {**report, "duration": 0, "checks": checks, "host_name": None}
