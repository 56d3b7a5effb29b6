"""States of the driver and of the GPUs that many scenarios share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.scenarios.scenario import files, stub

if TYPE_CHECKING:
    from gpuenv.simulate.profile import PciSpec
    from tests.scenarios.scenario import Change

NO_DRIVER_LIBRARIES = {"nvml": False, "libcuda": False, "smi": False}
NUMPY, NUMPY_1 = "numpy==2.3.4", "numpy==1.26.4"
SMI_MESSAGE = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
NOT_RESPONDING = stub(
    nvml__return__nvmlInitWithFlags="9",
    nvml__return__nvmlInit_v2="9",
    cuda__return__cuInit="100",
    smi__exit="9",
    smi__text=SMI_MESSAGE,
)
VERSION_MISMATCH = stub(
    nvml__return__nvmlInitWithFlags="18", nvml__return__nvmlInit_v2="18", cuda__return__cuInit="803", smi__exit="18"
)
NO_DEVICES = stub(cuda__return__cuInit="100", smi__exit="6", smi__text="No devices were found\\n")


def kernel_log(*lines: str) -> Change:
    """Adds lines to the kernel's log buffer."""
    return files(dev__kmsg="".join(f"4,{100 + number},{number},-;{line}\n" for number, line in enumerate(lines)))


def other_devices(*devices: PciSpec) -> Change:
    """Adds devices to the bus."""
    return lambda profile: replace(profile, other_devices=(*profile.other_devices, *devices))
