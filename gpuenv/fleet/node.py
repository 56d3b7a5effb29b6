"""Makes and writes the report of this node."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuenv import __version__
from gpuenv.files import make_private_folder, replace_file
from gpuenv.fleet.node_report import NodeReport, is_node_name
from gpuenv.model.codec import encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.job import host_names
from gpuenv.report.report import Report


def node_name(environment: Mapping[str, str], own: str) -> str:
    """The scheduler's name of this node, else its own host name.

    Raises:
        ValueError: when it is no valid host name.
    """
    name = next(iter(host_names(environment, own)), "")
    if not is_node_name(name):
        raise ValueError(f"{name!r} cannot be the name of a node")
    return name


def answer(report: Report, node: str, run: str | None, taken_at: float) -> NodeReport:
    """The report of an examined node, with the facts once and without the rejected candidates.

    They would be half of the report, and the analysis finds them again from the facts.
    """
    bare = report._replace(snapshot=Snapshot(), resolution=report.resolution._replace(rejected=()))
    return NodeReport(node, taken_at, run, report.exit_code, report.snapshot, bare, None, __version__)


def failure(error: str, exit_code: int, node: str, run: str | None, taken_at: float) -> NodeReport:
    """The report of a node that could not be examined."""
    return NodeReport(node, taken_at, run, exit_code, None, None, error, __version__)


def one_line(report: NodeReport, clean: Callable[[Any], Any]) -> str:
    """The report as one line of JSON; ``clean`` removes secrets from its plain values."""
    return json.dumps(clean(encode(report)), separators=(",", ":"))


def write_report(folder: Path, node: str, text: str) -> Path:
    """Writes the report of a node as ``NODE.json`` with the permissions 0600, by one rename; follows no link.

    Raises:
        OSError: when it cannot be written.
    """
    path = folder / f"{node}.json"
    make_private_folder(folder)
    replace_file(path, f"{text}\n", private=True)
    return path
