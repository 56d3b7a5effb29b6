"""A report as others may see it: without identities and secrets, and without characters that could command a reader.

Every renderer but text and JSON takes a prepared report, so that each has its own format's escaping to do and no more.
Pure.
"""

from __future__ import annotations

from typing import Any

from gpuenv.model.codec import decode, encode
from gpuenv.model.harmless import harmless
from gpuenv.model.secrets import hide_secrets
from gpuenv.report.redact import Identity, redact
from gpuenv.report.report import Report

_WITH_LINES = "explanation"


def prepared(report: Report, identity: Identity | None) -> Report:
    """The same report, clean; ``identity`` is hidden, and None leaves names and paths but no secret."""
    data = encode(report)
    data = _secrets(data) if identity is None else redact(data, identity)
    return decode(Report, _clean(data, ""))


def _clean(data: Any, key: str) -> Any:  # noqa: ANN401 - JSON has no narrower type
    if isinstance(data, dict):
        return {harmless(name): _clean(entry, name) for name, entry in data.items()}
    if isinstance(data, list):
        return [_clean(entry, key) for entry in data]
    if not isinstance(data, str):
        return data
    if key == _WITH_LINES:
        return "\n".join(harmless(line) for line in data.split("\n"))
    return harmless(data)


def _secrets(data: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(data, dict):
        return {name: _secrets(entry) for name, entry in data.items()}
    if isinstance(data, list):
        return [_secrets(entry) for entry in data]
    return hide_secrets(data) if isinstance(data, str) else data
