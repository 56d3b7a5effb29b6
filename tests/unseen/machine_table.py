"""Held-out machines and environments: what users report, with the cause and the fix of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.scenarios.scenario import PYTHON, Scenario, no_setup, unchanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scenarios.scenario import Change, Setup, Workspace


@dataclass(frozen=True, slots=True)
class UnseenMachine:
    """A machine and its expected findings.

    Attributes:
        scenario: the machine with its cause; an empty cause if it is healthy.
        first_fix: words of the first two fixes.
        excluded: words that appear in no fix.
        included: words that must appear in the fixes of the cause.
        independent: further causes that follow from no other.
    """

    scenario: Scenario
    first_fix: str = ""
    excluded: tuple[str, ...] = ()
    independent: tuple[str, ...] = ()
    included: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scenario.cause or 'healthy'}: {self.scenario.name}"


def case(  # noqa: PLR0913 - a row of the table
    cause: str,
    name: str,
    base: str,
    change: Change = unchanged,
    setup: Setup = no_setup,
    *,
    first_fix: str = "",
    excluded: tuple[str, ...] = (),
    independent: tuple[str, ...] = (),
    included: tuple[str, ...] = (),
    error: bool = True,
    unprivileged: bool = False,
    needs_root: bool = False,
    assumptions: tuple[str, ...] = PYTHON,
) -> UnseenMachine:
    scenario = Scenario(
        cause,
        name,
        base,
        change,
        setup,
        error=error and bool(cause),
        unprivileged=unprivileged,
        needs_root=needs_root,
        assumptions=assumptions,
    )
    return UnseenMachine(scenario, first_fix, excluded, independent, included)


def with_files(texts: Mapping[str, str]) -> Change:
    """Adds files below the driver root, by path."""
    return lambda profile: replace(profile, files={**profile.files, **texts})


def with_variables(**variables: str) -> Change:
    """Sets environment variables of the program and of the stub driver."""
    return lambda profile: replace(profile, environment={**profile.environment, **variables})


def more_gpus(*fields_of_gpus: Mapping[str, Any]) -> Change:
    """Adds GPUs, each a copy of the first with other fields."""

    def change(profile: Any) -> Any:  # noqa: ANN401
        further = [replace(profile.gpus[0], **fields) for fields in fields_of_gpus]
        return replace(profile, gpus=(*profile.gpus, *further))

    return change


LXC = with_files(
    {"run/systemd/container": "lxc\n", "proc/1/environ": "container=lxc\0", "proc/1/cgroup": "0::/init.scope\n"}
)
PODMAN = with_files({"run/.containerenv": 'engine="podman-5.2.2"\nname="cupy"\n', "proc/1/cgroup": "0::/\n"})


def in_sequence(*steps: Setup) -> Setup:
    """Runs setups in this order."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        result: dict[str, str] = {}
        for step in steps:
            result |= step(workspace)
        return result

    return setup
