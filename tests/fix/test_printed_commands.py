"""The commands that a report prints for an environment, typed into a shell, make it fit."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.environments.cases import BuiltEnvironment, EnvironmentCase
from tests.environments.test_environments import CASES as ENVIRONMENTS
from tests.environments.test_environments import Session
from tests.fix.test_fix import BROKEN, Broken
from tests.fix.typed_commands import type_commands
from tests.probe.pythons import python

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

NEW_ENVIRONMENT = "cupy-env"


def as_environment(name: str, broken: Broken) -> EnvironmentCase:
    def build(sandbox: Sandbox) -> BuiltEnvironment:
        target = sandbox.target("broken", *broken.packages)
        broken.damage(target)
        return BuiltEnvironment(target)

    return EnvironmentCase(name, build, broken.code, machine=broken.machine)


CASES = [as_environment(name, broken) for name, broken in BROKEN.items()]
CASES += [case for case in ENVIRONMENTS if case.cause and case.error]
# What these need is not here: conda, pixi, another machine, or the name of another environment.
ELSEWHERE = (
    "pip's CuPy over conda's",
    "a pixi project without CuPy",
    "a pixi project with a wrong line from PyPI",
    "a Python of 32 bits",
    "a variable with the former name of a renamed environment",
)
# The environment used a NumPy from there, too.
FOLLOWED_BY_ANOTHER = ("another line in the system's Python below",)


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in CASES if case.name not in ELSEWHERE], ids=str)
def test_the_printed_commands_make_the_environment_fit(sandbox: Sandbox, case: EnvironmentCase) -> None:
    session = Session(sandbox, case)
    folder = session.built.folder or sandbox.folder
    programs = f"{Path(sys.executable).parent}:{python('3.12').parent}:{os.defpath}"
    environment = sandbox.environment(**session.built.variables, PATH=programs)
    _, report, _ = session.report()
    shown = ""
    for _ in range(1 + (case.name in FOLLOWED_BY_ANOTHER)):
        first = report["findings"][0]["code"]
        seen, variables = type_commands(report, environment, folder, ("--yes", *case.machine))
        session.built = replace(session.built, variables=variables)
        if (folder / NEW_ENVIRONMENT).exists():
            session.built = BuiltEnvironment(folder / NEW_ENVIRONMENT)
        _, report, _ = session.report()
        titles = (f"{entry['code']} {entry['title']}" for entry in report["findings"])
        shown = "\n".join((shown, seen, *titles))
        assert first not in {entry["code"] for entry in report["findings"]}, shown
    assert report["status"] in ("fit", "degraded"), shown
