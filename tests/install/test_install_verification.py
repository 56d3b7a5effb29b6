"""The verification of an install by imports and GPU tests."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuenv.cli.install_verification import smoke_verification
from gpuenv.install.verify import ImportSettings, import_in_child
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.smoke import TestStatus, Trouble
from gpuenv.probe.children import ChildGroup
from tests.report.sample_reports import PASSED, WRONG, smoke
from tests.support.planted_secrets import LONG_URL, shown_parts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("module", ["framework", "sitecustomize"])
def test_the_error_of_an_import_is_not_cut_within_a_secret(tmp_path: Path, module: str) -> None:
    text = f"cannot open {LONG_URL.line}"
    source = (
        "raise ImportError(text)" if module == "framework" else "import os; os.write(2, text.encode()); os._exit(1)"
    )
    (tmp_path / f"{module}.py").write_text(f"text = {text!r}\n{source}\n", encoding="utf-8")
    environment = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path)}
    result = import_in_child(ImportSettings(sys.executable, environment, 20.0, ChildGroup()), "framework")
    assert not result.works
    assert "cannot open" in result.detail
    assert shown_parts(LONG_URL, hide_secrets(result.detail)) == []


def test_identical_messages_of_several_tests_are_shown_once() -> None:
    verification = smoke_verification(smoke(PASSED, *(replace(WRONG, name=f"blas.test{n}") for n in range(5))))
    assert verification.passed is False
    assert verification.detail.startswith("5 tests failed on ")
    assert verification.detail.endswith("blas.test0, blas.test1, blas.test2 and 2 more: sum: 1 of 1 wrong")


def test_only_the_first_different_messages_are_shown() -> None:
    verification = smoke_verification(
        smoke(*(replace(WRONG, name=f"blas.test{n}", detail=f"wrong {n}") for n in range(5)))
    )
    assert verification.detail.endswith(
        ": blas.test0: wrong 0; blas.test1: wrong 1; blas.test2: wrong 2; and 2 other messages"
    )


def test_an_injected_fault_is_named() -> None:
    assert "(no-order was planted on purpose)" in smoke_verification(smoke(WRONG)._replace(fault="no-order")).detail


def test_a_busy_gpu_does_not_fail_the_install() -> None:
    busy = replace(WRONG, status=TestStatus.BUSY, trouble=Trouble.MEMORY_HELD_BY_OTHERS, detail="needs 2.0 GiB")
    verification = smoke_verification(smoke(PASSED, busy))
    assert verification.passed is None
    assert verification.detail == "1 test passed; other programs use the GPU: kernels.atomics: needs 2.0 GiB"
