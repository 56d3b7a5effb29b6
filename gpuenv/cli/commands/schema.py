"""``gpuenv schema``."""

from __future__ import annotations

import importlib
import json
from typing import Annotated

import typer

from gpuenv.cli.command_errors import CommandError
from gpuenv.model.exit_codes import ExitCode

# By short name: module, constant with the full name, and record class.
_RECORDS = {
    "report": ("gpuenv.report.report", "SCHEMA", "Report"),
    "summary": ("gpuenv.report.summary", "SCHEMA", "Summary"),
    "snapshot": ("gpuenv.model.snapshot", "SCHEMA", "Snapshot"),
    "resolution": ("gpuenv.model.resolution", "SCHEMA", "Resolution"),
    "explanation": ("gpuenv.explain.explanation_types", "SCHEMA", "Explanation"),
    "smoke": ("gpuenv.model.smoke", "SCHEMA", "SmokeResult"),
    "diff": ("gpuenv.model.documents", "DIFF", "Comparison"),
    "plan": ("gpuenv.install.plan", "PLAN", "Plan"),
    "outcome": ("gpuenv.install.plan", "OUTCOME", "InstallOutcome"),
    "history": ("gpuenv.install.rollback", "SCHEMA", "History"),
    "bundle": ("gpuenv.install.bundle", "SCHEMA", "BundleManifest"),
    "what-if": ("gpuenv.model.documents", "WHAT_IF", "WhatIf"),
    "why-not": ("gpuenv.model.documents", "WHY_NOT", "WhyNot"),
    "node": ("gpuenv.fleet.node_report", "SCHEMA", "NodeReport"),
    "collection": ("gpuenv.fleet.collect", "COLLECTION", "Collection"),
    "fleet": ("gpuenv.model.documents", "FLEET", "Fleet"),
    "fleet-diff": ("gpuenv.model.documents", "FLEET_DIFF", "FleetDiff"),
    "matrix": ("gpuenv.matrix.tables", "SCHEMA", "Matrix"),
    "image": ("gpuenv.image.inspect.image_report", "SCHEMA", "ImageReport"),
    "meaning": ("gpuenv.model.documents", "MEANING", "Meaning"),
    "checks": ("gpuenv.model.documents", "CHECKS", "Checks"),
    "tests": ("gpuenv.model.documents", "TESTS", "Tests"),
    "requirements": ("gpuenv.model.documents", "REQUIREMENTS", "Requirements"),
    "matrix-rows": ("gpuenv.matrix.row_lookup", "SCHEMA", "Rows"),
}
NAMES = tuple(_RECORDS)
# The other records of build-image with these names: module and record class.
_IMAGE_RECORDS = {
    "plan": ("gpuenv.image.build.plan", "ImagePlans"),
    "outcome": ("gpuenv.image.build.plan", "ImageOutcome"),
}


def schema(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(NAMES)}.", autocompletion=lambda: list(NAMES))
    ],
) -> None:
    """Print the JSON Schema of a machine-readable output."""
    from gpuenv.cli.output import write_stdout

    short = name.removeprefix("gpuenv.").split("/")[0]
    if short in NAMES:
        document = schema_of(short)
        if name in (short, document["title"]):
            write_stdout(json.dumps(document, indent=2) + "\n")
            return
    raise CommandError(ExitCode.USAGE, f"there is no schema named {name}", f"one of {', '.join(NAMES)}")


def schema_of(short: str) -> dict[str, object]:
    """The schema of a short name; for names that installs and images share, either of the two."""
    from gpuenv.model.json_schema import json_schema

    module_name, constant, name = _RECORDS[short]
    module = importlib.import_module(module_name)
    full = getattr(module, constant)
    install_schema = json_schema(getattr(module, name), full)
    if short not in _IMAGE_RECORDS:
        return install_schema
    module_name, name = _IMAGE_RECORDS[short]
    image_schema = json_schema(getattr(importlib.import_module(module_name), name), full)
    # With an $id, each resolves its references in its own definitions.
    forms = [
        {**form, "$id": f"urn:gpuenv:{short}:{kind}"}
        for kind, form in (("install", install_schema), ("image", image_schema))
    ]
    return {"$schema": install_schema["$schema"], "title": full, "anyOf": forms}
