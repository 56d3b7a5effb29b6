"""Machines with several faults at once: the primary one, independent ones and consequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import CompatSpec, DeviceNodeSpec, KernelModule
from tests.scenarios.driver_states import NUMPY, NUMPY_1, VERSION_MISMATCH
from tests.scenarios.scenario import (
    Scenario,
    combine,
    driver,
    files,
    host,
    no_setup,
    stub,
    target,
    unchanged,
    variables,
)
from tests.scenarios.target_setups import cache_below_a_file, without_base_python

if TYPE_CHECKING:
    from tests.scenarios.scenario import Change, Setup


@dataclass(frozen=True, slots=True)
class Combined:
    """A machine with several faults.

    Attributes:
        scenario: the machine with its primary cause; an empty cause if it has no error.
        independent: further causes that follow from no other.
        consequences: causes that follow from the primary one.
        first_fix: words of the first fix or of its command.
        excluded: words that appear in no fix.
    """

    scenario: Scenario
    independent: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()
    first_fix: str = ""
    excluded: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scenario.base}: {self.scenario.name}"


def case(  # noqa: PLR0913 - a row of the table
    cause: str,
    name: str,
    base: str,
    change: Change = unchanged,
    setup: Setup = no_setup,
    *,
    independent: tuple[str, ...] = (),
    consequences: tuple[str, ...] = (),
    first_fix: str = "",
    excluded: tuple[str, ...] = (),
    command: tuple[str, ...] = ("doctor",),
    assumptions: tuple[str, ...] = ("--assume", "python=3.12"),
) -> Combined:
    scenario = Scenario(cause, name, base, change, setup, error=bool(cause), command=command, assumptions=assumptions)
    return Combined(scenario, independent, consequences, first_fix, excluded)


def required(words: str) -> tuple[str, ...]:
    return ("preflight", "--require", words)


LINE_12, LINE_13 = "cupy-cuda12x==14.2.0", "cupy-cuda13x==14.2.0"
TWO_LINES, OLD_NUMPY = target(LINE_12, LINE_13, NUMPY), target(LINE_12, NUMPY_1)
NEW_LINE = target(LINE_13, NUMPY, toolkit="13.0")
HIDDEN_GPU = variables(CUDA_VISIBLE_DEVICES="-1")
NOT_LOADED = driver(module=KernelModule.INSTALLED_NOT_LOADED)
WITHOUT_UVM = combine(
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
    # Faults of the environment and faults of the machine are independent.
    case(
        TWO,
        "R450, two lines, a full cache",
        "t4-470",
        combine(driver(version="450.80.02", library="450.80.02", cuda=11000), TWO_LINES),
        cache_below_a_file,
        independent=(CACHE,),
        first_fix="Repair the environment",
    ),
    case(CONTAINER, "NumPy 1", WITHOUT_GPU, OLD_NUMPY, independent=(NUMPY_FAULT,), first_fix="docker run --gpus all"),
    case(CONTAINER, "two lines", WITHOUT_GPU, TWO_LINES, independent=(TWO,)),
    case("device-node-missing", "NumPy 1", "l4-550", combine(WITHOUT_UVM, OLD_NUMPY), independent=(NUMPY_FAULT,)),
    case("device-node-missing", "a newer line", "l4-550", combine(WITHOUT_UVM, NEW_LINE), independent=(TOO_OLD,)),
    case(
        "no-driver",
        "no base",
        "no-driver-h100",
        setup=without_base_python,
        independent=("target-environment-broken",),
        assumptions=(),
    ),
    case(
        "fabric-manager-not-running", "a full cache", "fabric-manager", setup=cache_below_a_file, independent=(CACHE,)
    ),
    case("compute-mode-exclusive", "NumPy 1", "v100-exclusive-in-use", OLD_NUMPY, independent=(NUMPY_FAULT,)),
    # A hidden or inaccessible GPU does not change the driver: the wheel is judged nevertheless.
    case(
        VARIABLE,
        "a newer line",
        "h100-535",
        NEW_LINE,
        HIDDEN_GPU,
        independent=(TOO_OLD,),
        first_fix="unset CUDA_VISIBLE_DEVICES",
    ),
    case(VARIABLE, "CUDA 13 and Volta", "v100-580", NEW_LINE, HIDDEN_GPU, independent=(REMOVED,)),
    case("mig-misconfigured", "a newer line", "a100-mig-wrong-instance", NEW_LINE, independent=(TOO_OLD,)),
    case("driver-module-not-loaded", "a newer line", "l4-550", combine(NOT_LOADED, NEW_LINE), independent=(TOO_OLD,)),
    case("container-cgroup-lost-gpu", "a newer line", "cgroup-lost-gpu", NEW_LINE, independent=(TOO_OLD,)),
    case(CONTAINER, "a newer line", "container-without-gpu", NEW_LINE, independent=(TOO_OLD,), first_fix="docker run"),
    case(VARIABLE, "ROCm's line", "rocm-on-nvidia", setup=HIDDEN_GPU, independent=("rocm-mismatch",)),
    # Unknown: the GPU that a container will get, whether the image's libcuda works, a driver that is not visible.
    # None of these matter if no GPU is expected.
    case(CONTAINER, "a newer line, and a libcuda in the image", WITHOUT_GPU, combine(NEW_LINE, WITH_COMPAT)),
    case(CONTAINER, "nothing of the host", "pod-without-gpu", NEW_LINE, first_fix="nvidia.com/gpu"),
    case(
        CONTAINER,
        "CUDA 13, and Volta on the host",
        "container-without-gpu",
        lambda profile: replace(
            combine(driver(version="580.95.05", library="580.95.05"), NEW_LINE)(profile),
            gpus=tuple(replace(gpu, device="1db1", capability="7.0") for gpu in profile.gpus),
        ),
    ),
    case("", "none expected", WITHOUT_GPU, NEW_LINE, command=("doctor", "--expect-no-gpu"), independent=(CONTAINER,)),
    # After a restart the driver has the version of its libraries.
    case(
        MISMATCH,
        "R580 waits for a restart",
        "h200-580",
        combine(driver(version="535.183.01", library="580.95.05"), VERSION_MISMATCH),
        first_fix="reboot",
        excluded=("pdate the driver",),
    ),
    case(
        MISMATCH,
        "R535 waits for a restart",
        "h200-580",
        combine(driver(version="580.95.05", library="535.183.01", cuda=12020), NEW_LINE, VERSION_MISMATCH),
        independent=(TOO_OLD,),
    ),
    case(
        MISMATCH,
        "without NVML",
        "h200-580",
        combine(
            driver(version="535.183.01", library="580.95.05", nvml=False, smi=False), stub(cuda__return__cuInit="803")
        ),
        first_fix="reboot",
    ),
    # No driver restores support that the toolkit dropped.
    case(REMOVED, "Volta, R535, CUDA 13", "v100-580", combine(R535, NEW_LINE), excluded=("pdate the driver",)),
    case(
        "forward-compat-unsupported",
        "a newer line",
        "rtx4090-545",
        combine(R535, driver(compat=CompatSpec("580.65.06", 13000)), NEW_LINE, stub(cuda__return__cuInit="804")),
        independent=(TOO_OLD,),
    ),
    case(
        "wsl-libcuda",
        "R472 in Windows",
        "wsl-rtx3060-560",
        combine(driver(version="472.12", cuda=11040), stub(cuda__return__cuInit="100")),
        first_fix="in Windows",
        excluded=("Remove the Linux", "cupy-cuda11x"),
    ),
    case(
        "python-unsupported",
        "a Python that only newer drivers support",
        "p100-510",
        target(NUMPY),
        assumptions=("--assume", "python=3.14"),
        independent=("cupy-not-installed",),
        first_fix="then cupy-cuda11x",
    ),
    # A requirement follows from a fault if the fault explains why it is not met.
    case(CONTAINER, "no GPU", WITHOUT_GPU, command=required("gpu>=1"), consequences=(REQUIREMENT,)),
    case(CONTAINER, "no capability", WITHOUT_GPU, command=required("cc>=9.0"), consequences=(REQUIREMENT,)),
    case(CONTAINER, "another driver", WITHOUT_GPU, command=required("driver>=580"), independent=(REQUIREMENT,)),
    case("no-driver", "no driver", "no-driver-h100", command=required("driver>=580"), consequences=(REQUIREMENT,)),
    case(
        "driver-module-not-loaded",
        "CuPy",
        "l4-550",
        NOT_LOADED,
        command=required("cupy<14"),
        independent=(REQUIREMENT,),
    ),
    # A variable or a mode does not explain an nvidia-smi that hangs or belongs to another driver.
    case(
        "compute-mode-exclusive",
        "another nvidia-smi",
        "v100-exclusive-in-use",
        stub(smi__driver="470.161.03"),
        independent=("sources-disagree",),
    ),
    case(VARIABLE, "nvidia-smi hangs", "hung-smi", setup=HIDDEN_GPU, independent=("driver-unresponsive",)),
    case(
        "gpu-hardware-fault",
        "nvidia-smi is of another driver",
        "gpu-lost",
        combine(host(distribution="debian 12"), stub(smi__driver="470.161.03", smi__exit="0")),
        consequences=("sources-disagree",),
    ),
)
