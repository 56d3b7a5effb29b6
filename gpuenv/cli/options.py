"""Options shared by several commands, and ``takes``, which passes all options of a command as one record."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from enum import Enum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Optional, TypeVar, get_type_hints

import typer

from gpuenv.cli import completion
from gpuenv.cli.command_errors import QUIET
from gpuenv.cli.output import REPORT_FORMATS
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.probe.interpreters import AS_ROOT
from gpuenv.probe.request import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, SHORTEST_TIMEOUT

TIMEOUT = DEFAULT_TIMEOUT  # seconds; default of --timeout


T = TypeVar("T")


def takes(record: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Makes a Typer command of a function of one record: each field of the named tuple is an option."""
    hints = get_type_hints(record, include_extras=True)
    defaults: dict[str, Any] = record._field_defaults  # type: ignore[attr-defined] # mypy has no name for named tuples
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, Parameter.empty), annotation=hints[name])
        for name in record._fields  # type: ignore[attr-defined]
    ]

    def decorate(function: Callable[[T], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:  # noqa: ANN401 - each option has its own type
            function(record(**values))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = hints
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that every command has, and ``--as-root`` to one that has a target.

    An option before the command (``gpuenv -q doctor``) is one of the command. ``--quiet`` and ``--as-root`` set a
    variable, which the children of the command inherit. No option takes ``nan``.
    """
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters)
    added = {"no_color": NoColor, "quiet": Quiet, **({"as_root": AsRoot} if "python" in own else {})}
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    for name, annotation in added.items():
        if name not in own:
            after = own.index("python") + 1 if name == "as_root" else len(parameters)
            parameters.insert(after, Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=annotation))
    parameters.append(Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context))

    def command(ctx: typer.Context, **values: Any) -> None:  # noqa: ANN401 - each option has its own type
        _refuse_nan(ctx, values)
        root = ctx.find_root()
        for option in root.command.params:
            if option.name is not None and root.params.get(option.name):
                if option.name not in values:
                    ctx.fail(f"No such option: {option.opts[0]}")
                values[option.name] = True
        for name, variable in (("quiet", QUIET), ("as_root", AS_ROOT)):
            if name in values:
                os.environ.pop(variable, None)
            if values.get(name):
                os.environ[variable] = "1"
        function(**{name: values[name] for name in own})

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


def _refuse_nan(ctx: typer.Context, values: Mapping[str, object]) -> None:
    """Refuses nan, which passes any minimum and maximum."""
    for option in ctx.command.params:
        value = values.get(option.name or "")
        if isinstance(value, float) and math.isnan(value):
            raise typer.BadParameter("nan is not a number.", ctx, option)


class Format(str, Enum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"


class InstallerName(str, Enum):
    """Installers of wheels and of conda packages."""

    AUTO = "auto"
    UV = "uv"
    PIP = "pip"
    CONDA = "conda"
    MAMBA = "mamba"
    MICROMAMBA = "micromamba"


class WheelsFrom(str, Enum):
    """Installers that resolve and download wheels for commands that install nothing."""

    AUTO = "auto"
    UV = "uv"
    PIP = "pip"

    @property
    def installer(self) -> InstallerName:
        """The same member of ``InstallerName``."""
        return InstallerName(self.value)


Python = Annotated[
    Optional[str],
    typer.Option(
        "--python",
        metavar="PATH",
        help="Target: an interpreter, a virtual environment or a conda prefix. Default: the active environment, else "
        "the interpreter on PATH.",
    ),
]
AsRoot = Annotated[
    bool,
    typer.Option("--as-root", envvar=AS_ROOT, help="As root, run the code of a target that another user can change."),
]
SnapshotFile = Annotated[
    Optional[Path],
    typer.Option("--snapshot", metavar="FILE", help="Use a recorded machine instead of this one."),
]
SnapshotFiles = Annotated[
    Optional[list[Path]],
    typer.Option("--snapshot", metavar="FILE", help="Use a recorded machine instead of this one. Repeatable."),
]
Assume = Annotated[
    Optional[list[str]],
    typer.Option(
        "--assume",
        metavar="KEY=VALUE",
        help="Assume a fact, such as driver=580.95.05 or gpu=H100. Repeatable.",
        autocompletion=completion.assumptions,
    ),
]
NoProbe = Annotated[bool, typer.Option("--no-probe", help="Do not probe this machine; start without facts.")]
Paste = Annotated[
    Optional[Path],
    typer.Option(
        "--paste",
        metavar="FILE",
        help="Use pasted output, such as that of nvidia-smi or pip list; - reads standard input.",
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
NoConfig = Annotated[bool, typer.Option("--no-config", help="Ignore configuration files.")]
STANDARD_OUTPUT = Path("-")
MatrixFile = Annotated[Optional[Path], typer.Option("--matrix", metavar="FILE", help="Compatibility matrix to use.")]
OutputFormat = Annotated[Format, typer.Option("--format", help="Output format.")]
Formats = Annotated[
    Optional[list[str]],
    typer.Option(
        "--format",
        metavar="FORMAT[=FILE]",
        help=f"{', '.join(REPORT_FORMATS[:-1])} or {REPORT_FORMATS[-1]}. Repeatable with files.",
        autocompletion=lambda: REPORT_FORMATS,
    ),
]
History = Annotated[
    Optional[Path],
    typer.Option("--history", metavar="DIR", help="Folder of earlier JSON reports, shown in the HTML page."),
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
Offline = Annotated[bool, typer.Option("--offline", help="No effect: this command never uses the network.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print no colours.")]
Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", envvar=QUIET, help="Print no progress on standard error, only warnings and errors."),
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Verbose output.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=SHORTEST_TIMEOUT,
        max=LONGEST_TIMEOUT,
        help="Time limit for probing the machine.",
    ),
]
Smoke = Annotated[
    Optional[SmokeLevel],
    typer.Option("--smoke", metavar="[LEVEL]", help="Also run GPU tests: quick (default), normal or deep."),
]
Deep = Annotated[
    bool, typer.Option("--deep", help="Also run slow checks: compare the digests of CuPy's and CUDA's installed files.")
]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact/--no-redact",
        help="Hide names, home folders, UUIDs and secrets in JSON and in files. On by default. Commands in JSON on "
        "standard output keep their paths.",
    ),
]
DriverRoot = Annotated[str, typer.Option("--driver-root", hidden=True, envvar="GPUENV_DRIVER_ROOT")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Accept the plan without a prompt.")]
Installer = Annotated[InstallerName, typer.Option("--installer", help="Installer to use.")]
WheelInstaller = Annotated[
    WheelsFrom, typer.Option("--installer", help="Installer that resolves and downloads the wheels.")
]
Kernel = Annotated[
    Optional[str],
    typer.Option(
        "--kernel", metavar="NAME", help="Target: the environment of a Jupyter kernel, by its name or kernelspec."
    ),
]
NetworkOffline = Annotated[bool, typer.Option("--offline", help="Do not use the network, only the installer's cache.")]
InstallTimeout = Annotated[
    float, typer.Option("--install-timeout", metavar="SECONDS", min=1, help="Time limit for the installer.")
]
INSTALL_TIMEOUT = 3600.0  # seconds
