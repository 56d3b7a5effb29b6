"""``gpuenv doctor``."""

# Annotations are no texts here: Typer reads them at every start, and to make sense of texts takes twice as long.

from typing import Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.doctoring import Wanted, run_doctor


def doctor(
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    paste: options.Paste = None,
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks and end.")] = False,
    only: Annotated[
        Optional[list[str]], typer.Option(metavar="CODE", help="This check and those that it needs. Repeatable.")
    ] = None,
    skip: Annotated[Optional[list[str]], typer.Option(metavar="CODE", help="Leave a check out. Repeatable.")] = None,
    expect_no_gpu: Annotated[bool, typer.Option("--expect-no-gpu", help="No GPU is expected here.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what may be mended inside the target; the plan is shown first.")
    ] = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    config: options.ConfigFile = None,
    no_config: options.NoConfig = False,
    matrix: options.MatrixFile = None,
    formats: options.Formats = None,
    output: options.OutputFile = None,
    history: options.History = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Never use the network: for --fix, what the cache of uv holds.")
    ] = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    smoke: options.Smoke = None,
    deep: options.Deep = False,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Name the one true cause of what is broken, and its cure.

    The machine and the target environment are probed.

    Exit code: 0 fit, 1 unfit, 8 could not be told; with --fix, 2 consent is missing, 4 failed and the former state is
    back, 7 the target cannot be used.

    With -v, every check, and on standard error where the time went.
    """
    wanted = Wanted(
        python=python,
        snapshot=snapshot,
        assume=assume or (),
        no_probe=no_probe,
        paste=paste,
        list_checks=list_checks,
        only=only or (),
        skip=skip or (),
        expect_no_gpu=expect_no_gpu,
        fix=fix,
        yes=yes,
        dry_run=dry_run,
        config=config,
        no_config=no_config,
        matrix=matrix,
        formats=formats,
        output=output,
        history=history,
        offline=offline,
        no_color=no_color,
        verbose=verbose,
        timeout=timeout,
        smoke=smoke,
        deep=deep,
        redact=redact,
        driver_root=driver_root,
    )
    raise typer.Exit(run_doctor(wanted))
