"""Inputs with which fuzzing has found bugs."""

from __future__ import annotations

from typing import Any

import pytest

from gpuenv.model.codec import encode
from tests.cli.snapshots import FIT
from tests.fuzz.targets import TARGETS


def _machine(**parts: object) -> dict[str, Any]:
    return {**encode(FIT), **parts}


# Target, former bug, input.
REGRESSIONS: tuple[tuple[str, str, object], ...] = (
    ("requirement", "a unit separator was shown as a blank but stored unchanged", "name~=H10\x1fn"),
    ("nvidia-require", "more digits than Python converts to a number", "cuda>=" + "9" * 5000),
    ("image", "an empty platform crashed a rule", {"os": "", "rootfs": {}, "architecture": "amd64"}),
    ("smi", "a lone surrogate within XML", '<?xml version="1.0" ?>\n<nvidia_smi_log \udcb3>\n'),
    ("dockerfile", "a tag of python with an impossible version", "FROM python:3.1299999-slim\n"),
    ("dockerfile", "a FROM with an invalid image, checked for a machine", "FROM ub}ntu:24.04\nRUN pip install cupy\n"),
    ("yaml", "a lone surrogate raised an error other than YAML's", "a: \ud800\n"),
    (
        "snapshot",
        "libraries of a target without CuPy crashed a check",
        _machine(target={"libraries": [{"name": "cublas", "soname": "libcublas.so.12"}]}, sources=[]),
    ),
    (
        "snapshot",
        "header folders of a target without CuPy crashed a check",
        _machine(target={"headers": {"value": ["/usr/include"], "source": "x"}}, sources=[]),
    ),
    (
        "children",
        "a GPU with one memory size instead of two crashed assembly",
        {"NvmlFacts": 'gpuenv:{"gpu.0.index": 0}\ngpuenv:{"gpu.0.memory": [1]}\n'},
    ),
    (
        "children",
        "a device with a huge ordinal and an invalid UUID crashed assembly",
        {"CudaFacts": f'gpuenv:{{"device.0.ordinal": {10**30}}}\ngpuenv:{{"device.0.uuid": 5}}\n'},
    ),
    (
        "children",
        "the sum of retired pages exceeded the range of a field",
        {
            "NvmlFacts": 'gpuenv:{"gpu.0.index": 0}\n'
            f'gpuenv:{{"gpu.0.pages_single": {2**64}}}\ngpuenv:{{"gpu.0.pages_double": 7}}\n'
        },
    ),
)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, _, value in REGRESSIONS], ids=[bug for _, bug, _ in REGRESSIONS]
)
def test_a_bug_found_by_fuzzing_stays_fixed(name: str, value: object) -> None:
    TARGETS[name].check(value)
