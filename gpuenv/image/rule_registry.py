"""The registry of the rules of check-image: functions with a code, causes and a docstring, like the doctor's checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gpuenv.doctor.registry import DocumentedCheck, NotKnown, Symptom
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence

ImageSymptoms = Iterator[Symptom | NotKnown]
R = Callable[[Any], Iterator[Any]]
# Rules for an image of another platform or another kind of GPU; its other requirements do not matter on this machine.
OTHER_IMAGE = ("IMG901", "IMG906")
_MODULES = (
    *("inspect.rules_driver", "inspect.rules_gpu", "inspect.rules_variables"),
    *("dockerfile.rules", "dockerfile.rules_services"),
)


@dataclass(frozen=True, slots=True)
class Rule(DocumentedCheck):
    """A rule; ``follows`` are the codes of rules and doctor's checks whose errors explain its errors."""

    code: str
    causes: tuple[Cause, ...]
    run: R
    follows: tuple[str, ...] = ()


_RULES: dict[str, Rule] = {}


def rule(code: str, *causes: Cause, follows: tuple[str, ...] = ()) -> Callable[[R], R]:
    """Registers a rule; rules run in the order of ``_MODULES`` and of each file.

    Raises:
        ValueError: if the code is taken.
    """

    def register(function: R) -> R:
        if code in _RULES:
            raise ValueError(f"the code {code} is taken by {_RULES[code].run.__name__}")
        _RULES[code] = Rule(code, causes, function, follows)
        return function

    return register


def all_rules(family: str = "") -> tuple[Rule, ...]:
    """Every rule, or those of a family: IMG for an image on a machine, DKF for a Dockerfile, CMP for a service."""
    for module in _MODULES:
        import_module(f"gpuenv.image.{module}")
    return tuple(entry for entry in _RULES.values() if entry.code.startswith(family))


def image_evidence(name: str, value: str) -> Evidence:
    """Evidence from the image itself."""
    return Evidence(name, value or "(empty)", "the image")
