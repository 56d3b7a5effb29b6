"""``gpuenv schema``."""

from __future__ import annotations

import importlib
import json
from typing import Annotated

import typer

from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode

# The short name: the module of the record, the name there of its full name, and of the record.
_RECORDS = {
    "report": ("gpuenv.report.report", "SCHEMA", "Report"),
    "snapshot": ("gpuenv.model.snapshot", "SCHEMA", "Snapshot"),
    "resolution": ("gpuenv.model.resolution", "SCHEMA", "Resolution"),
    "explanation": ("gpuenv.explain.records", "SCHEMA", "Explanation"),
    "smoke": ("gpuenv.model.smoke", "SCHEMA", "SmokeResult"),
    "diff": ("gpuenv.model.documents", "DIFF", "Comparison"),
    "plan": ("gpuenv.install.plan", "PLAN", "Plan"),
    "outcome": ("gpuenv.install.plan", "OUTCOME", "Outcome"),
    "history": ("gpuenv.install.rollback", "SCHEMA", "History"),
    "bundle": ("gpuenv.install.bundle", "SCHEMA", "Manifest"),
    "what-if": ("gpuenv.model.documents", "WHAT_IF", "WhatIf"),
    "why-not": ("gpuenv.model.documents", "WHY_NOT", "WhyNot"),
    "fleet": ("gpuenv.model.documents", "FLEET", "Fleet"),
    "matrix": ("gpuenv.matrix.tables", "SCHEMA", "Matrix"),
    "image": ("gpuenv.image.check.records", "SCHEMA", "ImageReport"),
    "meaning": ("gpuenv.model.documents", "MEANING", "Meaning"),
    "checks": ("gpuenv.model.documents", "CHECKS", "Checks"),
    "tests": ("gpuenv.model.documents", "TESTS", "Tests"),
    "requirements": ("gpuenv.model.documents", "REQUIREMENTS", "Requirements"),
    "matrix-rows": ("gpuenv.matrix.row_lookup", "SCHEMA", "Rows"),
}
# Of these names build-image has forms of its own: the module, and the name of the record.
_ALSO = {
    "plan": ("gpuenv.image.records", "ImagePlans"),
    "outcome": ("gpuenv.image.records", "ImageOutcome"),
}


def schema(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(_RECORDS)}.")],
) -> None:
    """Print the JSON Schema of a machine-readable output."""
    from gpuenv.cli.output import write_stdout

    short = name.removeprefix("gpuenv.").split("/")[0]
    if short in _RECORDS:
        place, full, record = _RECORDS[short]
        module = importlib.import_module(place)
        if name in (short, getattr(module, full)):
            write_stdout(json.dumps(_whole(short, getattr(module, record), getattr(module, full)), indent=2) + "\n")
            return
    raise CommandError(ExitCode.USAGE, f"there is no schema named {name}", f"one of {', '.join(_RECORDS)}")


def _whole(short: str, record: type, full: str) -> dict[str, object]:
    """The schema of a name; where an image has another form than an install, either of them."""
    from gpuenv.model.json_schema import json_schema

    own = json_schema(record, full)
    if short not in _ALSO:
        return own
    place, name = _ALSO[short]
    other = json_schema(getattr(importlib.import_module(place), name), full)
    # Each keeps its definitions, and the references in it count from its own root.
    forms = [{**form, "$id": f"urn:gpuenv:{short}:{kind}"} for kind, form in (("install", own), ("image", other))]
    return {"$schema": own["$schema"], "title": full, "anyOf": forms}
