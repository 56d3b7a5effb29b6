"""``gpuenv fleet``."""

from __future__ import annotations

import typer

from gpuenv.cli.commands.fleet_collect import collect
from gpuenv.cli.commands.fleet_node import node
from gpuenv.cli.options import with_as_root

app = typer.Typer(
    help="Examine many machines through the engine that runs them.", no_args_is_help=True, rich_markup_mode=None
)
app.command("node")(with_as_root(node))
app.command("collect")(collect)
