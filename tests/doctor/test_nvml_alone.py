"""NVML that refuses to start where CUDA does: what is said of the tools that need it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot, Source, SourceState
from tests.doctor.kernel_hosts import findings, working


def refusing(smi: SourceState) -> Snapshot:
    """A host of which NVML tells nothing."""
    snapshot = working()
    states = {"kernel": SourceState.ANSWERED, "nvml": SourceState.FAILED, "libcuda": SourceState.ANSWERED}
    return replace(
        snapshot,
        driver=replace(snapshot.driver, nvml_init=known(int(Nvml.UNKNOWN), "nvml")),
        sources=tuple(Source(name, state) for name, state in {**states, "nvidia-smi": smi}.items()),
    )


@pytest.mark.parametrize("smi", [SourceState.FAILED, SourceState.TIMED_OUT, SourceState.ABSENT])
def test_that_it_refuses_is_told_where_nobody_starts_it(matrix: Matrix, smi: SourceState) -> None:
    assert [finding.code for finding in findings(refusing(smi), matrix)] == ["DRV103"]


def test_nvidia_smi_that_answers_is_not_said_to_fail(matrix: Matrix) -> None:
    assert findings(refusing(SourceState.ANSWERED), matrix) == []
