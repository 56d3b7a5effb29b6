"""A paste with evidence against the driver's module and a program that listed its GPUs."""

from __future__ import annotations

import pytest

from gpuenv.model.snapshot import Module
from tests.paste.pasted_facts import primary, snapshot_of

OF_CUPY = "CuPy Version                 : 13.0.0\nDevice 0 Name                : NVIDIA GeForce RTX 3090\n"
OF_TORCH = (
    "PyTorch version: 2.1.0\nIs CUDA available: True\nGPU models and configuration: GPU 0: NVIDIA GeForce RTX 3090\n"
)
CARD = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
AGAINST = f"{CARD}\tKernel modules: nvidiafb, nouveau\n"


@pytest.mark.parametrize("listing", [OF_CUPY, OF_TORCH])
def test_a_driver_that_lists_gpus_is_loaded(listing: str) -> None:
    """The output of lspci may be from another time."""
    assert snapshot_of(AGAINST).driver.module.value is Module.NOT_INSTALLED
    assert snapshot_of(listing + AGAINST).driver.module.value is None
    assert primary(listing + AGAINST) is None
