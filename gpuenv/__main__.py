"""The entry point: answers ``--version`` at once, leaves all else to the application."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command line and exits with its code."""
    if sys.argv[1:] == ["--version"]:
        from gpuenv import __version__  # noqa: PLC0415 - nothing else is needed

        sys.stdout.write(f"gpuenv {__version__}\n")
        return
    try:
        from gpuenv.cli.app import run  # noqa: PLC0415 - Typer costs more than all the rest of --version

        code = run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away; nothing more can be said there, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 141
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
