"""``gpuenv fleet``."""

from __future__ import annotations

import typer

from gpuenv.cli.commands.fleet_collect import collect
from gpuenv.cli.commands.fleet_diff import diff
from gpuenv.cli.commands.fleet_drain import drain
from gpuenv.cli.commands.fleet_node import node
from gpuenv.cli.commands.fleet_report import report
from gpuenv.cli.commands.fleet_resolve import resolve
from gpuenv.cli.options import with_as_root

app = typer.Typer(
    help="Examine many machines through the engine that runs them.", no_args_is_help=True, rich_markup_mode=None
)
app.command("node")(with_as_root(node))
app.command("collect")(collect)
app.command("report")(report)
app.command("resolve")(resolve)
app.command("diff")(diff)
app.command("drain")(drain)
