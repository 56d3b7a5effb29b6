"""Device nodes that refuse: by their mode, or since a control group keeps the container out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.records import Matrix
from gpuenv.model.codes import Nvml
from gpuenv.model.finding import Severity
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import Container
from tests.doctor.test_kernel_checks import findings, working


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load(data_path("matrix.yaml"))


@pytest.mark.parametrize("answer", [Nvml.UNKNOWN, Nvml.NO_PERMISSION])
@pytest.mark.parametrize(
    ("mode", "code"), [("crw-rw-rw-", "CTR306"), ("crw-rw----", "CTR304"), ("c---------", "CTR304")]
)
def test_nodes_that_are_open_to_all_and_refuse_were_taken_from_the_container(
    matrix: Matrix, mode: str, code: str, answer: Nvml
) -> None:
    there = working(cuda=100, container=Container.DOCKER)
    nodes = tuple(replace(node, accessible=False, mode=mode) for node in there.driver.device_nodes)
    driver = replace(there.driver, device_nodes=nodes, nvml_init=known(int(answer), "nvml"))
    snapshot = replace(there, driver=driver, gpus=(), gpu_count=Reading(), visible_count=Reading())
    assert [entry.code for entry in findings(snapshot, matrix) if entry.severity is Severity.ERROR] == [code]
