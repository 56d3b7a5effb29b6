"""Entry point of the command line."""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # --version imports as little as it can
if TYPE_CHECKING:
    from typing import NoReturn

_OUTPUT_CLOSED, _INTERRUPTED, _USAGE = 141, 130, 2
_WINDOWS_CODES = 1 << 32
_GC_THRESHOLD = 100_000  # new objects


def main() -> None:
    """Runs the command line and exits the process with its code; does not return."""
    try:
        code = _main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _report_interruption()
    except OSError as error:
        code = _report_output_error(error)
    _exit(code)


def _main(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):
        from gpuenv import __version__  # noqa: PLC0415 - the only import for --version

        if sys.stdout is not None:
            sys.stdout.write(f"gpuenv {__version__}\n")
        return 0
    _move_to_end(os.environ.get("PYTHONPATH", ""))
    _buffer_stdout()
    # Imported after PYTHONPATH was moved to the end.
    import gc  # noqa: PLC0415
    import signal  # noqa: PLC0415
    import warnings  # noqa: PLC0415

    from gpuenv.interrupt import install_signal_handlers  # noqa: PLC0415

    # Starting up makes 50,000 long-lived objects; collecting garbage among them takes a tenth of the doctor's time
    # (0.43 s of wall time in place of 0.49, median of seven runs, 2026-11-23).
    gc.set_threshold(_GC_THRESHOLD)
    if os.environ.get("PYTHONWARNINGS"):
        warnings.simplefilter("ignore")  # for the user's program; "error" would end this one
    install_signal_handlers()
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if the caller ignores it, exit codes of children are lost

    from gpuenv.cli.main import run  # noqa: PLC0415

    return run(arguments)


def _move_to_end(pythonpath: str) -> None:
    """Moves the folders of PYTHONPATH to the end of ``sys.path``: a json.py there breaks the target, not the doctor.

    Does nothing if gpuenv is in one of them, since its dependencies are there too.
    """
    folders = {os.path.abspath(entry) for entry in pythonpath.split(os.pathsep) if entry}  # noqa: PTH100 - before pathlib
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) not in folders:  # noqa: PTH100, PTH120 - before pathlib
        sys.path.sort(key=lambda entry: entry in folders)


def _buffer_stdout() -> None:
    """Buffers standard output under PYTHONUNBUFFERED, where Python writes a part and ignores that the disk is full."""
    stream = sys.stdout
    if stream is not None and isinstance(stream.buffer, io.RawIOBase):
        sys.stdout = open(stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False)  # noqa: SIM115 - a descriptor, open to the end


def _exit(code: int) -> NoReturn:
    """Exits the process without finalizing the interpreter.

    A thread may still wait for a hung child. Finalizing while a thread imported a module once ended in SIGSEGV instead
    of the exit code (CPython 3.11, once in 2400 runs).
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):  # the reader has gone, or the stream is closed
            continue
    os._exit(code - _WINDOWS_CODES if code >= _WINDOWS_CODES // 2 else code)  # a crash on Windows has a code of 32 bits


def _report_interruption() -> None:
    """Reports an interrupt before the command line was running; ignores a second one."""
    try:
        if sys.stderr is not None:
            sys.stderr.write("gpuenv: interrupted\n")
    except (OSError, ValueError, KeyboardInterrupt):
        return


def _report_output_error(error: OSError) -> int:
    """Reports that standard output is not writable, unless its reader has gone; returns the exit code."""
    from gpuenv.cli.command_errors import complain, drop_stdout  # noqa: PLC0415 - only needed here

    drop_stdout()
    if isinstance(error, BrokenPipeError):
        return _OUTPUT_CLOSED
    complain(f"gpuenv: standard output cannot be written: {error.strerror}")
    return _USAGE


if __name__ == "__main__":
    main()
