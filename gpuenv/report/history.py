"""What an earlier run said, in one line. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuenv.report.report import SCHEMA, Status


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier run.

    Attributes:
        name: the file that it stands in.
        taken_at: when the machine was asked, ISO 8601.
        status: its verdict.
        exit_code: its exit code.
        primary: code and cause of what was to be cured first.
        duration: seconds.
    """

    name: str
    taken_at: str
    status: Status
    exit_code: int
    primary: str | None
    duration: float


def earlier(name: str, data: Any) -> Earlier | None:  # noqa: ANN401 - JSON
    """The line of a report in JSON; None for anything else."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        return None
    try:
        found = [entry for entry in data["findings"] if entry["primary"]]
        return Earlier(
            name=name,
            taken_at=str(data["snapshot"]["taken_at"] or ""),
            status=Status(data["status"]),
            exit_code=int(data["exit_code"]),
            primary=f"{found[0]['code']} {found[0]['cause']}" if found else None,
            duration=float(data["duration"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
