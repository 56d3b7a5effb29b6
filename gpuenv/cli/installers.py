"""The installer that the options select for a target: uv or pip for wheels, conda for its environments."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.options import InstallerName
from gpuenv.cli.sources import own_environment
from gpuenv.install.backends.base import InstallerOptions, TimeBudget
from gpuenv.install.conda_environment import is_conda
from gpuenv.install.conda_planner import CondaRun
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.installer_config import Installer, InstallerRun, select_conda, select_installer
from gpuenv.model.exit_codes import ExitCode
from gpuenv.probe.children import ChildGroup

if TYPE_CHECKING:
    from gpuenv.install.environment import Scheme

_CONDAS = (InstallerName.CONDA, InstallerName.MAMBA, InstallerName.MICROMAMBA)


class InstallerRequest(NamedTuple):
    """The options that select and restrict the installer."""

    installer: InstallerName
    offline: bool
    seconds: float  # time limit of the installer
    break_system_packages: bool = False  # allow changes to an externally managed Python
    find_links: str | None = None  # a folder that is the only source of wheels


def takes_conda(scheme: Scheme, request: InstallerRequest) -> bool:
    """Whether to install conda packages: in conda environments, unless uv or pip is named.

    Raises:
        TargetUnusable: when a conda installer is named for another kind of environment.
    """
    if is_conda(scheme.prefix):
        return request.installer not in (InstallerName.UV, InstallerName.PIP)
    if request.installer in _CONDAS:
        raise TargetUnusable(
            f"{scheme.prefix} is not a conda environment", "Leave --installer out, or name another target."
        )
    return False


def installer_for(scheme: Scheme, request: InstallerRequest) -> Installer:
    """The installer of wheels for a target.

    Raises:
        InstallError: when there is none.
        CommandError: when it is a conda installer.
    """
    if request.installer in _CONDAS:
        message = f"{request.installer.value} installs conda packages, and this needs wheels"
        raise CommandError(ExitCode.USAGE, message, "use uv or pip")
    return select_installer(request.installer.value, scheme, own_environment(), time.monotonic() + request.seconds)


def installer_run_for(scheme: Scheme, request: InstallerRequest, installer: Installer | None = None) -> InstallerRun:
    """The run of an installer of wheels with the user's settings; selects the installer by default.

    Raises:
        InstallError: when there is none.
        CommandError: when it is a conda installer.
    """
    options = InstallerOptions(scheme.executable, request.offline, request.find_links, request.break_system_packages)
    installer = installer or installer_for(scheme, request)
    return InstallerRun(installer, options, own_environment(), TimeBudget(request.seconds), ChildGroup())


def conda_run_for(scheme: Scheme, request: InstallerRequest) -> CondaRun:
    """The run of a conda installer with the user's settings.

    Raises:
        InstallError: when there is none.
    """
    variables = own_environment()
    tool = select_conda(request.installer.value, scheme.prefix, variables, time.monotonic() + request.seconds)
    return CondaRun(tool, variables, TimeBudget(request.seconds), ChildGroup(), request.offline)
