"""Two versions in one text that do not fit: of the driver's parts, of kernels, installed and required ones."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Signature, Weights
from gpuenv.model.causes import Cause
from gpuenv.model.versions import CudaVersion, DriverVersion

_NUMBER = r"\d{3}\.\d{2,3}(?:\.\d{1,3})?"
_KERNEL = r"\d\.\d{1,2}\.\d{1,3}[\w.-]{0,40}"


def _pair(values: Mapping[str, str]) -> list[str]:
    return [text.rstrip(".-") for text in values.values()]


def _driver_version_weights(values: Mapping[str, str]) -> Weights:
    """The driver's parts are of one version, or a restart is due."""
    first, second = _pair(values)
    return ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.82),) if first != second else ()


def _kernel_weights(values: Mapping[str, str]) -> Weights:
    """A module is built for one kernel."""
    built, runs = _pair(values)
    alike = built.startswith(runs) or runs.startswith(built)
    return () if alike else ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.78), (Cause.DRIVER_MODULE_NOT_LOADED, 0.1))


def _requirement_weights(values: Mapping[str, str]) -> Weights:
    there, wanted = (values[name] for name in (("there", "wanted") if "there" in values else ("found", "least")))
    is_older = DriverVersion.parse(there) < DriverVersion.parse(wanted)
    return ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.78),) if is_older else ()


def _runtime_weights(values: Mapping[str, str]) -> Weights:
    """Within one major a driver runs newer runtimes, but not what their NVRTC and PTX compilers make."""
    driver, runtime = (CudaVersion.from_number(int(values[name])) for name in ("driver", "runtime"))
    if driver >= runtime:
        return ()
    sure = 0.8 if driver.major < runtime.major else 0.4
    return ((Cause.DRIVER_TOO_OLD_FOR_CUDA, sure),)


SIGNATURES = (
    Signature(
        "compared.show-config",
        "CuPy",
        ("cuda driver version",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.4),),
        "cupyx/_runtime.py: cupy.show_config(); CUDA Compatibility, minor version compatibility",
        pattern=r"CUDA Driver Version\s*: (?P<driver>[1-9]\d{3,4})\b.{0,80}?CUDA Runtime Version\s*: (?P<runtime>[1-9]\d{3,4})\b",
        weights_fn=_runtime_weights,
        requires=("complaint",),
        level=Level.WARNING,
        title="The driver is of an older CUDA than the runtime",
        decisive_fact="whether a driver of the runtime's own CUDA, or newer, cures it",
    ),
    Signature(
        "compared.driver-parts",
        "modinfo, sysfs and procfs",
        (
            "/sys/module/nvidia/version",
            "/proc/driver/nvidia/version",
            "loaded module",
            "module loaded",
            "kernel module ",
            "libcuda reported version",
            "kernel reported version",
        ),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.82),),
        "modinfo -F version nvidia: the module on disk; /sys/module/nvidia/version: the one that is loaded",
        pattern=(
            rf"\blibcuda reported version is: (?P<libcuda>{_NUMBER})(?:\.0)?\b.{{0,400}}?\bkernel reported version is: (?P<kernel>{_NUMBER})(?:\.0)?\b|\bmodinfo\b.{{0,40}}?\b(?P<disk>{_NUMBER})\b.{{0,60}}?/(?:sys/module|proc/driver)/nvidia/version\W{{1,6}}(?:\w+ )?(?P<loaded>{_NUMBER})\b"
            rf"|/(?:sys/module|proc/driver)/nvidia/version\W{{1,6}}(?:\w+ )?(?P<runs>{_NUMBER})\b.{{0,60}}?\bmodinfo\b.{{0,40}}?\b(?P<there>{_NUMBER})\b"
            rf"|\b(?:loaded module|module loaded|loaded kernel module)\W{{1,4}}(?:is )?(?P<now>{_NUMBER})\b.{{0,40}}?\b(?:on disk|installed|librar(?:y|ies)|libs|libcuda|user[- ]space)\W{{1,4}}(?:is |are )?(?P<then>{_NUMBER})\b"
        ),
        weights_fn=_driver_version_weights,
        title="The loaded kernel module is of another version than what is installed: a restart is due",
    ),
    Signature(
        "compared.kernels",
        "dkms status and uname",
        ("uname -r", "running ", "built for ", "not found in directory /lib/modules/"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.78),),
        "dkms status: the kernels that have the module; uname -r: the one that runs",
        pattern=(
            rf"\bnvidia(?:/|, ){_NUMBER}, (?P<built>{_KERNEL}),? .{{0,40}}?\buname -r\W{{1,6}}(?P<runs>{_KERNEL})\b"
            rf"|\bnvidia\b.{{0,60}}?\bbuilt (?:only )?for (?:kernel )?(?P<made>{_KERNEL}),? (?:and |but |while )?(?:the )?(?:kernel )?(?:running|runs?) (?:is |kernel )?(?P<now>{_KERNEL})\b"
            rf"|\bnvidia\S* not found in directory /lib/modules/(?P<here>{_KERNEL})\b.{{0,160}}?/lib/modules/(?P<there>{_KERNEL})/\S*nvidia"
        ),
        weights_fn=_kernel_weights,
        title="The driver's module was built for another kernel than the one that runs",
    ),
    Signature(
        "compared.driver-needed",
        "programs that name the driver that they need",
        ("driver",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.78),),
        "CUDA Toolkit Release Notes, table of driver versions: each CUDA needs at least one",
        pattern=(
            rf"\bdriver(?: version)?:? (?:is )?(?P<there>{_NUMBER})\b(?:(?!\b(?:newer|later|above)\b).){{0,60}}?\b(?:older than|below|lower than|less than|at least|minimum(?: of)?|requires?|need(?:s|ed)?)\b(?: (?:driver|version|is|of|the))*:? (?P<wanted>{_NUMBER})\b"
            rf"|\b(?:requires?|needs?|minimum) (?:\w+ ){{0,4}}?driver(?: version)?:? (?P<least>{_NUMBER})\b.{{0,40}}?\b(?:found|installed|have|has|is|detected|got)\W{{1,3}}(?:only )?(?P<found>{_NUMBER})\b"
        ),
        weights_fn=_requirement_weights,
        level=Level.WARNING,
        title="The driver is older than the program needs",
    ),
)
