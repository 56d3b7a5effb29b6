"""Locks for another machine, recorded or assumed, by its Python and platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

from gpuenv.install.backends.uv import Uv
from gpuenv.install.change_scope import change_scope, frozen
from gpuenv.install.exceptions import InstallError, TargetUnusable
from gpuenv.install.installer_config import InstallerRun
from gpuenv.install.planner import ScopedOffer, solve_first
from gpuenv.install.solver import Lock, make_lock, nothing_fits
from gpuenv.matrix.offers import Offer
from gpuenv.matrix.ranges import is_version
from gpuenv.model.dependencies import Package
from gpuenv.model.snapshot import Snapshot

# The platforms that uv 0.13 knows by name (uv pip compile --help, --python-platform): the glibc minors among them.
_UV_MINORS = (17, 28, *range(31, 41))
_OLDEST_MINOR = 5  # manylinux1 (PEP 513)
_WITHOUT_A_PACKAGE = "To lock without a package of the recorded environment: --assume package.NAME=none"
_EXAMPLES = {"target.python": "python=3.12", "host.arch": "arch=x86_64", "host.libc": "libc=glibc-2.36"}


@dataclass(frozen=True, slots=True)
class TargetPlatform:
    """The platform of the wheels."""

    python: str  # such as ``3.12``
    arch: str  # ``x86_64`` or ``aarch64``
    glibc: int  # minor version of glibc 2

    @property
    def platform(self) -> str:
        """The name in a bundle's manifest."""
        return f"linux-{self.arch}"

    @property
    def uv_platform(self) -> str:
        """The name in uv of the newest platform whose wheels fit this one."""
        minor = max((entry for entry in _UV_MINORS if entry <= self.glibc), default=_UV_MINORS[0])
        return f"{self.arch}-manylinux_2_{minor}"

    @property
    def uv_options(self) -> tuple[str, ...]:
        """Options of uv that select it."""
        return (f"--python-version={self.python}", f"--python-platform={self.uv_platform}")

    @property
    def pip_options(self) -> tuple[str, ...]:
        """Options of pip that select it (its documentation, "pip download"): every tag, since none implies another."""
        tag = f"cp{self.python.replace('.', '')}"
        minors = range(self.glibc, _OLDEST_MINOR - 1, -1)
        names = [f"manylinux_2_{minor}" for minor in minors] + ["manylinux2014", "manylinux2010", "manylinux1", "linux"]
        return (
            *(f"--platform={name}_{self.arch}" for name in names),
            *(f"--abi={abi}" for abi in (tag, "abi3", "none")),
            f"--python-version={self.python}",
            "--implementation=cp",
        )


def platform_of(snapshot: Snapshot) -> TargetPlatform:
    """The platform of another machine.

    Raises:
        TargetUnusable: when it is unknown, or no wheel can be collected for it.
    """
    python, system, arch, libc = (
        snapshot.target.python.value,
        snapshot.host.os.value,
        snapshot.host.arch.value,
        snapshot.host.libc.value,
    )
    if system not in (None, "linux") or (libc is not None and libc.family != "glibc"):
        found = " with ".join(str(part) for part in (system or "linux", libc) if part is not None)
        raise TargetUnusable(
            f"gpuenv collects wheels for Linux with glibc alone, and the machine has {found}",
            "Run gpuenv bundle on a machine like it.",
        )
    unknown = [
        name for name, value in (("target.python", python), ("host.arch", arch), ("host.libc", libc)) if not value
    ]
    if unknown or python is None or arch is None or libc is None:
        options = " ".join(f"--assume {_EXAMPLES[name]}" for name in unknown)
        raise TargetUnusable(f"unknown for the machine: {', '.join(unknown)}", f"Pass what it has, such as: {options}")
    if python.free_threaded:
        raise TargetUnusable(
            f"uv resolves for no free-threaded Python but its own, and the machine has {python}",
            "Run gpuenv bundle on a machine like it.",
        )
    return TargetPlatform(f"{python.major}.{python.minor}", arch, libc.minor)


def _may_be_in_an_index(release: str) -> bool:
    """Whether an index may have a version: none has a local one (``2.6.0+cu124``), or another text."""
    return is_version(release) and Version(release).local is None


def lock_for_platform(installer_run: InstallerRun, snapshot: Snapshot, offers: Sequence[Offer]) -> Lock:
    """Locks the first of these offers that fits a recorded machine with its known packages.

    Raises:
        InstallError: when it fails.
    """
    if not isinstance(installer_run.installer, Uv):
        raise InstallError(
            "only uv can make a lock for another machine", "Install uv: pipx install uv, or python -m pip install uv"
        )
    releases = {
        **snapshot.target.packages,
        **({"numpy": snapshot.target.numpy.value} if snapshot.target.numpy.value else {}),
    }
    packages = [Package(name, release) for name, release in releases.items() if _may_be_in_an_index(release)]
    scoped = [ScopedOffer(offer, change_scope(offer.requirements, packages, {})) for offer in offers]

    def pinned(entry: ScopedOffer) -> tuple[Lock | None, str]:
        return make_lock(installer_run, entry.offer.requirements, frozen(entry.scope, packages, {}))

    chosen, lock, why = solve_first(installer_run, scoped, (pinned,), packages)
    if lock is None:
        raise nothing_fits(
            why, chosen.offer.requirements, chosen.scope.stay, installer_run, without_them=_WITHOUT_A_PACKAGE
        )
    return lock
