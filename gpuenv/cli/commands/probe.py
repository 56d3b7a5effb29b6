"""``gpuenv probe``."""

from __future__ import annotations

from gpuenv.cli import options
from gpuenv.cli.sources import MachineSource, get_snapshot


def probe(
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    deep: options.Deep = False,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Print the raw facts, each with its source.

    -o writes a snapshot, which --snapshot reads on any machine.

    With -v, timings on standard error.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.output import Output, show_phases
    from gpuenv.report.snapshot_text import fact_lines

    facts = get_snapshot(MachineSource(python, snapshot, assume or (), no_probe, timeout, driver_root, deep=deep), None)
    as_json = output_format is options.Format.JSON or output is not None
    Output(output, as_json, not no_color, redact).emit(facts, lambda: fact_lines(facts))
    if verbose:
        show_phases(facts)
