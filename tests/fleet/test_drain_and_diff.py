"""``gpuenv fleet drain`` and ``gpuenv fleet diff``."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from gpuenv.fleet.diff import diff_fleets
from gpuenv.fleet.groups import Partial, summarize
from gpuenv.fleet.reader import ReportFile
from tests.cli.program import gpuenv
from tests.fleet.node_reports import NOW, node_document, node_report, with_finding, write_nodes
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path


def broken(node: str, title: str = "GPU 3 has fallen off the bus", taken_at: float = NOW) -> dict[str, Any]:
    return with_finding(node_document(node, taken_at=taken_at), "GPU206", "gpu-hardware-fault", title)


def partial_of(*documents: dict[str, Any] | bytes) -> Partial:
    texts = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents)
    return summarize(ReportFile(f"{number}.json", len(data), data) for number, data in enumerate(texts))


def test_drain_prints_one_command_for_each_reason_and_each_node_once(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", ["node1", "node2"])
    for name in ("node3", "node4", "node5"):
        (folder / f"{name}.json").write_text(json.dumps(broken(name)), encoding="utf-8")
    (folder / "node9.json").write_text(json.dumps(broken("node9", "row remapping failed")), encoding="utf-8")
    (folder / "again.json").write_text(json.dumps(broken("node3", taken_at=NOW - 5)), encoding="utf-8")
    result = gpuenv("fleet", "drain", folder)
    assert result.returncode == 0, result.stderr
    commands = [shlex.split(line) for line in result.stdout.splitlines()]
    assert commands == [
        [
            *("scontrol", "update", "NodeName=node[3-5]", "State=DRAIN"),
            "Reason=gpuenv: gpu-hardware-fault: GPU 3 has fallen off the bus",
        ],
        [
            "scontrol",
            "update",
            "NodeName=node9",
            "State=DRAIN",
            "Reason=gpuenv: gpu-hardware-fault: row remapping failed",
        ],
    ]
    lines = gpuenv("fleet", "drain", folder, "--for", "kubernetes").stdout.splitlines()
    assert lines[:3] == [
        "# gpuenv: gpu-hardware-fault: GPU 3 has fallen off the bus",
        "kubectl cordon node3",
        "kubectl drain node3 --ignore-daemonsets",
    ]
    assert sum(line == "kubectl cordon node3" for line in lines) == 1


def test_nothing_to_drain_prints_nothing(tmp_path: Path) -> None:
    result = gpuenv("fleet", "drain", write_nodes(tmp_path / "fleet", ["node1"]))
    assert (result.returncode, result.stdout) == (0, "")


def test_diff_separates_new_gone_changed_and_flapping_nodes() -> None:
    updated = []
    for name in ("b1", "b2", "b3"):
        document = node_document(name, taken_at=NOW + 100)
        document["snapshot"]["driver"]["version"]["value"] = "580.95.05"
        updated.append(document)
    before = partial_of(
        *(node_report(name) for name in ("gone", "same", "b1", "b2", "b3", "broke")),
        broken("flaps", taken_at=NOW),
        node_report("flaps", taken_at=NOW + 1),
    )
    after = partial_of(
        *(node_report(name, number=7, taken_at=NOW + 100) for name in ("new", "same")),
        *updated,
        broken("broke", taken_at=NOW + 100),
        broken("flaps", taken_at=NOW + 100),
    )
    diff = diff_fleets(before, after, MATRIX)
    assert (diff.new, diff.gone, diff.flapping, diff.unchanged) == (("new",), ("gone",), ("flaps",), 1)
    driver, status = diff.drifted
    assert driver.nodes == ("b1", "b2", "b3")
    assert [(e.fact, e.there, e.here) for e in driver.differences] == [("driver.version", "550.54.15", "580.95.05")]
    assert (status.nodes, status.status) == (("broke", "flaps"), ("fit", "unfit"))


def test_diff_prints_what_changed(tmp_path: Path) -> None:
    before = write_nodes(tmp_path / "before", ["a1", "a2", "a3"])
    after = write_nodes(tmp_path / "after", ["a2", "a3", "a4"])
    (after / "a3.json").write_text(json.dumps(broken("a3")), encoding="utf-8")
    result = gpuenv("fleet", "diff", before, after)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        *("New: 1 node", "  a4", "Gone: 1 node", "  a1", "Changed: 1 node, fit -> unfit", "  a3"),
        "Unchanged: 1 node",
    ]
