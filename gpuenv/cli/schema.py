"""``gpuenv schema``."""

from __future__ import annotations

import importlib
import json
from typing import Annotated

import typer

from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode

# The name in ``schema``: the module of its record, which also has SCHEMA, and the record.
_RECORDS = {
    "report": ("gpuenv.report.report", "Report"),
    "snapshot": ("gpuenv.model.snapshot", "Snapshot"),
    "resolution": ("gpuenv.model.resolution", "Resolution"),
    "explanation": ("gpuenv.explain.records", "Explanation"),
    "smoke": ("gpuenv.model.smoke", "SmokeResult"),
    "diff": ("gpuenv.model.difference", "Comparison"),
    "matrix": ("gpuenv.matrix.records", "Matrix"),
}


def schema(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(_RECORDS)}.")],
) -> None:
    """Print the JSON Schema of a machine-readable output."""
    from gpuenv.cli.output import write_stdout
    from gpuenv.model.json_schema import json_schema

    place = _RECORDS.get(name.removeprefix("gpuenv.").split("/")[0])
    module = importlib.import_module(place[0]) if place else None
    if place is None or module is None or name not in (module.SCHEMA, _short(module.SCHEMA)):
        raise CommandError(ExitCode.USAGE, f"there is no schema named {name}", f"one of {', '.join(_RECORDS)}")
    write_stdout(json.dumps(json_schema(getattr(module, place[1]), module.SCHEMA), indent=2) + "\n")


def _short(full: str) -> str:
    """``report`` of ``gpuenv.report/1``."""
    return full.removeprefix("gpuenv.").split("/")[0]
