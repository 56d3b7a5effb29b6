"""Checks whether there is an NVIDIA GPU, and whether a variable hides it from this process."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.kernel_module import switch_off_lines, unblock_fixes
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.fixes.table import steps_of
from gpuenv.doctor.fixes.variables import NOT_GRANTED, change_fix, scheduler_of, visible_devices_fixes
from gpuenv.doctor.predicates import is_driver_probed
from gpuenv.doctor.registry import (
    EXPECT_NO_GPU,
    CheckContext,
    Component,
    NotKnown,
    Outcome,
    Symptom,
    check,
    severity_for_unusable_gpu,
)
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import is_rocm, rocm_of
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import (
    accessible_gpus,
    bus_is_reliable,
    driver_nodes,
    driver_sees_gpu,
    is_contained,
    is_old_instance,
    nvidia_on_bus,
    parse_visible,
    uuids_of,
    visible_entries,
)
from gpuenv.model.nvidia import AMD, INTEL
from gpuenv.model.reading import ASSUMED
from gpuenv.model.snapshot import Container, Module, Snapshot, SourceState
from gpuenv.model.strings import pattern

_QUOTES = ("'", '"')  # which the files of docker run --env-file and of services do not remove
_GAP = pattern(r"(?:^|,)\s*(([0-9]+)[^0-9,]+[0-9][^,]*)")  # two numbers in one entry
_HIDING = ("", "none", "void")
_NO_REQUEST = "void"  # set by the device plugin of Kubernetes for a pod that requested no GPU
_MAYBE_SWITCHED_OFF = Fix(
    "If the machine does have an NVIDIA GPU: a modprobe file has the line alias nvidia off, with which programs switch "
    "a laptop's GPU off. Switch it on with the program that wrote the line."
)
_ROCM_FILE = ("cat", "/opt/rocm/.info/version")
_INTEGRATED_GPU_VENDORS = frozenset((INTEL, AMD))


@check(
    "GPU201",
    Cause.NO_NVIDIA_GPU,
    Cause.ROCM_MISMATCH,
    Cause.DRIVER_MODULE_NOT_LOADED,
    requires=("DRV101",),
    missing=Component.GPU,
)
def no_nvidia_gpu(ctx: CheckContext) -> Outcome:
    """The machine has no NVIDIA GPU.

    What it means: the PCI bus has no NVIDIA device, and no library of the driver lists a GPU. CuPy cannot compute here;
    an installed CUDA toolkit does not change that. If AMD's driver shows a GPU and the installed CuPy is for CUDA, or
    for a ROCm other than the installed one, the two do not match.
    How it is seen: the kernel's list of PCI devices, and its AMD nodes. Under WSL and on Jetson boards the GPU is not
    on the PCI bus, so this is not checked; macOS has no NVIDIA driver at all. In a container the bus may be hidden: if
    NVIDIA's module is loaded, or the kernel is that of a sandbox or of Docker Desktop, an empty bus shows nothing.
    Some programs switch a laptop's NVIDIA GPU off with a line in modprobe.d, and some also remove it from the bus. With
    such a line, if the driver's module is installed and there is an integrated GPU, the GPU counts as switched off,
    else as absent.
    What to do: use a machine with an NVIDIA GPU. For a virtual machine or a cloud instance, choose a type with a GPU;
    for a job, request one from the scheduler. For an AMD GPU, install CuPy's wheel for the ROCm release, which CuPy's
    documentation calls experimental, or build CuPy from source.
    """
    snapshot = ctx.snapshot
    if ctx.needs.gpus_absent and not snapshot.amd_gpus:
        yield _without_gpu(evidence_of(snapshot, "gpu_count"))
        return
    if driver_sees_gpu(snapshot) or snapshot.host.wsl.value or ctx.needs.tegra:
        return
    if snapshot.host.os.value == "darwin":
        # CUDA Toolkit Release Notes 12.1, table 1: its platforms are Linux, Windows and WSL (read November 2026).
        yield Symptom(
            "CUDA cannot use a GPU here: NVIDIA has no driver for macOS",
            evidence_of(snapshot, "host.os", "host.arch"),
            (
                Fix("Use a machine with Linux or Windows and an NVIDIA GPU: another host, or a cloud instance."),
                EXPECT_NO_GPU,
            ),
        )
        return
    only_amd = bool(snapshot.amd_gpus) and not snapshot.gpus
    if only_amd and (ctx.needs.gpus_absent or snapshot.source("kernel").state is SourceState.NOT_ASKED):
        yield _without_nvidia(ctx)
        return
    on_bus = nvidia_on_bus(snapshot)
    if on_bus is None:
        yield NotKnown("the PCI bus is not visible from here")
        return
    if on_bus or driver_nodes(snapshot):
        return
    if bus_is_reliable(snapshot):
        yield _without_nvidia(ctx)
    elif snapshot.host.sandbox.known:
        yield NotKnown(f"the PCI bus that {snapshot.host.sandbox.value} shows is not the host's")


def _without_nvidia(ctx: CheckContext) -> Symptom:
    snapshot = ctx.snapshot
    others = ", ".join(gpu.name or f"{gpu.vendor}:{gpu.device}" for gpu in snapshot.pci_gpus or ()) or "none"
    evidence = [Evidence("display and 3D controllers on the PCI bus", others, "/sys/bus/pci/devices")]
    evidence += [
        Evidence(
            "toolkits", f"CUDA {kit.toolkit.value} in {kit.path}", "irrelevant: a toolkit is neither a GPU nor a driver"
        )
        for kit in snapshot.toolkits
    ]
    amd = tuple(dict.fromkeys(gpu.gfx or gpu.name or f"node {gpu.node}" for gpu in snapshot.amd_gpus))
    if amd:
        return _amd(ctx, ", ".join(amd), tuple(evidence))
    off = tuple(Evidence("driver.module_blocks", block, "modprobe.d") for block in switch_off_lines(snapshot))
    # NVIDIA's module is installed next to an integrated GPU; elsewhere such a file is a leftover.
    is_laptop = not _INTEGRATED_GPU_VENDORS.isdisjoint(gpu.vendor for gpu in snapshot.pci_gpus or ())
    if off and is_laptop and snapshot.driver.module.value is Module.NOT_LOADED:
        return Symptom(
            "No NVIDIA GPU is on the PCI bus, and a line in modprobe.d switches one off",
            off + tuple(evidence[:1]),
            (*unblock_fixes(snapshot), EXPECT_NO_GPU),
            cause=Cause.DRIVER_MODULE_NOT_LOADED,
        )
    scheduler = scheduler_of(snapshot)
    request = steps_of("request-gpu", (scheduler,)) if scheduler else ()
    return _without_gpu(off + tuple(evidence), (*request, *((_MAYBE_SWITCHED_OFF,) if off else ())))


def _rocm_fixes(ctx: CheckContext) -> Iterator[Fix]:
    """Yields the commands that install the newest wheel for AMD GPUs that may fit, which gpuenv does not verify."""
    for wheel in ctx.resolution.experimental[:1]:
        if wheel.replaces:
            text = "Uninstall the CuPy that cannot use this GPU."
            yield pip_fix(ctx.snapshot, text, "uninstall", "-y", *wheel.replaces)._replace(safe=False)
        text = (
            f"Install the wheel for ROCm {rocm_of(wheel.candidate.name)}: CuPy's support of AMD GPUs is experimental."
        )
        yield pip_fix(ctx.snapshot, text, "install", *wheel.requirements)._replace(safe=False)


# ROCm's packages write their release there (rocm-core).
_SHOW_ROCM = Fix("See which ROCm is installed: a wheel needs the one in its name, or install that first.", _ROCM_FILE)


def _build_fixes(ctx: CheckContext, gfx: str | None, *, is_only: bool) -> Iterator[Fix]:
    """CuPy, Installation, Using CuPy on AMD GPU: Building CuPy for ROCm from source."""
    for_cuda = [entry.distribution for entry in ctx.snapshot.target.cupy if not is_rocm(entry.distribution)]
    if is_only and for_cuda:
        text = "Uninstall the CuPy that cannot use this GPU."
        yield pip_fix(ctx.snapshot, text, "uninstall", "-y", *for_cuda)._replace(safe=False)
    text = "Build CuPy for ROCm from source, if CuPy's installation guide lists this ROCm (Using CuPy on AMD GPU)."
    fix = pip_fix(ctx.snapshot, text if is_only else f"Or {text[0].lower()}{text[1:]}", "install", "cupy")
    variables = ("CUPY_INSTALL_USE_HIP=1", "ROCM_HOME=/opt/rocm", f"HCC_AMDGPU_TARGET={gfx}")
    yield fix._replace(command=("env", *variables, *fix.command) if gfx and fix.command else None, safe=False)


def _without_gpu(evidence: tuple[Evidence, ...], more: tuple[Fix, ...] = ()) -> Symptom:
    return Symptom(
        "This machine has no NVIDIA GPU",
        evidence,
        (
            Fix(
                "Use a machine with an NVIDIA GPU: another host or instance type, or a job that requests one; in "
                "Colab, change the runtime type."
            ),
            *more,
            EXPECT_NO_GPU,
        ),
    )


def _amd(ctx: CheckContext, kinds: str, evidence: tuple[Evidence, ...]) -> Symptom:
    """The GPU is AMD's: a CuPy for CUDA cannot use it, and gpuenv does not examine ROCm."""
    snapshot = ctx.snapshot
    for_cuda = [entry for entry in snapshot.target.cupy if not is_rocm(entry.distribution)]
    installed = tuple(Evidence("target.cupy", e.label, "its metadata") for e in for_cuda)
    source = ASSUMED if "gpus" in snapshot.assumed else "/sys/class/kfd"
    nodes = tuple(
        Evidence("amd_gpus", f"{gpu.gfx or gpu.name} at {gpu.pci or 'an unknown address'}", source)
        for gpu in snapshot.amd_gpus
    )
    title = f"This machine has no NVIDIA GPU, but AMD's {kinds}"
    # A line is for one minor release of ROCm.
    minor = (snapshot.rocm.value or "").split(".")[:2]
    lines = ((entry, rocm_of(entry.distribution)) for entry in snapshot.target.cupy if minor != [""] and not for_cuda)
    other = next((entry for entry, needed in lines if needed and needed.split(".") != minor), None)
    if other is not None:
        title = f"{other.distribution} does not match the installed ROCm {snapshot.rocm.value}"
        installed = (Evidence("target.cupy", other.label, "its metadata"),)
    is_installed = not for_cuda and other is None and bool(snapshot.target.cupy)
    wheels = () if is_installed else tuple(_rocm_fixes(ctx))
    kinds_of_code = {gpu.gfx for gpu in snapshot.amd_gpus}
    gfx = kinds_of_code.pop() if len(kinds_of_code) == 1 and not is_installed else None
    build = tuple(_build_fixes(ctx, gfx, is_only=not wheels))
    return Symptom(
        f"{title}, which {for_cuda[0].distribution} cannot use" if for_cuda else title,
        nodes + installed + evidence_of(snapshot, "rocm") + evidence,
        (
            *(() if snapshot.rocm.known or is_installed else (_SHOW_ROCM,)),
            *wheels,
            *build,
            Fix("Or use a machine with an NVIDIA GPU; gpuenv supports no other."),
        ),
        cause=Cause.ROCM_MISMATCH if for_cuda or other else None,
    )


