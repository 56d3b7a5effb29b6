"""The scheduler's line about all nodes decides the order of causes."""

from __future__ import annotations

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.scan import scan

TOOLKIT, BUSY, UNMET = "container-toolkit-broken", "gpu-busy", "requirement-not-met"
LACKING = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
# As kubectl describe node has them, of a node with two GPUs.
ALLOCATABLE = "Allocatable:\n  cpu:                8\n  nvidia.com/gpu:     2\n"
ALLOCATED = "  Resource           Requests    Limits\n  nvidia.com/gpu     2           2\n"
FULL = (
    "0/7 nodes are available: 2 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
    "5 Insufficient nvidia.com/gpu. preemption: 0/7 nodes are available: 2 Preemption is not helpful for "
    "scheduling, 5 No preemption victims found for incoming pod."
)
SELECTED = (
    "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) didn't match Pod's node affinity/selector."
)
TAINTED = (
    "0/4 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: present}, 2 Insufficient nvidia.com/gpu"
)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        (LACKING, [TOOLKIT, BUSY]),
        (
            f"{LACKING} preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            [TOOLKIT, BUSY],
        ),
        (FULL, [BUSY, TOOLKIT]),
        (SELECTED, [BUSY, TOOLKIT]),
        (TAINTED, [UNMET, BUSY, TOOLKIT]),
        (f"{LACKING}\n{ALLOCATABLE}", [BUSY, TOOLKIT]),
        (f"{LACKING}\n{ALLOCATED}", [BUSY, TOOLKIT]),
        (f"{LACKING}\n    Limits:\n      nvidia.com/gpu:  1\n", [TOOLKIT, BUSY]),
    ],
)
def test_the_scheduler_line_decides_the_order_of_causes(text: str, order: list[str]) -> None:
    result = explanation(scan(text.encode()))
    assert [entry.cause.value for entry in result.causes] == order
