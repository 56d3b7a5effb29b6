"""``gpuenv install`` into a conda environment, with conda's own packages."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

from gpuenv.cli.changing.choices import CONDAS, Means
from gpuenv.cli.changing.gpu_proof import gpu_proof
from gpuenv.cli.changing.transaction import Doctor, Examined
from gpuenv.cli.clock import now
from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.options import InstallerName
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.changing.transaction import Planned, Way
    from gpuenv.install.conda_planning import CondaPrepared
    from gpuenv.install.environment import Scheme
    from gpuenv.install.journal import Store
    from gpuenv.install.records import Outcome
    from gpuenv.install.timing import Clock
    from gpuenv.model.resolution import Resolution


def takes_conda(scheme: Scheme, means: Means) -> bool:
    """Whether conda packages are to be installed: into conda's environments, where no installer of wheels is named.

    Raises:
        TargetUnusable: when one of conda's programs is named for another kind of environment.
    """
    from gpuenv.install.conda_prefix import is_conda
    from gpuenv.install.errors import TargetUnusable

    if is_conda(scheme.prefix):
        return means.installer not in (InstallerName.UV, InstallerName.PIP)
    if means.installer in CONDAS:
        raise TargetUnusable(
            f"{scheme.prefix} is no conda environment", "Leave --installer out, or name another target."
        )
    return False


def plan_conda(scheme: Scheme, resolution: Resolution, means: Means) -> CondaPrepared:
    """What installing the resolver's conda specifications would do; nothing is changed.

    Raises:
        InstallError: when there can be no plan.
        CommandError: when nothing fits.
    """
    from gpuenv.install.choose import choose_conda
    from gpuenv.install.conda_planning import CondaCaller, prepare_conda, refuse_pixi
    from gpuenv.install.timing import Patience
    from gpuenv.probe.children import ChildGroup

    choice = resolution.conda
    if choice is None:
        raise CommandError(
            ExitCode.NOTHING_FITS,
            "no conda package fits: nothing was changed\n" + resolution.explanation,
            "Wheels may: gpuenv install --installer uv (or pip), in an environment without conda's CUDA.",
        )
    refuse_pixi(scheme.prefix, choice)
    tool = choose_conda(means.installer.value, scheme.prefix, os.environ, time.monotonic() + means.seconds)
    caller = CondaCaller(tool, dict(os.environ), Patience(means.seconds), ChildGroup(), means.offline)
    return prepare_conda(scheme, caller, choice)


def by_conda(scheme: Scheme, examined: Examined, means: Means) -> Way:
    """The way of conda packages."""

    def way() -> Planned:
        doctor = Doctor(examined, libraries_elsewhere=False)
        found = plan_conda(scheme, examined.resolution, means)
        return found.plan, partial(_run, found, examined, doctor)

    return way


def _run(prepared: CondaPrepared, examined: Examined, doctor: Doctor, store: Store, clock: Clock) -> Outcome:
    """Lets conda carry the plan out and proves it; whatever goes wrong, the former packages come back."""
    from gpuenv.install.conda_executing import CondaWork, execute_conda
    from gpuenv.install.proving import Child
    from gpuenv.probe.children import ChildGroup

    seconds = max(60.0, examined.subject.timeout)
    work = CondaWork(
        prepared=prepared,
        store=store,
        child=Child(prepared.scheme.executable, dict(os.environ), seconds, ChildGroup()),
        doctor=(doctor.before(), doctor.again),
        announce=announce,
        created_at=now(),
        more=(partial(gpu_proof, examined, prepared.scheme.executable),),
        clock=clock,
    )
    return execute_conda(work)
