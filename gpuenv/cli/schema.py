"""``gpuenv schema``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode


def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="report, snapshot, resolution, what-if, why-not, fleet, matrix, matrix-rows."
        ),
    ],
) -> None:
    """Print the JSON Schema of a machine-readable output."""
    from gpuenv.cli.output import write_stdout
    from gpuenv.matrix.records import SCHEMA as MATRIX
    from gpuenv.matrix.records import Matrix
    from gpuenv.matrix.rows import SCHEMA as ROWS
    from gpuenv.matrix.rows import Rows
    from gpuenv.model.answers import FLEET, WHAT_IF, WHY_NOT, Fleet, WhatIf, WhyNot
    from gpuenv.model.json_schema import json_schema
    from gpuenv.model.resolution import SCHEMA as RESOLUTION
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import SCHEMA as SNAPSHOT
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import SCHEMA as REPORT
    from gpuenv.report.report import Report

    records = {REPORT: Report, SNAPSHOT: Snapshot, RESOLUTION: Resolution, MATRIX: Matrix}
    records |= {WHAT_IF: WhatIf, WHY_NOT: WhyNot, FLEET: Fleet, ROWS: Rows}
    full = next((known for known in records if name in (known, known.removeprefix("gpuenv.").split("/")[0])), None)
    if full is None:
        raise CommandError(ExitCode.USAGE, f"there is no schema named {name}", f"one of {', '.join(records)}")
    write_stdout(json.dumps(json_schema(records[full], full), indent=2) + "\n")
