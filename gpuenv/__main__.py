"""The entry point: answers ``--version`` at once, leaves all else to the application."""

from __future__ import annotations

import os
import sys

from gpuenv import began  # noqa: F401 - before all that takes time

TYPE_CHECKING = False  # --version needs nothing that would import typing
if TYPE_CHECKING:
    from typing import NoReturn

_OUTPUT_CLOSED, _INTERRUPTED, _USAGE = 141, 130, 2
_WINDOWS_CODES = 1 << 32
_COLLECT_AFTER = 100_000  # new objects: a start makes half as many, all of which stay


def main() -> None:
    """Runs the command line and ends the process with its code; whoever calls it does not come back."""
    try:
        code = _main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _tell_interruption()
    except OSError as error:
        code = _without_output(error)
    _end(code)


def _main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from gpuenv import __version__  # noqa: PLC0415 - nothing else is needed

        if sys.stdout is not None:
            sys.stdout.write(f"gpuenv {__version__}\n")
        return 0
    _look_there_last(os.environ.get("PYTHONPATH", ""))
    if os.environ.get("PYTHONWARNINGS"):
        import warnings  # noqa: PLC0415

        warnings.simplefilter("ignore")  # meant for the user's own program; an error for each would end this one
    import gc  # noqa: PLC0415 - --version needs none of these

    gc.set_threshold(_COLLECT_AFTER)
    import signal  # noqa: PLC0415

    from gpuenv.cli import ahead  # noqa: PLC0415
    from gpuenv.interrupt import heed  # noqa: PLC0415

    heed()
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it would leave no child's end to be told

    try:
        ahead.begin(arguments)
        from gpuenv.cli.front import run  # noqa: PLC0415 - --version needs none of this

        return run(arguments)
    finally:
        ahead.end()


def _look_there_last(pythonpath: str) -> None:
    """Lets the folders of PYTHONPATH come after our own: a json.py there breaks the target, which is to be told.

    Where this program itself lies in one of them, what it needs does so too, and all stays as it is.
    """
    folders = {os.path.abspath(entry) for entry in pythonpath.split(os.pathsep) if entry}  # noqa: PTH100 - for start-up
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) not in folders:  # noqa: PTH100, PTH120 - likewise
        sys.path.sort(key=lambda entry: entry in folders)


def _end(code: int) -> NoReturn:
    """Ends the program at once: all that it has started is ended by now, and the system takes its memory back.

    To take itself apart costs an interpreter as much as to diagnose a machine. It would do so beside a thread that is
    left where a child is beyond help: one that then imports a module waits for a lock that is gone, and the process
    ends by SIGSEGV instead of the exit code (seen once in CI after a usage error, with CPython 3.11, and not in 2400
    repetitions).
    """
    import os  # noqa: PLC0415 - is there

    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):  # its reader has gone, or it was closed
            continue
    os._exit(code - _WINDOWS_CODES if code >= _WINDOWS_CODES // 2 else code)  # a crash there is told by 32 bits


def _tell_interruption() -> None:
    """Of one that came before there was anybody to tell it: nothing is imported, and a second one adds nothing."""
    try:
        if sys.stderr is not None:
            sys.stderr.write("gpuenv: interrupted\n")
    except (OSError, ValueError, KeyboardInterrupt):
        return


def _without_output(error: OSError) -> int:
    """Standard output cannot be written: told on standard error, unless its reader has merely gone."""
    from gpuenv.cli.errors import complain, drop_stdout  # noqa: PLC0415 - of use here alone

    drop_stdout()
    if isinstance(error, BrokenPipeError):
        return _OUTPUT_CLOSED
    complain(f"gpuenv: standard output cannot be written: {error.strerror}")
    return _USAGE


if __name__ == "__main__":
    main()
