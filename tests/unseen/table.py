"""Machines and environments as users report them, each with its one true cause and cure, written down unseen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.scenarios.ground import PYTHON, Scenario, as_recorded, both, nothing
from tests.scenarios.spoiling import write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scenarios.ground import Change, Ground, Spoil


@dataclass(frozen=True, slots=True)
class Unseen:
    """A machine, and what is right to say of it.

    Attributes:
        scenario: the machine with its cause; an empty cause where nothing is wrong.
        first: words of the first two cures.
        unsaid: words that stand in no cure.
        named: words each of which stands in some cure of the cause.
        alone: further causes that are true as well.
    """

    scenario: Scenario
    first: str = ""
    unsaid: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scenario.cause or 'healthy'}: {self.scenario.name}"


def unseen(  # noqa: PLR0913 - a row of the table
    cause: str,
    name: str,
    base: str,
    change: Change = as_recorded,
    spoil: Spoil = nothing,
    *,
    first: str = "",
    unsaid: tuple[str, ...] = (),
    alone: tuple[str, ...] = (),
    named: tuple[str, ...] = (),
    error: bool = True,
    without_rights: bool = False,
    root: bool = False,
    assuming: tuple[str, ...] = PYTHON,
) -> Unseen:
    scenario = Scenario(
        cause,
        name,
        base,
        change,
        spoil,
        error=error and bool(cause),
        without_rights=without_rights,
        root=root,
        assuming=assuming,
    )
    return Unseen(scenario, first, unsaid, alone, named)


def placed(texts: Mapping[str, str]) -> Change:
    """Further files below the driver root, by path."""
    return lambda profile: replace(profile, files={**profile.files, **texts})


def given(**variables: str) -> Change:
    """Variables of the caller, which the stub driver sees as well."""
    return lambda profile: replace(profile, environment={**profile.environment, **variables})


def more_gpus(*names_and_fields: Mapping[str, Any]) -> Change:
    """Further GPUs, each as the first with other fields."""

    def change(profile: Any) -> Any:  # noqa: ANN401
        further = [replace(profile.gpus[0], **fields) for fields in names_and_fields]
        return replace(profile, gpus=(*profile.gpus, *further))

    return change


LXC = placed(
    {"run/systemd/container": "lxc\n", "proc/1/environ": "container=lxc\0", "proc/1/cgroup": "0::/init.scope\n"}
)
PODMAN = placed({"run/.containerenv": 'engine="podman-5.2.2"\nname="cupy"\n', "proc/1/cgroup": "0::/\n"})

__all__ = ["both", "write"]


def after(*steps: Spoil) -> Spoil:
    """One after the other."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        told: dict[str, str] = {}
        for step in steps:
            told |= step(ground)
        return told

    return spoil
