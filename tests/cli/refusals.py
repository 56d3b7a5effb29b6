"""What is asserted of a call that is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.program import gpuenv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def assert_refused(
    *arguments: str | Path, names: Sequence[str], code: int = 2, environment: Mapping[str, str] | None = None
) -> None:
    """Nothing on standard output, this exit code, and everything named in the message."""
    done = gpuenv(*arguments, environment=environment)
    assert (done.returncode, done.stdout) == (code, "")
    assert [name for name in names if name not in done.stderr] == [], done.stderr
