"""A plan as text: the space that it needs."""

from __future__ import annotations

import pytest

from gpuenv.install.plan import Pin, Plan, PlannedCommand, Space, TargetEnvironment
from gpuenv.install.plan_text import plan_lines

GIB = 1024**3


def plan_text(space: Space) -> str:
    plan = Plan(
        target=TargetEnvironment("/v/bin/python", "/v", "/v/lib/python3.12/site-packages", "venv"),
        installer="uv 0.13.9",
        requirements=("cupy-cuda12x==14.2.0",),
        remove=(),
        leftovers=(),
        install=(Pin("cupy-cuda12x", "14.2.0", size=GIB),),
        moves=(),
        commands=(),
        undo=PlannedCommand("undo", ("gpuenv", "rollback")),
        space=space,
    )
    return "\n".join(line.text for line in plan_lines(plan))


@pytest.mark.parametrize(
    ("space", "expected", "insufficient"),
    [
        (
            Space(GIB, 10 * GIB, 3 * GIB),
            "1.0 GiB, minus cached files; unpacked at most about 3.0 GiB; free on the disk: 10.0 GiB",
            False,
        ),
        (Space(GIB, 2 * GIB, 3 * GIB), "free on the disk: 2.0 GiB", True),
        (Space(None, 2 * GIB), "the index reports no sizes; free on the disk: 2.0 GiB", False),
        (Space(GIB, None, 3 * GIB), "at most about 3.0 GiB", False),
    ],
)
def test_a_plan_shows_the_space_it_needs(space: Space, expected: str, *, insufficient: bool) -> None:
    text = plan_text(space)
    assert expected in text
    assert ("there may be too little space" in text) is insufficient