def _hidden(snapshot: Snapshot, value: str) -> Symptom:
    instances = [instance.uuid for gpu in snapshot.gpus for instance in gpu.mig_instances]
    of_mig = value.startswith("MIG-") and any(gpu.mig.value for gpu in snapshot.gpus)
    effect = " names no existing MIG instance" if of_mig else " hides every GPU"
    if value[:1] in _QUOTES:
        effect = ": the value contains quote characters, so CUDA finds no GPU"
    title = f"CUDA_VISIBLE_DEVICES={value or '(empty)'}{effect}"
    return Symptom(
        f"Slurm gave this process no GPU: CUDA_VISIBLE_DEVICES={value}" if value == NOT_GRANTED else title,
        _evidence(snapshot, value) + tuple(Evidence("existing MIG instance", uuid, "nvml") for uuid in instances[:7]),
        visible_devices_fixes(snapshot, value),
        cause=Cause.MIG_MISCONFIGURED if of_mig else None,
    )


def _cut_short(ctx: CheckContext, value: str) -> Outcome:
    """CUDA reads only the beginning of the list."""
    snapshot = ctx.snapshot
    counted = accessible_gpus(snapshot.gpus)
    found = parse_visible(value.rstrip(", "), len(counted), uuids_of(counted))  # a trailing comma adds no entry
    instances = [entry for entry in found.entries if entry.startswith("MIG-")]
    if len(instances) > 1:
        yield Symptom(
            f"CUDA_VISIBLE_DEVICES names {len(instances)} MIG instances, but a CUDA program sees only one",
            _evidence(snapshot, value),
            (change_fix(snapshot, "CUDA_VISIBLE_DEVICES", instances[0], "Name one instance for each process."),),
            Severity.WARNING,
            Cause.MIG_MISCONFIGURED,
        )
        return
    title = f"CUDA stops reading CUDA_VISIBLE_DEVICES={value} at {found.invalid or 'an empty entry'}, which is no GPU"
    if found.entries and found.invalid is None and (gap := _GAP.search(value)):
        title = f"CUDA_VISIBLE_DEVICES={value}: CUDA reads only GPU {gap[2]} of {gap[1]}; GPUs are separated by commas"
    elif found.invalid is None:
        return
    yield Symptom(
        title, _evidence(snapshot, value), visible_devices_fixes(snapshot, value), severity_for_unusable_gpu(ctx)
    )


