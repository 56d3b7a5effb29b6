"""The declarations of the payload's tests and its pure functions, without CuPy."""

from __future__ import annotations

import importlib
import re
from collections import Counter

import numpy as np
import pytest

from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.smoke.payload.cupy_device import FAULTS, empty_kernels
from gpuenv.smoke.payload.harness import (
    PACKAGE,
    differing_answers,
    missing_module,
    unmet_need,
    uuid_text,
)
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.tasks import GROUPS, PAYLOAD, SmokeOptions, all_tests, injectable_faults, select_tests
from tests.smoke.payload import NAMES, gpu_test

NEEDS = re.compile(r"gpus:\d|module:\w+|cupy:\d+|numpy:[\d.]+|capability:\d+\.\d")


@pytest.mark.parametrize("which", NAMES)
def test_each_test_declares_its_required_fields(which: str) -> None:
    test = gpu_test(which)
    assert which.partition(".")[0] in GROUPS
    assert 5 < len(test.TITLE) < 70
    assert len(test.TOLERANCE) > 4
    assert test.__doc__.endswith(".")
    assert set(test.LEVELS) <= {level.value for level in SmokeLevel}
    assert test.LEVELS
    assert all(NEEDS.fullmatch(need) for need in test.NEEDS)
    assert test.SHRINKS is None or all(isinstance(size[test.SHRINKS], int) for size in test.LEVELS.values())
    assert len({test.memory(size) > 0 for size in test.LEVELS.values()}) == 1


def test_the_catalogue_matches_the_classes() -> None:
    members = [kind for group in GROUPS for kind in vars(importlib.import_module(f"{PACKAGE}.{group}")).values()]
    tests = {kind for kind in members if isinstance(kind, type) and issubclass(kind, GpuTest) and kind.TITLE}
    assert tests == {type(gpu_test(name)) for name in NAMES}
    assert {path.stem for path in (PAYLOAD / "tests").glob("*.py")} == {*GROUPS, "__init__"}
    for test in all_tests():
        declared = gpu_test(test.name)
        assert (f"{PACKAGE}.{test.group}", test.title, test.sizes) == (
            declared.__module__,
            declared.TITLE,
            declared.LEVELS,
        )
        assert (test.tolerance, test.needs, test.seconds) == (
            declared.TOLERANCE,
            tuple(declared.NEEDS),
            declared.SECONDS,
        )
        assert test.alone == tuple(declared.ALONE)
        assert set(test.alone) <= {level.value for level in SmokeLevel}


def test_the_quick_level_has_one_test_per_group() -> None:
    quick = Counter(test.group for test in select_tests(SmokeOptions()))
    assert quick == dict.fromkeys(GROUPS, 1)


def test_a_deeper_level_includes_all_tests_of_a_lower_one() -> None:
    names = [{test.name for test in select_tests(SmokeOptions(level=level))} for level in SmokeLevel]
    assert names[0] < names[1] < names[2]
    assert len(names[2]) > 60


def test_no_test_of_the_quick_level_runs_alone() -> None:
    assert [test.name for test in select_tests(SmokeOptions()) if "quick" in test.alone] == []


def test_only_the_bodies_of_kernels_are_emptied() -> None:
    source = 'int f() { return 1; }\nextern "C" __global__ void k(int *x) { if (x) { *x = 1; } }\nint g;'
    assert empty_kernels(source) == 'int f() { return 1; }\nextern "C" __global__ void k(int *x) {}\nint g;'


@pytest.mark.parametrize("which", [which for which in NAMES if gpu_test(which).KERNELS])
def test_every_kernel_can_be_emptied(which: str) -> None:
    for source in gpu_test(which).KERNELS.values():
        count = source.count("__global__")
        assert count >= 1
        emptied = empty_kernels(source)
        assert len(re.findall(r"__global__[^{}]*\{\}", emptied)) == count
        assert emptied.count("{") == emptied.count("}")


def test_the_runner_knows_the_faults_of_the_payload() -> None:
    assert injectable_faults() == tuple(FAULTS)
    assert set(FAULTS) == {
        "no-order", "no-sync", "no-op-kernel", "flip-element", "illegal-access", "endless-kernel", "pool-limit",
    }  # fmt: skip


def test_an_unmet_need_is_reported_with_the_value_found() -> None:
    assert unmet_need(["cupy:14"], "14.0.0rc1", "9.0", 1, "2.5.2") is None
    assert unmet_need(["cupy:14"], "13.6.0", "9.0", 1, "2.5.2") == "needs CuPy >= 14; found: 13.6.0"
    assert unmet_need(["capability:8.0"], "14.2.0", "10.0", 1, "2.5.2") is None
    assert unmet_need(["capability:8.0"], "14.2.0", "7.5", 1, "2.5.2") == "needs compute capability >= 8.0; found: 7.5"
    assert unmet_need(["gpus:2"], "14.2.0", "7.5", 1, "2.5.2") == "needs visible GPUs >= 2; found: 1"
    assert unmet_need(["numpy:2.1.2"], "14.2.0", "9.0", 1, "2.1.2") is None
    assert unmet_need(["numpy:2.1.2"], "14.2.0", "9.0", 1, "2.1.1") == "needs NumPy >= 2.1.2; found: 2.1.1"
    assert missing_module(["module:json"]) is None
    trouble = missing_module(["module:no_such_module"])
    assert trouble is not None
    assert trouble.status == "skipped"


def test_a_uuid_is_printed_like_the_drivers() -> None:
    raw = bytes(range(16))
    assert uuid_text(raw) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert uuid_text(bytes(16)) is None
    assert uuid_text(b"") is None


def test_answers_are_compared_bit_by_bit() -> None:
    assert differing_answers({"x": np.array([0.0])}, {"x": np.array([-0.0])})
    assert not differing_answers({"x": np.array([np.nan])}, {"x": np.array([np.nan])})


def test_the_payload_has_only_python_files() -> None:
    assert {path.suffix for path in PAYLOAD.rglob("*") if path.is_file() and "__pycache__" not in path.parts} == {".py"}
