"""The entry point: answers ``--version`` at once, leaves all else to the application."""

from __future__ import annotations

import sys

from gpuenv import began  # noqa: F401 - before all that takes time

_OUTPUT_CLOSED, _INTERRUPTED, _USAGE = 141, 130, 2
_COLLECT_AFTER = 100_000  # new objects: a start makes half as many, all of which stay


def main() -> None:
    """Runs the command line and exits with its code."""
    try:
        code = _main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except OSError as error:
        code = _without_output(error)
    _end(code)


def _main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from gpuenv import __version__  # noqa: PLC0415 - nothing else is needed

        if sys.stdout is not None:
            sys.stdout.write(f"gpuenv {__version__}\n")
        return 0
    import gc  # noqa: PLC0415 - --version needs none of these
    import signal  # noqa: PLC0415

    from gpuenv.cli import ahead  # noqa: PLC0415
    from gpuenv.interrupt import heed  # noqa: PLC0415

    gc.set_threshold(_COLLECT_AFTER)
    heed()
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it would leave no child's end to be told

    try:
        ahead.begin(arguments)
        from gpuenv.cli.front import run  # noqa: PLC0415 - --version needs none of this

        return run(arguments)
    finally:
        ahead.end()


def _end(code: int) -> None:
    """Ends the program; at once where a thread is left, which waits for a child that was ended or is beyond help.

    The interpreter would take itself apart beside that thread: one that then imports a module waits for a lock that is
    gone, and the process ends by SIGSEGV instead of the exit code (seen once in CI after a usage error, with CPython
    3.11, and not in 2400 repetitions).
    """
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        import os  # noqa: PLC0415 - is there

        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except OSError:  # its reader has gone
                continue
        os._exit(code)
    _leave_memory()
    sys.exit(code)


def _leave_memory() -> None:
    """At the end the system takes all memory back: the interpreter need not search what is left for garbage."""
    import gc  # noqa: PLC0415 - is there

    if hasattr(gc, "freeze"):  # CPython's
        gc.freeze()


def _without_output(error: OSError) -> int:
    """Standard output cannot be written: told on standard error, unless its reader has merely gone."""
    from gpuenv.cli.errors import drop_stdout  # noqa: PLC0415 - of use here alone

    drop_stdout()
    if isinstance(error, BrokenPipeError):
        return _OUTPUT_CLOSED
    sys.stderr.write(f"gpuenv: standard output cannot be written: {error.strerror}\n")
    return _USAGE


if __name__ == "__main__":
    main()
