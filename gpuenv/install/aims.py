"""What has to leave a target for a wheel to work there, and what has to stay as it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuenv.install.records import Reason
from gpuenv.install.wants import Package, Want, needed, required_name, wants
from gpuenv.model.cuda_wheels import cuda_major_of_wheel
from gpuenv.model.lines import cuda_major, is_cupy


@dataclass(frozen=True, slots=True)
class Aims:
    """Before any resolver is asked.

    Attributes:
        remove: what leaves, with the reason.
        refresh: what is put in again although it is there in the right version.
        asked: the names in the requirements.
        free: the packages that may move without consent: CuPy's own CUDA wheels, which nothing else needs.
        stay: the CUDA wheels of another major that something else needs.
    """

    remove: Mapping[str, Reason]
    refresh: tuple[str, ...]
    asked: frozenset[str]
    free: frozenset[str]
    stay: tuple[str, ...]


def aims(
    requirements: Sequence[str], packages: Sequence[Package], markers: Mapping[str, str], damaged: Sequence[str] = ()
) -> Aims:
    """What leaves and what stays for these requirements.

    Args:
        requirements: what is to be installed, CuPy's line among them.
        packages: what is there.
        markers: the target's environment markers.
        damaged: the packages there whose files are not as they were installed.
    """
    asked = frozenset(name for name in map(required_name, requirements) if name)
    cupy = next((name for name in asked if is_cupy(name)), None)
    rivals = [entry.name for entry in packages if is_cupy(entry.name) and entry.name != cupy] if cupy else []
    rest = [entry for entry in packages if entry.name not in rivals and entry.name != cupy]
    cuda = {entry.name: cuda_major_of_wheel(entry.name, entry.release) for entry in rest}
    wheels = [name for name, major in cuda.items() if major is not None]
    wanted = needed(wheels, rest, markers)
    major = cuda_major(cupy) if cupy else None
    others = [name for name in wheels if cuda[name] != major and major is not None and name not in asked]
    remove = dict.fromkeys(rivals, Reason.OTHER_LINE)
    remove.update({name: Reason.STRAY_CUDA for name in others if name not in wanted})
    there = {entry.name for entry in packages}
    refresh = {cupy} if cupy in there and (rivals or cupy in damaged) else set()
    return Aims(
        remove=remove,
        refresh=tuple(sorted(name for name in refresh if name)),
        asked=asked,
        free=frozenset(name for name in wheels if name not in wanted),
        stay=tuple(name for name in others if name in wanted),
    )


def unneeded(packages: Sequence[Package], markers: Mapping[str, str]) -> frozenset[str]:
    """The CUDA wheels that nothing but a CuPy needs: they go where they do not fit, and bind no choice of a line."""
    rest = [entry for entry in packages if not is_cupy(entry.name)]
    wheels = [entry.name for entry in rest if cuda_major_of_wheel(entry.name, entry.release) is not None]
    return frozenset(wheels) - frozenset(needed(wheels, rest, markers))


def frozen(plan: Aims, packages: Sequence[Package], *, free_too: bool = False) -> tuple[str, ...]:
    """Constraints that let nothing move but what is free to; with ``free_too`` not even that: the first to try."""
    moving = {*plan.remove, *plan.asked, *(() if free_too else plan.free)}
    fixed = [entry for entry in packages if entry.name not in moving]
    return tuple(f"{entry.name}=={entry.release}" for entry in fixed)


def kept_working(plan: Aims, packages: Sequence[Package], markers: Mapping[str, str]) -> tuple[str, ...]:
    """Constraints under which everything that stays has what it needs: the second thing to try."""
    return tuple(sorted({f"{want.name}{want.specifier}" for want in kept_wants(plan, packages, markers)}))


def kept_wants(plan: Aims, packages: Sequence[Package], markers: Mapping[str, str]) -> tuple[Want, ...]:
    """What everything that stays needs in certain versions."""
    rest = [entry for entry in packages if entry.name not in plan.remove and not is_cupy(entry.name)]
    moving = {*plan.free, *plan.asked}
    return tuple(want for want in wants(rest, markers) if want.specifier and want.by not in moving)
