"""The report of one node, ``gpuenv.node/1``: what ``fleet node`` makes and writes, and the analysis reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from gpuenv import __version__
from gpuenv.files import make_private_folder, replace_file
from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.redaction import cut_text
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.job import host_names
from gpuenv.report.report import Report

SCHEMA = "gpuenv.node/1"
COLLECTION = "gpuenv.collection/1"  # the record of a collection: which nodes answered
COLLECTION_FILE = "_collection.json"  # no node has this name
R = TypeVar("R")
LARGEST = 2_000_000  # bytes of a report
_DEEPEST = 40  # levels; a report has at most 12
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


class NodeReportError(ValueError):
    """A text that is no report of a node."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The report of one node."""

    node: str  # the engine's name of the machine
    taken_at: float  # when, in seconds since the epoch
    run: str | None  # the name of its collection; null for a report without one
    exit_code: int  # of the report, or of the failed attempt
    snapshot: Snapshot | None  # the facts; null if probing failed
    report: Report | None  # the doctor's report without its snapshot's copy; null if probing failed
    error: str | None = None  # why there is no snapshot
    gpuenv_version: str = ""  # of the program on the node
    schema: str = SCHEMA


def is_node_name(text: str) -> bool:
    """Whether a text can be a host name: only such names get into a command."""
    return _NAME.fullmatch(text) is not None


def load_document(data: bytes) -> dict[str, Any]:
    """The plain values of a node report or of the record of a collection.

    Raises:
        NodeReportError: with the reason.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NodeReportError(f"no JSON: {str(error)[:80]}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in (SCHEMA, COLLECTION):
        hint = "; a newer gpuenv reads it" if str(schema).startswith(SCHEMA.partition("/")[0] + "/") else ""
        raise NodeReportError(f"expected schema {SCHEMA}, found {cut_text(str(schema), 40)!r}{hint}")
    return cast("dict[str, Any]", document)


def decode_part(kind: type[R], part: object, *, deepest: int | None = _DEEPEST) -> R:
    """A record from plain values; values of other fields are ignored.

    ``deepest`` limits the levels of all values; None for no limit.

    Raises:
        NodeReportError: with the reason.
    """
    if deepest is not None and _depth(part) > deepest:
        raise NodeReportError(f"nested more than {deepest} levels deep")
    try:
        return decode(kind, part)
    except DecodeError as error:
        raise NodeReportError(cut_text(str(error), 200)) from error


def parse_node_report(data: bytes) -> NodeReport:
    """Reads a whole report.

    Raises:
        NodeReportError: with the reason.
    """
    if len(data) > LARGEST:
        raise NodeReportError(f"{len(data)} bytes are more than the {LARGEST} that a report may have")
    found = decode_part(NodeReport, load_document(data))
    if not is_node_name(found.node):
        raise NodeReportError(f"{cut_text(found.node, 40)!r} is no name of a node")
    return found


def _depth(value: object) -> int:
    """How many levels of lists and objects there are."""
    levels, current = 0, [value]
    while current:
        levels += 1
        current = [
            inner
            for each in current
            if isinstance(each, (list, dict))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return levels


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


def write_report(folder: Path, node: str, text: str) -> Path:
    """Writes the report of a node as ``NODE.json`` with the permissions 0600, by one rename; follows no link.

    Raises:
        OSError: when it cannot be written.
    """
    path = folder / f"{node}.json"
    make_private_folder(folder)
    replace_file(path, f"{text}\n", private=True)
    return path
