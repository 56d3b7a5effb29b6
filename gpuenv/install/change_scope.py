"""What an install may remove and change, and constraints that keep the rest of the target as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuenv.install.environment import Inventory
from gpuenv.install.plan import Reason
from gpuenv.model.cupy import cuda_major, is_cupy
from gpuenv.model.dependencies import Dependency, Package, dependencies_of, needed, required_name
from gpuenv.model.nvidia import cuda_major_of_wheel


class ChangeScope(NamedTuple):
    """What to remove and what may change, before any resolver runs."""

    remove: Mapping[str, Reason]
    refresh: tuple[str, ...]  # to reinstall although the version is right
    named: frozenset[str]  # in the requirements
    free: frozenset[str]  # may change without consent: CUDA wheels that only CuPy needs
    stay: tuple[str, ...]  # CUDA wheels of another major version that other packages need


def change_scope(
    requirements: Sequence[str], packages: Sequence[Package], markers: Mapping[str, str], damaged: Sequence[str] = ()
) -> ChangeScope:
    """The scope of the change for these requirements, which include CuPy's line.

    ``damaged`` are packages with missing or changed files.
    """
    named = frozenset(name for name in map(required_name, requirements) if name)
    cupy = next((name for name in named if is_cupy(name)), None)
    rivals = [entry.name for entry in packages if is_cupy(entry.name) and entry.name != cupy] if cupy else []
    rest = [entry for entry in packages if entry.name not in rivals and entry.name != cupy]
    cuda = {entry.name: cuda_major_of_wheel(entry.name, entry.release) for entry in rest}
    wheels = [name for name, major in cuda.items() if major is not None]
    wanted = needed(wheels, rest, markers)
    major = cuda_major(cupy) if cupy else None
    others = [name for name in wheels if cuda[name] != major and major is not None and name not in named]
    remove = dict.fromkeys(rivals, Reason.OTHER_LINE)
    remove.update({name: Reason.STRAY_CUDA for name in others if name not in wanted})
    is_installed = cupy in {entry.name for entry in packages}
    return ChangeScope(
        remove=remove,
        refresh=(cupy,) if cupy and is_installed and (rivals or cupy in damaged) else (),
        named=named,
        free=frozenset(name for name in wheels if name not in wanted),
        stay=tuple(name for name in others if name in wanted),
    )


def frozen(
    scope: ChangeScope, packages: Sequence[Package], markers: Mapping[str, str], *, pin_free: bool = False
) -> tuple[str, ...]:
    """Constraints that pin all but free packages (with ``pin_free`` those too) and keep their needs met."""
    moving = {*scope.remove, *scope.named, *(() if pin_free else scope.free)}
    pins = tuple(f"{entry.name}=={entry.release}" for entry in packages if entry.name not in moving)
    staying = [entry for entry in packages if entry.name not in scope.remove and not is_cupy(entry.name)]
    needs = (want for want in dependencies_of(staying, markers) if want.specifier and want.by not in moving)
    return (*pins, *sorted({f"{want.name}{want.specifier}" for want in needs if want.name in moving}))


def kept_dependencies(scope: ChangeScope, inventory: Inventory) -> tuple[Dependency, ...]:
    """The versioned dependencies of all packages that stay."""
    rest = [entry for entry in inventory.visible if entry.name not in scope.remove and not is_cupy(entry.name)]
    moving = {*scope.free, *scope.named}
    return tuple(
        want for want in dependencies_of(rest, inventory.scheme.markers) if want.specifier and want.by not in moving
    )


def kept_working(scope: ChangeScope, inventory: Inventory) -> tuple[str, ...]:
    """Constraints that keep the dependencies of all packages that stay met. Tried second."""
    return tuple(sorted({f"{want.name}{want.specifier}" for want in kept_dependencies(scope, inventory)}))
