"""Begins to ask this machine before the command line is understood: importing what understands it takes as long.

The words are only looked over here. What was begun is taken over by the asking that turns out to be wanted if that is
the very same; else it is ended, and what it was told is never read.
"""

from __future__ import annotations

import os

from gpuenv.install.paths import root_with_journals
from gpuenv.model.secrets import for_the_target
from gpuenv.probe.command import of_target
from gpuenv.probe.early import Early, start_early
from gpuenv.probe.limits import DEFAULT_TIMEOUT, LONGEST_TIMEOUT
from gpuenv.probe.target import TargetError, find_interpreter

TYPE_CHECKING = False  # what is imported here keeps the first child waiting
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuenv.probe.take import Inquiry, Request

_COMMANDS = ("doctor", "probe", "resolve", "install")  # whose first step is to ask this machine, for DEFAULT_TIMEOUT
_NOT_HERE = ("--snapshot", "--no-probe", "--paste", "--list", "--kernel", "--help", "-h")
_early: list[Early] = []  # the first child, until its inquiry has it
_begun: list[Inquiry] = []  # to be closed at the program's end at the latest
_ready: list[Inquiry] = []  # what nobody has taken over yet


def begin(arguments: Sequence[str]) -> None:
    """Begins where the words look like a command that asks this machine.

    Args:
        arguments: those of the command line.
    """
    if not arguments or arguments[0] not in _COMMANDS or any(word.split("=")[0] in _NOT_HERE for word in arguments):
        return
    try:
        _begin(arguments)
    except (TargetError, ValueError, OSError, RuntimeError):  # no such target, no room for a pipe or a thread
        end()  # told by whoever understands the command line, and asks again


def _begin(arguments: Sequence[str]) -> None:
    python = _value(arguments, "--python", "") or None
    timeout = float(_value(arguments, "--timeout", str(DEFAULT_TIMEOUT)))
    interpreter = find_interpreter(python, os.environ)
    if not 0 < timeout <= LONGEST_TIMEOUT or (arguments[0] == "install" and _is_to_be_mended(interpreter)):
        return
    if interpreter is not None:
        start_early(of_target(interpreter), for_the_target(os.environ), _early)
    _ready.append(_started(_request(arguments, python, timeout)))


def _is_to_be_mended(interpreter: str | None) -> bool:
    """Whether an interrupted install may have to be put back before the environment is looked at."""
    return interpreter is None or root_with_journals(interpreter) is not None


def _request(arguments: Sequence[str], python: str | None, timeout: float) -> Request:
    from gpuenv.probe.take import Request

    return Request(
        environment=dict(os.environ),
        python=python,
        root=_value(arguments, "--driver-root", os.environ.get("GPUENV_DRIVER_ROOT", "")) or "/",
        timeout=timeout,
        deep="--deep" in arguments,
    )


def take_over(request: Request) -> Inquiry:
    """What was begun, if it is what is wanted and nobody has it yet, or else a new asking.

    Raises:
        TargetError: when the target that the caller named is no environment.
    """
    while _ready:
        inquiry = _ready.pop()
        if inquiry.becomes(request):
            return inquiry
        inquiry.close()
    return _started(request)


def end() -> None:
    """Ends whatever was begun."""
    while _early:
        _early.pop().end()
    for inquiry in _begun:
        inquiry.close()


def _started(request: Request) -> Inquiry:
    from gpuenv.probe.take import Inquiry

    inquiry = Inquiry(request, _early[0] if _early else None)
    _begun.append(inquiry)  # before there is a child, so that none is forgotten
    inquiry.begin()
    _early.clear()
    return inquiry


def _value(arguments: Sequence[str], option: str, default: str) -> str:
    """The last value of an option, in either of its two forms."""
    value = default
    for place, word in enumerate(arguments):
        if word == option:
            value = arguments[place + 1] if place + 1 < len(arguments) else default
        elif word.startswith(option + "="):
            value = word.partition("=")[2]
    return value
