"""A compose file: whether its services are given the GPUs that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuenv.image.dockerfile.base_images import BaseImage
from gpuenv.image.dockerfile.build_target import BuildTarget
from gpuenv.image.dockerfile.install_requests import SourceLocation
from gpuenv.image.dockerfile.rules_docker import symptom_at
from gpuenv.image.dockerfile.rules_settings import COMPAT
from gpuenv.image.dockerfile.service import POD, DeviceRequest, Service
from gpuenv.image.inspect.rules import FileOutcome, LocatedSymptom, rule
from gpuenv.image.inspect.rules_variables import STUBS, capabilities_fault, hides_all
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Severity

_FAULT = Cause.DOCKERFILE_FAULT
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_CDI = "nvidia.com/gpu="
# What Docker Engine takes for the capabilities of its driver nvidia, and what of it becomes NVIDIA_DRIVER_CAPABILITIES:
# moby/moby, daemon/nvidia_linux.go, init and setNvidiaGPUs; daemon/internal/capabilities/caps.go, Match: every one that
# is requested must be among them (read 2026-11-21).
_OF_LIBRARIES = ("compute", "compat32", "graphics", "utility", "video", "display")
_OF_NVIDIA = ("gpu", "nvidia", *_OF_LIBRARIES)


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """A service, and what is known of its image: by its name, or by the Dockerfile that builds it, if that is there."""

    service: Service
    base: BaseImage | None
    built: tuple[BuildTarget, ...]
    missing: str | None = None

    @property
    def location(self) -> SourceLocation:
        """The line of the service."""
        return self.service.location(self.service.line)

    @property
    def needs_gpu(self) -> str | None:
        """What says that the service uses a GPU."""
        if self.base is not None and self.base.has_cuda:
            return self.base.text
        for each in self.built:
            if each.cupy:
                return each.cupy[0].text
            if each.base.has_cuda:
                return each.base.text
        return _VISIBLE if self.service.environment.get(_VISIBLE) else None

    @property
    def asks(self) -> bool:
        """Whether it asks for a GPU in any way."""
        return _asks(self.service)

    @property
    def sets_visible(self) -> bool | None:
        """Whether the image sets NVIDIA_VISIBLE_DEVICES; None where that is not known."""
        bases = [each.base for each in self.built] or ([self.base] if self.base is not None else [])
        if any(_VISIBLE in each.environment for each in self.built) or any(map(_of_nvidia, bases)):
            return True
        return False if bases and all(base.plain for base in bases) else None


def _of_nvidia(base: BaseImage) -> bool:
    """Whether it is one of nvidia/cuda, or made from one."""
    return base.nvidia or (base.row or base.akin) is not None


def _asks(service: Service) -> bool:
    handed = any(device.startswith(_CDI) for device, _ in service.devices)
    by_hand = service.mounts_driver and any(device.startswith("/dev/nvidia") for device, _ in service.devices)
    return bool(service.requests) or handed or by_hand or service.runtime == "nvidia" or service.swarm_gpus


@rule("CMP921", _FAULT)
def gpu_not_requested(ctx: ServiceContext) -> FileOutcome:
    """A service that uses a GPU is not given one.

    What it means: compose starts a container without any GPU unless the service asks for one, whatever its image is.
    How it is seen: an image with CUDA or CuPy, and neither gpus, deploy.resources.reservations.devices, a CDI device
    nor the runtime nvidia.
    What to do: add "gpus: all", or a reservation of devices with capabilities [gpu].
    """
    what = ctx.needs_gpu
    if what is None or _asks(ctx.service) or ctx.service.misplaced or ctx.service.partly_elsewhere:
        return
    by_hand = [(device, line) for device, line in ctx.service.devices if device.startswith("/dev/nvidia")]
    if by_hand:
        yield symptom_at(
            ctx.service.location(by_hand[0][1]),
            f"{ctx.service.label} is given device nodes, but not the driver's libraries",
            f"{ctx.service.kind.ask} The container toolkit brings nodes and libraries that fit.",
            Evidence("devices", by_hand[0][0], ctx.service.location(by_hand[0][1]).file),
        )
        return
    yield symptom_at(
        ctx.location,
        f"{ctx.service.label} uses a GPU ({what}), and asks for none",
        ctx.service.kind.ask,
        Evidence("needs a GPU", what, ctx.service.file),
    )


@rule("CMP922", _FAULT)
def request_wrong(ctx: ServiceContext) -> FileOutcome:
    """A service asks for a GPU in a way that gives none.

    What it means: a reservation of devices needs capabilities that the engine's driver has: gpu, or those of NVIDIA's
    libraries, of which CUDA needs compute; count and device_ids exclude each other; and compose looks for devices under
    reservations alone.
    How it is seen: the entries of deploy.resources.reservations.devices and gpus, and where they stand.
    What to do: write driver: nvidia, count: all, capabilities: [gpu] below deploy.resources.reservations.devices.
    """
    service = ctx.service
    for path, line in service.misplaced:
        right = "resources.limits" if service.kind is POD else "deploy.resources.reservations.devices"
        yield symptom_at(
            service.location(line),
            f"{service.label}: {path} gives no GPU; it belongs below {right}",
            f"Move it to {right}.",
        )
    for request in service.requests:
        fault = _fault(request)
        if fault is not None:
            title, fix, severity = fault
            location = service.location(request.line)
            yield symptom_at(location, f"{service.label}: {title}", fix, severity=severity)


def _fault(request: DeviceRequest) -> tuple[str, str, Severity] | None:
    if request.capabilities is None:
        title = "a reservation of devices without capabilities, which compose refuses"
        return title, "Add capabilities: [gpu].", Severity.ERROR
    if request.count is not None and request.device_ids is not None:
        return "count and device_ids exclude each other", "Keep one of the two.", Severity.ERROR
    if request.count == "0":
        return "a count of 0 asks for no GPU", "Ask for one at least, or leave it out.", Severity.ERROR
    return _capabilities_fault(request.driver, request.capabilities)


def _capabilities_fault(driver: str | None, wanted: tuple[str, ...]) -> tuple[str, str, Severity] | None:
    reservation, fix = f"a reservation with capabilities [{', '.join(wanted)}]", "Write capabilities: [gpu]."
    if driver == "cdi":
        return None
    if driver not in (None, "nvidia"):
        unsure = f"{reservation} of the driver {driver}, without gpu: whether it gives a GPU is not known"
        return None if "gpu" in wanted else (unsure, fix, Severity.WARNING)
    unknown = next((word for word in wanted if word not in _OF_NVIDIA), None)
    if unknown is not None:
        return f"{reservation} gives no GPU: the engine's driver for NVIDIA has no {unknown}", fix, Severity.ERROR
    if any(word in _OF_LIBRARIES for word in wanted) and "compute" not in wanted:
        return f"{reservation} leaves out compute, and with it libcuda", fix, Severity.WARNING
    if "gpu" not in wanted:
        return (
            f"{reservation} names no gpu: Docker Engine gives one all the same, others need not",
            fix,
            Severity.WARNING,
        )
    return None


@rule("CMP923", _FAULT)
def runtime_without_devices(ctx: ServiceContext) -> FileOutcome:
    """The runtime nvidia is used, and nothing says which GPUs it shall give.

    What it means: the runtime nvidia gives a container the GPUs that NVIDIA_VISIBLE_DEVICES names. Images of
    nvidia/cuda set it; others do not, and then there is none.
    How it is seen: runtime: nvidia, an image that is not known to set the variable, and no environment that does.
    What to do: set NVIDIA_VISIBLE_DEVICES=all in the service, or use "gpus: all" instead of the runtime.
    """
    service = ctx.service
    if service.runtime != "nvidia" or service.requests or _VISIBLE in service.environment:
        return
    if ctx.sets_visible is False:
        yield symptom_at(
            service.location(service.runtime_line),
            f"{service.label}: the runtime nvidia gives no GPU, for {_VISIBLE} is not set",
            f"Set {_VISIBLE}=all. Or, in place of the runtime: {service.kind.ask}",
        )


@rule("CMP924", _FAULT)
def environment_hides(ctx: ServiceContext) -> FileOutcome:
    """A variable of the service hides the GPUs, or misleads the loader.

    What it means: as in an image: CUDA_VISIBLE_DEVICES may hide every GPU, NVIDIA_VISIBLE_DEVICES ask for none,
    NVIDIA_DRIVER_CAPABILITIES leave libcuda out, and LD_LIBRARY_PATH put compatibility or stub libraries first.
    How it is seen: the service's environment.
    What to do: leave them out, or set them right.
    """
    for name, setting in ctx.service.environment.items():
        fault = _setting_fault(name, setting.value)
        if fault is not None:
            title, severity = fault
            yield symptom_at(
                ctx.service.location(setting.line),
                f"{ctx.service.label}: {title}",
                f"Leave {name} out, or set it right.",
                Evidence(name, setting.value or "(empty)", ctx.service.location(setting.line).file),
                severity=severity,
            )


def _setting_fault(name: str, value: str) -> tuple[str, Severity] | None:
    if name == "CUDA_VISIBLE_DEVICES" and hides_all(value):
        return f"{name}={value} hides every GPU", Severity.ERROR
    if name == _VISIBLE and value.strip() in ("", "void", "none"):
        return f"{name}={value} asks for no GPU", Severity.ERROR
    if name == "NVIDIA_DRIVER_CAPABILITIES":
        fault = capabilities_fault(value)
        return (f"{name} {fault[0]}", fault[1]) if fault else None
    if name == "LD_LIBRARY_PATH":
        part = next((part for part in value.split(":") if COMPAT.search(part) or STUBS.search(part)), None)
        return (f"{name} puts {part} first", Severity.ERROR) if part else None
    return None


@rule("CMP925", _FAULT)
def image_not_pinned(ctx: ServiceContext) -> FileOutcome:
    """A service's image is not pinned, or has a tag that does not exist.

    What it means: an image without a tag is whatever it is that day; nvidia/cuda has no tag latest at all.
    How it is seen: the service's image.
    What to do: name a tag.
    """
    yield from _pins(ctx)


def _pins(ctx: ServiceContext) -> Iterator[LocatedSymptom]:
    base, service = ctx.base, ctx.service
    name = base.name if base is not None else None
    if base is None or name is None or service.source is not None or not base.has_cuda or name.digest:
        return
    if name.tag not in (None, "latest"):
        return
    location = service.location(service.image_line)
    if base.nvidia:
        yield symptom_at(
            location, f"{base.text}: nvidia/cuda has no tag latest", "Name a tag, such as 13.0.2-base-ubuntu24.04."
        )
    else:
        yield symptom_at(location, f"The image {base.text} is not pinned", "Name a tag.", severity=Severity.WARNING)


@rule("CMP926", _FAULT)
def dockerfile_missing(ctx: ServiceContext) -> FileOutcome:
    """The Dockerfile that a service names is not there.

    What it means: an image that is built from it cannot be judged, and its build ends before it begins.
    How it is seen: the file's name, from the build context; in a dev container, from the folder of its own file.
    What to do: name the file as it is seen from there.
    """
    source = ctx.service.source
    if source is not None and ctx.missing is not None:
        yield symptom_at(
            ctx.service.location(source.line),
            f"{ctx.service.label}: its Dockerfile {ctx.missing} is not there, and was not judged",
            "Name it from the build context, or in a devcontainer.json from its own folder.",
            severity=Severity.WARNING,
        )
