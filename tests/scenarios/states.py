"""States of a machine's driver and its GPUs that many scenarios begin with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.scenarios.ground import files, stub

if TYPE_CHECKING:
    from gpuenv.simulate.profile import PciSpec
    from tests.scenarios.ground import Change

NOTHING = {"nvml": False, "libcuda": False, "smi": False}
NUMPY, NUMPY_1 = "numpy==2.3.4", "numpy==1.26.4"
NO_DRIVER_SAID = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
ANSWERS_NOT = stub(
    nvml__return__nvmlInitWithFlags="9",
    nvml__return__nvmlInit_v2="9",
    cuda__return__cuInit="100",
    smi__exit="9",
    smi__text=NO_DRIVER_SAID,
)
DIFFERENT = stub(
    nvml__return__nvmlInitWithFlags="18", nvml__return__nvmlInit_v2="18", cuda__return__cuInit="803", smi__exit="18"
)
NONE_LISTED = stub(cuda__return__cuInit="100", smi__exit="6", smi__text="No devices were found\\n")


def said(*lines: str) -> Change:
    """Lines in the kernel's buffer."""
    return files(dev__kmsg="".join(f"4,{100 + number},{number},-;{line}\n" for number, line in enumerate(lines)))


def beside(*devices: PciSpec) -> Change:
    """Further devices on the bus."""
    return lambda profile: replace(profile, other_devices=(*profile.other_devices, *devices))
