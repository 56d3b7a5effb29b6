"""The options that several commands share, and how a command gets all of its options as one record."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Optional, TypeVar, get_type_hints

import typer

from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.probe.request import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, SHORTEST_TIMEOUT

TIMEOUT = DEFAULT_TIMEOUT  # seconds, of --timeout: how long the machine may take to answer


T = TypeVar("T")


def takes(record: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Lets Typer call a function of one record: each field of the named tuple is a parameter of the command."""
    hints = get_type_hints(record, include_extras=True)
    defaults: dict[str, Any] = record._field_defaults  # type: ignore[attr-defined] # mypy has no name for named tuples
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, Parameter.empty), annotation=hints[name])
        for name in record._fields  # type: ignore[attr-defined]
    ]

    def decorate(function: Callable[[T], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:  # noqa: ANN401 - each is of its own type
            function(record(**values))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = hints
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


class Format(str, Enum):
    """Forms of output."""

    TEXT = "text"
    JSON = "json"


class InstallerName(str, Enum):
    """What to install with."""

    AUTO = "auto"
    UV = "uv"
    PIP = "pip"
    CONDA = "conda"
    MAMBA = "mamba"
    MICROMAMBA = "micromamba"


class WheelsFrom(str, Enum):
    """What tells and downloads wheels where nothing is installed."""

    AUTO = "auto"
    UV = "uv"
    PIP = "pip"

    @property
    def installer(self) -> InstallerName:
        """The same where conda's are among them."""
        return InstallerName(self.value)


Python = Annotated[
    Optional[str],
    typer.Option(
        "--python",
        metavar="PATH",
        help="The target: an interpreter, a venv or a conda prefix. Default: the active one, else that on PATH.",
    ),
]
SnapshotFile = Annotated[
    Optional[Path],
    typer.Option("--snapshot", metavar="FILE", help="Decide for a recorded machine instead of this one."),
]
Assume = Annotated[
    Optional[list[str]],
    typer.Option(
        "--assume", metavar="KEY=VALUE", help="Replace one fact, such as driver=580.95.05 or gpu=H100. Repeatable."
    ),
]
NoProbe = Annotated[bool, typer.Option("--no-probe", help="Ask nothing of this machine; start from nothing.")]
Paste = Annotated[
    Optional[Path],
    typer.Option(
        "--paste",
        metavar="FILE",
        help="Decide for what somebody pasted, such as the output of nvidia-smi and pip list; - reads standard input.",
    ),
]
ConfigFile = Annotated[
    Optional[Path],
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration in TOML. Default: the nearest gpuenv.toml, or pyproject.toml with [tool.gpuenv].",
    ),
]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Read no configuration file.")]
STANDARD_OUTPUT = Path("-")
MatrixFile = Annotated[Optional[Path], typer.Option("--matrix", metavar="FILE", help="Another compatibility matrix.")]
OutputFormat = Annotated[Format, typer.Option("--format", help="Form of the output.")]
Formats = Annotated[
    Optional[list[str]],
    typer.Option(
        "--format",
        metavar="FORMAT[=FILE]",
        help="text, json, junit, github, gitlab, sarif, prometheus, markdown or html. Repeatable with files.",
    ),
]
History = Annotated[
    Optional[Path],
    typer.Option("--history", metavar="DIR", help="Reports of earlier runs in JSON, for the page in HTML."),
]
OutputFile = Annotated[
    Optional[Path],
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write the result to a file; - is standard output.",
        callback=lambda path: None if path == STANDARD_OUTPUT else path,
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network. This command never does.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say more.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=SHORTEST_TIMEOUT,
        max=LONGEST_TIMEOUT,
        help="How long the machine may take to answer.",
    ),
]
Smoke = Annotated[
    Optional[SmokeLevel],
    typer.Option("--smoke", metavar="[LEVEL]", help="Also prove it on the GPU: quick (if not said), normal or deep."),
]
Deep = Annotated[
    bool, typer.Option("--deep", help="Also what takes long: compare the digests of CuPy's and CUDA's installed files.")
]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact/--no-redact", help="Hide names, home folders, UUIDs and secrets in JSON and in files. On by default."
    ),
]
DriverRoot = Annotated[str, typer.Option("--driver-root", hidden=True, envvar="GPUENV_DRIVER_ROOT")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Agree to the plan beforehand.")]
Installer = Annotated[InstallerName, typer.Option("--installer", help="What to install with.")]
WheelInstaller = Annotated[WheelsFrom, typer.Option("--installer", help="What to ask for the wheels.")]
Kernel = Annotated[
    Optional[str],
    typer.Option(
        "--kernel", metavar="NAME", help="The target: the environment of a Jupyter kernel, by its name or kernelspec."
    ),
]
NetworkOffline = Annotated[
    bool, typer.Option("--offline", help="Use no network: what the cache of the installer holds.")
]
InstallTimeout = Annotated[
    float, typer.Option("--install-timeout", metavar="SECONDS", min=1, help="How long the installer may take.")
]
INSTALL_TIMEOUT = 3600.0  # seconds
