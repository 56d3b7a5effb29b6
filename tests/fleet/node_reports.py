"""Node reports made of the recorded machines, each with its own identity and its own momentary values."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.fleet.node_report import NodeReport
from gpuenv.model.codec import encode
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.report import make_report
from gpuenv.simulate.profile import load, snapshot_of
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterable

MACHINES = Path(__file__).parents[1] / "machines"
NOW = 1_800_000_000.0
HEALTHY = "h100x8-550"


@cache
def _report(machine: str) -> str:
    """The report of a machine, as its node writes it; on a sound machine CUDA starts and sees every GPU."""
    snapshot = snapshot_of(load(MACHINES / f"{machine}.yaml"), MATRIX)
    if snapshot.gpus and snapshot.driver.version.known and not snapshot.driver.cuda_init.known:
        snapshot = snapshot._replace(
            driver=snapshot.driver._replace(cuda_init=known(0, "libcuda"), nvml_init=known(0, "nvml")),
            visible_count=known(len(snapshot.gpus), "libcuda"),
        )
    diagnosis = diagnose(snapshot, MATRIX, float, DiagnosisOptions(hardware_must_be_sound=True))
    report = make_report(diagnosis, snapshot, 0.5)._replace(snapshot=Snapshot())
    return json.dumps(encode(NodeReport("NODE", NOW, None, report.exit_code, snapshot, report)))


def node_document(node: str, machine: str = HEALTHY, number: int = 0, **changes: object) -> dict[str, Any]:
    """The plain values; UUIDs, addresses, free memory and temperatures depend on ``number``."""
    document: dict[str, Any] = json.loads(_report(machine)) | {"node": node} | changes
    for index, gpu in enumerate(document["snapshot"]["gpus"]):
        gpu["uuid"]["value"] = f"GPU-{number:08x}-{index:04x}-0000-0000-000000000000"
        gpu["memory_free"] = {"value": 10**9 + number, "source": "nvml", "others": [], "reason": None}
        gpu["health"]["temperature"] = {"value": 30 + number % 50, "source": "nvml", "others": [], "reason": None}
    document["snapshot"]["taken_at"] = f"2027-01-15T08:{number % 60:02d}:00+00:00"
    return document


@cache
def _template(machine: str) -> str:
    """The text of a report, whose own values are those of number 987654321."""
    return json.dumps(node_document("NODE", machine, 987654321), separators=(",", ":"))


def node_report(node: str, machine: str = HEALTHY, number: int = 0, taken_at: float = NOW) -> bytes:
    """The report as the node writes it; much faster than ``node_document``."""
    text = _template(machine).replace('"NODE"', f'"{node}"').replace(f'"taken_at":{NOW}', f'"taken_at":{taken_at}')
    return text.replace("3ade68b1", f"{number:08x}").replace("1987654321", str(10**9 + number)).encode()


def with_finding(document: dict[str, Any], code: str, cause: str, title: str) -> dict[str, Any]:
    """The report of an unfit node with one error."""
    changed = copy.deepcopy(document)
    finding = {"code": code, "cause": cause, "severity": "error", "primary": True, "follows_from": None}
    changed["report"] |= {
        "status": "unfit",
        "findings": [finding | {"title": title, "evidence": [], "fix": [], "docs": f"gpuenv explain {code}"}],
    }
    return changed | {"exit_code": 1}


def write_nodes(folder: Path, names: Iterable[str], machine: str = HEALTHY) -> Path:
    """A folder of reports of equal nodes."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        (folder / f"{name}.json").write_bytes(node_report(name, machine, number))
    return folder
