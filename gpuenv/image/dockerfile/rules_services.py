"""The rules for compose files, Kubernetes manifests and dev containers: whether a container gets its GPU."""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.image.container_variables import (
    COMPAT,
    CUDA_VISIBLE_DEVICES,
    DRIVER_CAPABILITIES,
    STUBS,
    VISIBLE_DEVICES,
    capabilities_fault,
    hides_all,
)
from gpuenv.image.dockerfile.base_images import BaseImage
from gpuenv.image.dockerfile.rules import FileSymptoms, has_gpu_software, symptom_at, tag_fault
from gpuenv.image.dockerfile.services import POD, DeviceRequest, Service
from gpuenv.image.dockerfile.target import BuildTarget, is_conda_cupy, is_cupy
from gpuenv.image.rule_registry import rule
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Severity

_FAULT = Cause.DOCKERFILE_FAULT
# The capabilities of Docker Engine's driver nvidia, and those that become NVIDIA_DRIVER_CAPABILITIES:
# moby/moby, daemon/nvidia_linux.go, init and setNvidiaGPUs; daemon/internal/capabilities/caps.go, Match: every one that
# is requested must be among them (read 2026-11-21).
_LIBRARY_CAPABILITIES = ("compute", "compat32", "graphics", "utility", "video", "display")
_NVIDIA_CAPABILITIES = ("gpu", "nvidia", *_LIBRARY_CAPABILITIES)


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The argument of a rule: a service, and its image if known.

    Attributes:
        targets: the targets of its Dockerfile, or its image as a target that adds nothing; empty if unknown.
    """

    service: Service
    targets: tuple[BuildTarget, ...]
    others: tuple[Service, ...] = ()

    @property
    def cupy(self) -> str | None:
        """The CuPy in the image, which needs a GPU (torch, for example, also runs without one)."""
        for target in self.targets:
            found = [each.text for each in target.installs if is_cupy(each) or is_conda_cupy(each)]
            if found or target.base_line is not None:
                return found[0] if found else target.base.text
        return None


@rule("CMP921", _FAULT)
def gpu_not_requested(ctx: ServiceContext) -> FileSymptoms:
    """A service that uses a GPU requests none.

    What it means: compose starts a container without a GPU unless the service requests one, or the engine's default
    runtime is NVIDIA's.
    How it is seen: an image with CuPy, and neither gpus, deploy, a CDI device nor the runtime nvidia. A service that
    names the CPU, that extends another one, or whose file has another service with GPUs, is not checked.
    What to do: add "gpus: all", or a reservation of devices with capabilities [gpu].
    """
    service, what = ctx.service, ctx.cupy
    if what is None or service.requests_gpu or service.misplaced or service.is_for_cpu or service.partial:
        return
    if any(other.requests_gpu or other.partial for other in ctx.others):
        return
    yield symptom_at(
        service.location(service.line),
        f"{service.label} has CuPy ({what}) and requests no GPU",
        service.kind.gpu_fix,
        Evidence("needs a GPU", what, service.file),
        severity=Severity.WARNING,
    )


@rule("CMP922", _FAULT)
def request_wrong(ctx: ServiceContext) -> FileSymptoms:
    """A service requests a GPU in a way that gives none.

    What it means: a reservation of devices needs capabilities that the engine's driver has: gpu, or those of NVIDIA's
    libraries, including compute for CUDA; count and device_ids exclude each other; and compose reads devices only under
    reservations. Kubernetes refuses a GPU below requests that is not below limits.
    How it is seen: the entries of deploy.resources.reservations.devices and gpus, and their place in the file.
    What to do: write driver: nvidia, count: all, capabilities: [gpu] below deploy.resources.reservations.devices.
    """
    service = ctx.service
    for path, line in service.misplaced:
        right = "resources.limits" if service.kind is POD else "deploy.resources.reservations.devices"
        title = f"{service.label}: {path} gives no GPU; it belongs below {right}"
        yield symptom_at(service.location(line), title, f"Move it to {right}.")
    for request in service.requests:
        fault = _request_fault(request, of_compute=any(map(has_gpu_software, ctx.targets)))
        if fault is not None:
            title, fix, severity = fault
            yield symptom_at(service.location(request.line), f"{service.label}: {title}", fix, severity=severity)


def _request_fault(request: DeviceRequest, *, of_compute: bool) -> tuple[str, str, Severity] | None:
    wanted = request.capabilities
    if wanted is None:
        title = "a reservation of devices without capabilities, which compose refuses"
        return title, "Add capabilities: [gpu].", Severity.ERROR
    if request.count is not None and request.device_ids is not None:
        return "count and device_ids exclude each other", "Keep one of the two.", Severity.ERROR
    if request.driver not in (None, "nvidia"):
        return None
    reservation, fix = f"a reservation with capabilities [{', '.join(wanted)}]", "Write capabilities: [gpu]."
    unknown = next((word for word in wanted if word not in _NVIDIA_CAPABILITIES), None)
    if unknown is not None:
        return f"{reservation} gives no GPU: the engine's driver for NVIDIA has no {unknown}", fix, Severity.ERROR
    if of_compute and any(word in _LIBRARY_CAPABILITIES for word in wanted) and "compute" not in wanted:
        return f"{reservation} leaves out compute, and with it libcuda", fix, Severity.WARNING
    return None


@rule("CMP923", _FAULT)
def runtime_without_devices(ctx: ServiceContext) -> FileSymptoms:
    """A service uses the runtime nvidia without naming GPUs.

    What it means: the runtime nvidia gives a container the GPUs that NVIDIA_VISIBLE_DEVICES names. Images of
    nvidia/cuda set it; others do not, and their containers have no GPU.
    How it is seen: runtime: nvidia, an image that is known not to set the variable, and no environment that does.
    What to do: set NVIDIA_VISIBLE_DEVICES=all in the service, or use "gpus: all" instead of the runtime.
    """
    service = ctx.service
    if (
        service.runtime is None
        or service.runtime[0] != "nvidia"
        or service.requests
        or VISIBLE_DEVICES in service.environment
    ):
        return
    bases: list[BaseImage] = [target.base for target in ctx.targets]
    sets = any(VISIBLE_DEVICES in target.environment for target in ctx.targets)
    if bases and not sets and all(base.plain for base in bases):
        yield symptom_at(
            service.location(service.runtime[1]),
            f"{service.label}: the runtime nvidia gives no GPU, since {VISIBLE_DEVICES} is not set",
            f"Set {VISIBLE_DEVICES}=all. Or, in place of the runtime: {service.kind.gpu_fix}",
            severity=Severity.WARNING,
        )


@rule("CMP924", _FAULT)
def environment_hides(ctx: ServiceContext) -> FileSymptoms:
    """A variable of a service that requests a GPU hides it, or misleads the loader.

    What it means: as in an image: CUDA_VISIBLE_DEVICES may hide every GPU, NVIDIA_DRIVER_CAPABILITIES leave libcuda
    out, and LD_LIBRARY_PATH put compatibility or stub libraries first.
    How it is seen: the environment of a service that requests a GPU.
    What to do: leave them out, or correct them.
    """
    service = ctx.service
    for name, setting in service.environment.items() if service.requests_gpu else ():
        fault = _setting_fault(name, setting.value, of_compute=any(map(has_gpu_software, ctx.targets)))
        if fault is not None:
            title, severity = fault
            yield symptom_at(
                service.location(setting.line),
                f"{service.label}: {title}",
                f"Leave {name} out, or set it right.",
                Evidence(name, setting.value or "(empty)", service.file),
                severity=severity,
            )


def _setting_fault(name: str, value: str, *, of_compute: bool) -> tuple[str, Severity] | None:
    if "$" in value:
        return None
    if name == CUDA_VISIBLE_DEVICES and hides_all(value):
        return f"{name}={value} hides every GPU", Severity.ERROR
    if name == DRIVER_CAPABILITIES and of_compute:
        fault = capabilities_fault(value)
        return (f"{name} {fault[0]}", Severity.WARNING) if fault else None
    if name == "LD_LIBRARY_PATH":
        part = next((part for part in value.split(":") if COMPAT.search(part) or STUBS.search(part)), None)
        return (f"{name} puts {part} first", Severity.WARNING) if part else None
    return None


@rule("CMP925", _FAULT)
def image_without_tag(ctx: ServiceContext) -> FileSymptoms:
    """A service's image has a tag that does not exist.

    What it means: nvidia/cuda has no tag latest, so the image cannot be pulled.
    How it is seen: the tag of an image of nvidia/cuda.
    What to do: name a tag that exists, such as 13.0.2-base-ubuntu24.04.
    """
    service = ctx.service
    fault = tag_fault(ctx.targets[0]) if ctx.targets and service.source is None else None
    if fault is not None:
        title, severity = fault
        fix = "Name a tag that exists, such as 13.0.2-base-ubuntu24.04."
        yield symptom_at(service.location(service.image_line), title, fix, severity=severity)


@rule("CMP926", _FAULT)
def dockerfile_unread(ctx: ServiceContext) -> FileSymptoms:
    """The Dockerfile of a service is not read.

    What it means: the contents of the service's image are unknown, so it is not checked.
    How it is seen: the build section names a file that does not exist, an address, or a variable without a value.
    What to do: correct the path, or check the built image: gpuenv check-image IMAGE.
    """
    source = ctx.service.source
    if source is None or ctx.targets:
        return
    name = source.context if source.is_elsewhere else source.path
    yield symptom_at(
        ctx.service.location(source.line),
        f"{ctx.service.label}: {name} is {'not read' if source.is_elsewhere else 'missing'}: what it builds is unknown",
        "Check the built image: gpuenv check-image IMAGE." if source.is_elsewhere else "Correct the path in build.",
        severity=Severity.NOTE,
    )
