"""What a paste says against the driver's module, beside a program that has listed its GPUs through it."""

from __future__ import annotations

import pytest

from gpuenv.model.snapshot import Module
from tests.paste.facts import primary, snapshot_of

OF_CUPY = "CuPy Version                 : 13.0.0\nDevice 0 Name                : NVIDIA GeForce RTX 3090\n"
OF_TORCH = (
    "PyTorch version: 2.1.0\nIs CUDA available: True\nGPU models and configuration: GPU 0: NVIDIA GeForce RTX 3090\n"
)
CARD = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
AGAINST = (
    "modprobe: ERROR: could not insert 'nvidia_uvm': Operation not permitted\n",
    "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.0-91-generic\n",
    "modinfo: ERROR: Module nvidia not found.\n",
    f"{CARD}\tKernel modules: nvidiafb, nouveau\n",
)


@pytest.mark.parametrize("said", AGAINST)
@pytest.mark.parametrize("listing", [OF_CUPY, OF_TORCH])
def test_a_driver_that_shows_gpus_is_there(listing: str, said: str) -> None:
    """In a container modprobe and modinfo find no module, and lspci may be the host's of another time."""
    assert snapshot_of(listing + said).driver.module.value is None
    assert primary(listing + said) is None


@pytest.mark.parametrize("said", AGAINST)
def test_a_gpu_that_is_only_named_proves_no_driver(said: str) -> None:
    assert snapshot_of(f"GPU: NVIDIA GeForce RTX 3090\n{said}").driver.module.value in (
        Module.NOT_LOADED,
        Module.NOT_INSTALLED,
    )


@pytest.mark.parametrize("module", ["nvidia_peermem", "nvidia_fs"])
def test_modules_beside_the_driver_are_not_its_own(module: str) -> None:
    """GPUDirect's modules want InfiniBand's or a file system's, and the driver works without (gpu-operator, #2868)."""
    text = f"modprobe: ERROR: could not insert '{module}': Invalid argument\n"
    assert snapshot_of(text).driver.module.value is None
    assert snapshot_of(text.replace(module, "nvidia")).driver.module.value is Module.NOT_LOADED
