"""What fuzzing has found, each input kept as it was."""

from __future__ import annotations

from typing import Any

import pytest

from gpuenv.model.codec import encode
from tests.cli.snapshots import FIT
from tests.fuzz.targets import TARGETS


def _machine(**parts: object) -> dict[str, Any]:
    return {**encode(FIT), **parts}


# Name of the target, what was wrong, the input.
FOUND: tuple[tuple[str, str, object], ...] = (
    ("requirement", "a separator of units was told as a blank and kept as itself", "name~=H10\x1fn"),
    ("nvidia-require", "more digits than Python makes a number of", "cuda>=" + "9" * 5000),
    ("image", "a platform that is none ended a rule", {"os": "", "rootfs": {}, "architecture": "amd64"}),
    ("smi", "half a character within XML", '<?xml version="1.0" ?>\n<nvidia_smi_log \udcb3>\n'),
    ("dockerfile", "a tag of python with a number that no release has", "FROM python:3.1299999-slim\n"),
    ("dockerfile", "a FROM that names no image, held against a machine", "FROM ub}ntu:24.04\nRUN pip install cupy\n"),
    ("yaml", "half a character ended the parser with an error that is not YAML's", "a: \ud800\n"),
    (
        "snapshot",
        "libraries of a target of which no CuPy is told crashed a check",
        _machine(target={"libraries": [{"name": "cublas", "soname": "libcublas.so.12"}]}, sources=[]),
    ),
    (
        "snapshot",
        "header folders of a target of which no CuPy is told crashed a check",
        _machine(target={"headers": {"value": ["/usr/include"], "source": "x"}}, sources=[]),
    ),
    (
        "children",
        "a GPU that tells one number of its memory ended the assembling",
        {"NvmlFacts": 'gpuenv:{"gpu.0.index": 0}\ngpuenv:{"gpu.0.memory": [1]}\n'},
    ),
    (
        "children",
        "a device whose number no machine counts to, with another fact that is none, ended the assembling",
        {"CudaFacts": f'gpuenv:{{"device.0.ordinal": {10**30}}}\ngpuenv:{{"device.0.uuid": 5}}\n'},
    ),
    (
        "children",
        "retired pages of two kinds came to more than a record holds",
        {
            "NvmlFacts": 'gpuenv:{"gpu.0.index": 0}\n'
            f'gpuenv:{{"gpu.0.pages_single": {2**64}}}\ngpuenv:{{"gpu.0.pages_double": 7}}\n'
        },
    ),
)


@pytest.mark.parametrize(
    ("name", "given"), [(name, given) for name, _, given in FOUND], ids=[why for _, why, _ in FOUND]
)
def test_what_was_found_stays_mended(name: str, given: object) -> None:
    TARGETS[name].check(given)
