"""What ends a command early: a message, a remedy and an exit code."""

from __future__ import annotations


class CommandError(Exception):
    """Ends the command with an exit code of the contract; ``remedy`` is printed on a line of its own."""

    def __init__(self, exit_code: int, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message
        self.remedy = remedy
