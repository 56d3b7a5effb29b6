"""``gpuenv fleet``."""

from __future__ import annotations

import typer

from gpuenv.cli.commands.fleet_collect import collect
from gpuenv.cli.commands.fleet_node import node
from gpuenv.cli.commands.fleet_report import diff, drain, report, resolve
from gpuenv.cli.options import with_common_options

app = typer.Typer(
    help="Examine many machines through Slurm, Kubernetes, Dask or SSH.", no_args_is_help=True, rich_markup_mode=None
)
app.command("node")(with_common_options(node))
app.command("collect")(with_common_options(collect))
app.command("report")(with_common_options(report))
app.command("resolve")(with_common_options(resolve))
app.command("diff")(with_common_options(diff))
app.command("drain")(with_common_options(drain))
