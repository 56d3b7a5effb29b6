"""Machines with several faults at once: which one comes first, what stands on its own, and what is not to be said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import CompatSpec, DeviceNodeSpec, KernelModule
from tests.scenarios.ground import Scenario, as_recorded, both, driver, files, host, nothing, stub, target, variables
from tests.scenarios.spoiling import cache_below_a_file, without_base
from tests.scenarios.states import DIFFERENT, NUMPY, NUMPY_1

if TYPE_CHECKING:
    from tests.scenarios.ground import Change, Spoil


@dataclass(frozen=True, slots=True)
class Combined:
    """A machine with several faults.

    Attributes:
        scenario: the machine, with the cause to cure first; an empty one where it is fit.
        alone: causes that are told too, and follow from nothing.
        following: causes that are told as consequences of the first.
        first: words of the first cure, or of its command.
        unsaid: words that stand in no cure.
    """

    scenario: Scenario
    alone: tuple[str, ...] = ()
    following: tuple[str, ...] = ()
    first: str = ""
    unsaid: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scenario.base}: {self.scenario.name}"


def case(  # noqa: PLR0913 - a row of the table
    cause: str,
    name: str,
    base: str,
    change: Change = as_recorded,
    spoil: Spoil = nothing,
    *,
    alone: tuple[str, ...] = (),
    following: tuple[str, ...] = (),
    first: str = "",
    unsaid: tuple[str, ...] = (),
    command: tuple[str, ...] = ("doctor",),
    assuming: tuple[str, ...] = ("--assume", "python=3.12"),
) -> Combined:
    scenario = Scenario(cause, name, base, change, spoil, error=bool(cause), command=command, assuming=assuming)
    return Combined(scenario, alone, following, first, unsaid)


def required(words: str) -> tuple[str, ...]:
    return ("preflight", "--require", words)


LINE_12, LINE_13 = "cupy-cuda12x==14.2.0", "cupy-cuda13x==14.2.0"
TWO_LINES, OLD_NUMPY = target(LINE_12, LINE_13, NUMPY), target(LINE_12, NUMPY_1)
NEW_LINE = target(LINE_13, NUMPY, toolkit="13.0")
HIDDEN = variables(CUDA_VISIBLE_DEVICES="-1")
NOT_LOADED = driver(module=KernelModule.INSTALLED_NOT_LOADED)
WITHOUT_UVM = both(
    driver(nodes=(DeviceNodeSpec("nvidia0", 0o666), DeviceNodeSpec("nvidiactl", 0o666))),
    stub(cuda__return__cuInit="999"),
)
R535 = driver(version="535.183.01", library="535.183.01", cuda=12020)
WITH_COMPAT = files(**{"usr__local__cuda-13.0__compat__libcuda.so.580.65.06": ""})
TOO_OLD, REMOVED, TWO = "driver-too-old-for-cuda", "gpu-removed-from-toolkit", "multiple-cupy-packages"
CACHE, VARIABLE, REQUIREMENT = "kernel-cache-unwritable", "visible-devices-hide-gpu", "requirement-not-met"
MISMATCH, CONTAINER, NUMPY_FAULT = "driver-library-version-mismatch", "container-without-gpu", "numpy-incompatible"
WITHOUT_GPU = "container-without-gpu"

COMBINED = (
    # What is wrong of the environment stands on its own, whatever is wrong of the machine, and the other way round.
    case(
        TWO,
        "R450, two lines, a full cache",
        "t4-470",
        both(driver(version="450.80.02", library="450.80.02", cuda=11000), TWO_LINES),
        cache_below_a_file,
        alone=(CACHE,),
        first="Remove all",
    ),
    case(CONTAINER, "NumPy 1", WITHOUT_GPU, OLD_NUMPY, alone=(NUMPY_FAULT,), first="docker run --gpus all"),
    case(CONTAINER, "two lines", WITHOUT_GPU, TWO_LINES, alone=(TWO,)),
    case("device-node-missing", "NumPy 1", "l4-550", both(WITHOUT_UVM, OLD_NUMPY), alone=(NUMPY_FAULT,)),
    case("device-node-missing", "a newer line", "l4-550", both(WITHOUT_UVM, NEW_LINE), alone=(TOO_OLD,)),
    case(
        "no-driver",
        "no base",
        "no-driver-h100",
        spoil=without_base,
        alone=("target-environment-broken",),
        assuming=(),
    ),
    case("fabric-manager-not-running", "a full cache", "fabric-manager", spoil=cache_below_a_file, alone=(CACHE,)),
    case("compute-mode-exclusive", "NumPy 1", "v100-exclusive-in-use", OLD_NUMPY, alone=(NUMPY_FAULT,)),
    # What hides a GPU, or keeps it from this process, changes no driver: the wheel is judged all the same.
    case(VARIABLE, "a newer line", "h100-535", NEW_LINE, HIDDEN, alone=(TOO_OLD,), first="env -u CUDA_VISIBLE_DEVICES"),
    case(VARIABLE, "CUDA 13 and Volta", "v100-580", NEW_LINE, HIDDEN, alone=(REMOVED,)),
    case("mig-misconfigured", "a newer line", "a100-mig-wrong-instance", NEW_LINE, alone=(TOO_OLD,)),
    case("driver-module-not-loaded", "a newer line", "l4-550", both(NOT_LOADED, NEW_LINE), alone=(TOO_OLD,)),
    case("container-cgroup-lost-gpu", "a newer line", "cgroup-lost-gpu", NEW_LINE, alone=(TOO_OLD,)),
    case(CONTAINER, "a newer line", "container-without-gpu", NEW_LINE, alone=(TOO_OLD,), first="docker run"),
    case(VARIABLE, "ROCm's line", "rocm-on-nvidia", spoil=HIDDEN, alone=("rocm-mismatch",)),
    # What cannot be known: which GPU a container will be given, whether a libcuda of the image will serve, a driver
    # that nobody sees; and nothing of the kind matters where no GPU is expected.
    case(CONTAINER, "a newer line, and a libcuda in the image", WITHOUT_GPU, both(NEW_LINE, WITH_COMPAT)),
    case(CONTAINER, "nothing of the host", "pod-without-gpu", NEW_LINE, first="nvidia.com/gpu"),
    case(
        CONTAINER,
        "CUDA 13, and Volta on the host",
        "container-without-gpu",
        lambda profile: replace(
            both(driver(version="580.95.05", library="580.95.05"), NEW_LINE)(profile),
            gpus=tuple(replace(gpu, device="1db1", capability="7.0") for gpu in profile.gpus),
        ),
    ),
    case("", "none expected", WITHOUT_GPU, NEW_LINE, command=("doctor", "--expect-no-gpu"), alone=(CONTAINER,)),
    # After a restart the driver is that of the libraries.
    case(
        MISMATCH,
        "R580 waits for a restart",
        "h200-580",
        both(driver(version="535.183.01", library="580.95.05"), DIFFERENT),
        first="reboot",
        unsaid=("pdate the driver",),
    ),
    case(
        MISMATCH,
        "R535 waits for a restart",
        "h200-580",
        both(driver(version="580.95.05", library="535.183.01", cuda=12020), NEW_LINE, DIFFERENT),
        alone=(TOO_OLD,),
    ),
    case(
        MISMATCH,
        "without NVML",
        "h200-580",
        both(
            driver(version="535.183.01", library="580.95.05", nvml=False, smi=False), stub(cuda__return__cuInit="803")
        ),
        first="reboot",
    ),
    # No driver brings back what the toolkit has dropped.
    case(REMOVED, "Volta, R535, CUDA 13", "v100-580", both(R535, NEW_LINE), unsaid=("pdate the driver",)),
    case(
        "forward-compat-unsupported",
        "a newer line",
        "rtx4090-545",
        both(R535, driver(compat=CompatSpec("580.65.06", 13000)), NEW_LINE, stub(cuda__return__cuInit="804")),
        alone=(TOO_OLD,),
    ),
    case(
        "wsl-libcuda",
        "R472 in Windows",
        "wsl-rtx3060-560",
        both(driver(version="472.12", cuda=11040), stub(cuda__return__cuInit="100")),
        first="in Windows",
        unsaid=("Remove the Linux", "cupy-cuda11x"),
    ),
    case(
        "python-unsupported",
        "a Python for newer drivers alone",
        "p100-510",
        target(NUMPY),
        assuming=("--assume", "python=3.14"),
        alone=("cupy-not-installed",),
        first="then cupy-cuda11x",
    ),
    # A requirement follows from a fault where there is nothing, or too little, to meet it.
    case(CONTAINER, "no GPU", WITHOUT_GPU, command=required("gpu>=1"), following=(REQUIREMENT,)),
    case(CONTAINER, "no capability", WITHOUT_GPU, command=required("cc>=9.0"), following=(REQUIREMENT,)),
    case(CONTAINER, "another driver", WITHOUT_GPU, command=required("driver>=580"), alone=(REQUIREMENT,)),
    case("no-driver", "no driver", "no-driver-h100", command=required("driver>=580"), following=(REQUIREMENT,)),
    case("driver-module-not-loaded", "CuPy", "l4-550", NOT_LOADED, command=required("cupy<14"), alone=(REQUIREMENT,)),
    # Nor is a nvidia-smi of another driver, or one that hangs, brought about by a variable or by a mode.
    case(
        "compute-mode-exclusive",
        "another nvidia-smi",
        "v100-exclusive-in-use",
        stub(smi__driver="470.161.03"),
        alone=("sources-disagree",),
    ),
    case(VARIABLE, "nvidia-smi hangs", "hung-smi", spoil=HIDDEN, alone=("driver-unresponsive",)),
    case(
        "gpu-hardware-fault",
        "nvidia-smi is of another driver",
        "gpu-lost",
        both(host(distribution="debian 12"), stub(smi__driver="470.161.03", smi__exit="0")),
        following=("sources-disagree",),
    ),
)
