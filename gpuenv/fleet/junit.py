"""A fleet as JUnit XML: a test case per node."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from gpuenv.model.documents import Fleet
from gpuenv.report.junit import add_outcome, document, test_case


def render(fleet: Fleet) -> str:
    """The document; an unfit node is a failure; a silent or unknown one is an error."""
    properties = {"exit_code": str(fleet.exit_code), "matrix_revision": fleet.matrix_revision}
    return document(list(_cases(fleet)), 0.0, properties)


def _cases(fleet: Fleet) -> Iterator[ET.Element]:
    for node in fleet.nodes:
        case, text = test_case("gpuenv.fleet", node.node, 0.0), "\n".join(node.findings)
        if node.status == "unfit":
            add_outcome(case, "failure", node.findings[0] if node.findings else "unfit", "unfit", text)
        elif node.status == "unknown":
            add_outcome(case, "error", node.error or "whether it is fit is undetermined", "unknown", text)
        elif text:
            ET.SubElement(case, "system-out").text = text
        yield case
    missing = (
        *((entry.node, "silent", entry.reason or "no answer") for entry in fleet.silent),
        *((name, "stale", "answered too long ago") for name in fleet.stale),
        *((entry.file, "unreadable", entry.reason) for entry in fleet.unreadable),
    )
    for name, kind, reason in missing:
        case = test_case("gpuenv.fleet", name, 0.0)
        add_outcome(case, "error", reason, kind, reason)
        yield case