def _evidence(snapshot: Snapshot, value: str) -> tuple[Evidence, ...]:
    return (Evidence("environment.CUDA_VISIBLE_DEVICES", repr(value), "the environment"),) + evidence_of(
        snapshot, "gpu_count", "visible_count"
    )


@check(
    "GPU202", Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.MIG_MISCONFIGURED, requires=("DRV100", "GPU201"), of_process=True
)
def hidden_by_variable(ctx: CheckContext) -> Outcome:
    """CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES hides every GPU.

    What it means: the machine has a GPU and its driver works, but a variable makes CUDA, or the container engine, show
    none of them, or names one that does not exist.
    How it is seen: NVML counts GPUs while libcuda counts none, and no entry of CUDA_VISIBLE_DEVICES is an existing GPU
    or MIG instance; or libcuda counts fewer than the variable lists, because CUDA stops reading at an invalid entry; or
    the container was started with NVIDIA_VISIBLE_DEVICES empty, none or void and has no device nodes.
    What to do: unset the variable, or set it to an existing GPU, where the shell, the job script, the notebook or the
    container sets it. In a job that was granted no GPU, request one with the scheduler's option, and leave the variable
    as it is.
    """
    snapshot = ctx.snapshot
    variables = snapshot.environment
    value = variables.get("CUDA_VISIBLE_DEVICES")
    nothing_seen = snapshot.visible_count.value == 0 and driver_sees_gpu(snapshot)
    if value is not None and nothing_seen and (visible_entries(value, snapshot.gpus) == 0 or is_old_instance(value)):
        yield _hidden(snapshot, value)
    elif value and snapshot.gpu_count.source == "nvml" and (snapshot.visible_count.value or 0) > 0:
        yield from _cut_short(ctx, value)
    elif value is not None and not is_driver_probed(snapshot) and not snapshot.gpus:
        first = value.split(",", maxsplit=1)[0].strip()
        if not first or first.startswith("-"):  # the list ends at its first entry, on any machine
            yield _hidden(snapshot, value)
    mounted = variables.get("NVIDIA_VISIBLE_DEVICES")
    if mounted == _NO_REQUEST and snapshot.host.container.value is Container.KUBERNETES:
        return  # the pod requested no GPU: its specification has to change
    without_gpu = is_contained(snapshot) and not driver_nodes(snapshot) and not driver_sees_gpu(snapshot)
    if mounted in _HIDING and without_gpu:
        yield Symptom(
            f"NVIDIA_VISIBLE_DEVICES={mounted or '(empty)'} keeps every GPU out of this container",
            (Evidence("environment.NVIDIA_VISIBLE_DEVICES", repr(mounted), "the environment"),)
            + evidence_of(snapshot, "host.container"),
            (Fix("Start the container with NVIDIA_VISIBLE_DEVICES=all, or with the GPUs that it needs."),),
        )
