"""The diagnosis of a machine with the shipped matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuenv.doctor.diagnose import DEFAULT_OPTIONS, Diagnosis, DiagnosisOptions, diagnose
from gpuenv.doctor.registry import CheckContext
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.resolve import resolve
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot


def context_of(snapshot: Snapshot) -> CheckContext:
    """The arguments that a check gets."""
    return CheckContext(snapshot, needs_of(snapshot, MATRIX), MATRIX, resolve(snapshot, MATRIX))


def diagnosis_of(snapshot: Snapshot, options: DiagnosisOptions = DEFAULT_OPTIONS) -> Diagnosis:
    """The diagnosis; its checks take no time."""
    return diagnose(snapshot, MATRIX, lambda: 0.0, options)
