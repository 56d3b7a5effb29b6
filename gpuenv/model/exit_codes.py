"""The exit codes of every command."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes for scripts and CI; if several apply, the first of 130, 70, 2, 6, 7, 75, 4, 3, 5, 1, 8, 0."""

    OK = 0
    UNFIT = 1
    USAGE = 2
    NOTHING_FITS = 3
    FAILED = 4
    SMOKE_FAILED = 5
    MATRIX_INVALID = 6
    TARGET_UNUSABLE = 7
    COULD_NOT_CHECK = 8
    FAULT = 70
    RETRY_ELSEWHERE = 75
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141  # as a shell reports a program killed by SIGPIPE


ENDS_IN: Mapping[ExitCode, tuple[str, ...]] = {
    ExitCode.UNFIT: (
        *("doctor", "preflight", "check-image", "explain", "matrix refresh"),
        *("fleet node", "fleet collect", "fleet report"),
    ),
    ExitCode.NOTHING_FITS: ("resolve", "install", "lock", "bundle", "build-image", "fleet resolve"),
    ExitCode.FAILED: ("install", "rollback", "lock", "bundle", "build-image", "doctor --fix"),
    ExitCode.SMOKE_FAILED: ("smoke",),
    ExitCode.TARGET_UNUSABLE: ("install", "rollback", "lock", "bundle", "build-image", "smoke", "doctor --fix"),
    ExitCode.COULD_NOT_CHECK: (
        *("doctor", "preflight", "check-image", "matrix refresh", "matrix update"),
        *("fleet node", "fleet collect", "fleet report"),
    ),
    ExitCode.RETRY_ELSEWHERE: ("preflight",),
}
"""The commands that use a code; every command may end with the other codes. Help and documentation list the same."""
