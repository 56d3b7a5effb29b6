"""The exit codes of every command."""

from __future__ import annotations

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
