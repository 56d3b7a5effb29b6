"""The entry point."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # --version imports as little as it can
if TYPE_CHECKING:
    from typing import NoReturn

_OUTPUT_CLOSED, _INTERRUPTED, _USAGE = 141, 130, 2
_WINDOWS_CODES = 1 << 32
_COLLECT_AFTER = 100_000  # new objects


def main() -> None:
    """Runs the command line and ends the process with its exit code; does not return."""
    try:
        code = _main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _report_interruption()
    except OSError as error:
        code = _without_output(error)
    _end(code)


def _main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from gpuenv import __version__  # noqa: PLC0415 - nothing else is needed

        if sys.stdout is not None:
            sys.stdout.write(f"gpuenv {__version__}\n")
        return 0
    _search_last(os.environ.get("PYTHONPATH", ""))
    # Imported here, after PYTHONPATH was put last.
    import gc  # noqa: PLC0415
    import signal  # noqa: PLC0415
    import warnings  # noqa: PLC0415

    from gpuenv.interrupt import install_signal_handlers  # noqa: PLC0415

    # A start makes 50,000 objects that all stay; looking for garbage among them takes a tenth of the doctor's time
    # (0.43 s of wall time in place of 0.49, median of seven runs, 2026-11-23).
    gc.set_threshold(_COLLECT_AFTER)
    if os.environ.get("PYTHONWARNINGS"):
        warnings.simplefilter("ignore")  # meant for the user's own program; "error" would end this one
    install_signal_handlers()
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where the caller ignores it, the end of a child is lost

    from gpuenv.cli.main import run  # noqa: PLC0415

    return run(arguments)


def _search_last(pythonpath: str) -> None:
    """Moves the folders of PYTHONPATH behind our own: a json.py there breaks the target, which is to be diagnosed.

    Where this program itself lies in one of them, so do the packages that it needs, and the order stays.
    """
    folders = {os.path.abspath(entry) for entry in pythonpath.split(os.pathsep) if entry}  # noqa: PTH100 - before pathlib
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) not in folders:  # noqa: PTH100, PTH120 - before pathlib
        sys.path.sort(key=lambda entry: entry in folders)


def _end(code: int) -> NoReturn:
    """Ends the process without finalizing the interpreter.

    A thread may be left that waits for a child beyond help. Finalizing beside a thread that imports a module once ended
    in SIGSEGV in place of the exit code (CPython 3.11, once in 2400 runs).
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):  # its reader has gone, or it was closed
            continue
    os._exit(code - _WINDOWS_CODES if code >= _WINDOWS_CODES // 2 else code)  # a crash there has a code of 32 bits


def _report_interruption() -> None:
    """Reports an interruption that came before the command line was running; a second one adds nothing."""
    try:
        if sys.stderr is not None:
            sys.stderr.write("gpuenv: interrupted\n")
    except (OSError, ValueError, KeyboardInterrupt):
        return


def _without_output(error: OSError) -> int:
    """The exit code where standard output cannot be written; reported unless its reader has merely gone."""
    from gpuenv.cli.command_errors import complain, drop_stdout  # noqa: PLC0415 - needed here alone

    drop_stdout()
    if isinstance(error, BrokenPipeError):
        return _OUTPUT_CLOSED
    complain(f"gpuenv: standard output cannot be written: {error.strerror}")
    return _USAGE


if __name__ == "__main__":
    main()
