"""The assertion for calls that end in a usage error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.program import gpuenv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def assert_refused(
    *arguments: str | Path, names: Sequence[str], code: int = 2, environment: Mapping[str, str] | None = None
) -> None:
    """Asserts the exit code, an empty standard output, and the texts that the message must contain."""
    result = gpuenv(*arguments, environment=environment)
    assert (result.returncode, result.stdout) == (code, "")
    assert [name for name in names if name not in result.stderr] == [], result.stderr
