"""Raw facts to a Snapshot. The order of trust is the order in which the answers are listed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuenv import __version__
from gpuenv.model.reading import Reading, known, missing, settle
from gpuenv.model.snapshot import (
    AmdGpu,
    CdiFile,
    Container,
    ContainerSupport,
    DeviceNode,
    DkmsBuild,
    Driver,
    DriverLibrary,
    Grant,
    Host,
    KernelMessage,
    LibraryOrigin,
    Module,
    Mps,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Toolkit,
)
from gpuenv.model.strings import parse_integer, pattern
from gpuenv.model.versions import CudaVersion, DriverVersion, Libc
from gpuenv.probe.assemble_gpus import assemble_gpus, count_gpus, count_visible
from gpuenv.probe.assemble_target import INTERPRETER, assemble_target
from gpuenv.probe.raw import (
    NO_SOURCE,
    NOT_READ,
    Raw,
    RawFacts,
    SmiFacts,
    answer,
    file_version,
    message_of,
    parsed,
    reading,
)
from gpuenv.probe.request import ProbeRequest
from gpuenv.probe.target import named_by

_VARIABLES = (
    "CUDA", "NVIDIA_", "CUPY_", "NVCC", "NUMBA_", "LD_LIBRARY_PATH", "LD_PRELOAD", "CONDA_PREFIX", "VIRTUAL_ENV",
    "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS",
    "SLURM_GPUS_ON_NODE", "SLURM_STEP_NUM_TASKS", "GPU_DEVICE_ORDINAL", "_CONDOR_AssignedGPUs",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip
PROC_VERSION = "/proc/driver/nvidia/version"
SYS_VERSION = "/sys/module/nvidia/version"
_DAEMON_JSON = "/etc/docker/daemon.json"
_PROGRAMS = "the folders of programs"
_MODULE_VERSION = pattern(r"(?:Kernel Module(?: for \S+)?)\s+(\d[\d.]+)")
_AMD = 0x1002  # PCI vendor id
_LARGEST_DIGIT = 15
# By where a library lies; the first that fits. The folders are those that scripts/kernel.py looks into.
_ORIGINS = (
    (r"/stubs/", LibraryOrigin.STUB),
    (r"/compat(/|$)", LibraryOrigin.COMPAT),
    (r"/usr/lib/wsl/", LibraryOrigin.WSL),
    (r"/nix/store/|/run/opengl-driver/", LibraryOrigin.NIXOS),
    (r"/usr/lib/[^/]+/GL/nvidia-[^/]+/", LibraryOrigin.FLATPAK),
    (r"/usr/lib64-nvidia/|/usr/local/nvidia/|/var/lib/nvidia/", LibraryOrigin.CLOUD),
    (r"/usr/lib/aarch64-linux-gnu/(tegra|nvidia)/", LibraryOrigin.TEGRA),
    (r"/\.singularity\.d/libs/", LibraryOrigin.MOUNTED),
)
_SYSTEM = pattern(r"/(usr/)?lib(64)?/([\w-]+-linux-gnu/)?(nvidia/(current/)?)?lib[^/]+$")
_DRIVER_SOURCES = ("nvml", "libcuda", "nvidia-smi")
_MOST = 256  # devices of a range
_UNASSIGNED = ("10000", "none")


def snapshot_of(answers: Mapping[str, Any], request: ProbeRequest, interpreter: str | None, began: float) -> Snapshot:
    """The Snapshot of a session.

    Args:
        answers: by the name of the source, what it was made of; a source that is late is missing.
        request: what was asked.
        interpreter: the target's, if there is one.
        began: reading of ``time.monotonic`` when the session began.
    """

    def late(name: str) -> Source:
        return Source(name, SourceState.TIMED_OUT, "no answer in time", request.timeout)

    not_asked = "the target was not to be asked"
    kernel, kernel_source, nvcc, nvcc_source = answers.get("kernel", (Raw(), late("kernel"), {}, late("nvcc")))
    nvml, nvml_source = answers.get("nvml", (Raw(), late("nvml")))
    cuda, cuda_source = answers.get("libcuda", (Raw(), late("libcuda")))
    smi, smi_source = answers.get("nvidia-smi", (SmiFacts(), late("nvidia-smi")))
    no_target, no_files = late("target"), late("files")
    if interpreter is None:
        no_target = Source("target", SourceState.ABSENT, "no Python on PATH")
        no_files = Source("files", SourceState.NOT_ASKED, not_asked)
    no_libraries = Source("libraries", SourceState.NOT_ASKED, not_asked)
    target, target_source, libraries, libraries_source = answers.get("target", (Raw(), no_target, Raw(), no_libraries))
    # None, too, where the target did not tell in time.
    files, files_source = answers.get("files") or (Raw(), no_files)
    sources: tuple[Source, ...] = (kernel_source, nvcc_source, nvml_source, cuda_source, smi_source)
    sources += (target_source, libraries_source, files_source)
    raw = RawFacts(
        kernel=kernel,
        nvcc=nvcc,
        nvml=nvml,
        cuda=cuda,
        smi=smi,
        target=target,
        target_path=interpreter,
        target_named_by=named_by(request.python, request.environment),
        target_reason=target_source.detail,
        libraries=libraries,
        files=files,
        environment=relevant(request.environment),
        sources=tuple(source._replace(started=max(0.0, source.started - began)) for source in sources),
    )
    return assemble(raw, request.taken_at)


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide which GPU, CUDA and Python are used."""
    return {name: environment[name] for name in sorted(environment) if name.startswith(_VARIABLES)}


def assemble(raw: RawFacts, taken_at: str | None) -> Snapshot:
    """Settles every fact from what the sources answered, and keeps the other answers with it."""
    kernel = raw.kernel
    return Snapshot(
        gpuenv_version=__version__,
        taken_at=taken_at,
        host=_host(raw),
        driver=_driver(raw),
        gpus=assemble_gpus(raw),
        gpu_count=count_gpus(raw),
        visible_count=count_visible(raw),
        pci_gpus=kernel.get("pci_gpus", tuple[PciGpu, ...]),
        toolkits=_toolkits(raw),
        pointing_nowhere=kernel.all("pointing_nowhere", str),
        amd_gpus=amd_gpus(kernel),
        rocm=rocm(kernel),
        kernel_log=kernel_log(kernel),
        container_support=container_support(kernel),
        grant=grant(kernel, raw.environment),
        mps=mps(kernel),
        target=assemble_target(raw),
        environment=dict(raw.environment),
        sources=raw.sources,
    )


# The host


def _host(raw: RawFacts) -> Host:
    kernel, uname, tegra = raw.kernel, raw.kernel.part("uname"), raw.kernel.part("tegra")
    container = parsed(Container, kernel.text("container"), "the marks container engines leave")
    # linux-x86_64: what wheels for the target must be built for.
    system, _, arch = (raw.target.text("platform") or "").partition("-")
    of_target = arch if system == "linux" and arch else None
    return Host(
        os=uname.reading("os", str, "uname"),
        distribution=kernel.reading("distribution", str, "/etc/os-release"),
        kernel=uname.reading("kernel", str, "uname"),
        arch=settle([answer(INTERPRETER, of_target), answer("uname", uname.text("arch"))], NO_SOURCE),
        libc=settle([parsed(Libc.parse, raw.target.text("libc"), INTERPRETER)], f"{INTERPRETER} did not tell"),
        container=settle([container], NO_SOURCE),
        wsl=kernel.reading("wsl", bool, "kernel release and /dev/dxg"),
        tegra=tegra.reading("told", str, tegra.text("source") or ""),
        sandbox=kernel.reading("sandbox", str, "/proc/version and uname", "the kernel bears no mark of one"),
        secure_boot=kernel.reading(
            "secure_boot", bool, "the firmware's variable SecureBoot", "its variables are not to be seen"
        ),
        lockdown=kernel.reading(
            "lockdown", str, "/sys/kernel/security/lockdown", "/sys/kernel/security is not to be seen"
        ),
        module_signatures=kernel.reading(
            "module_signatures", bool, "module.sig_enforce", "/sys/module/module/parameters is not to be seen"
        ),
        suspends=kernel.reading(
            "suspends", int, "/sys/power/suspend_stats/success", "the kernel does not count them here"
        ),
        image=kernel.reading("image", str, "/run/ostree-booted", "it bears no mark of one"),
    )


def kernel_log(kernel: Raw) -> Reading[tuple[KernelMessage, ...]]:
    """The lines with the Xid number and the GPU that they name."""
    log = kernel.part("kernel_log")
    source = log.text("source")
    if source is None:
        return missing(log.text("reason") or NOT_READ)
    return known(tuple(message_of(line) for line in log.all("lines", str)), source)


def amd_gpus(kernel: Raw) -> tuple[AmdGpu, ...]:
    """The nodes of AMD's compute driver that are GPUs: a processor's has no compute target."""
    found = []
    for node in kernel.parts("amd_nodes"):
        number, properties = node.get("node", int), node.get("properties", dict[str, int]) or {}
        target = properties.get("gfx_target_version", 0)
        if number is not None and target > 0 and properties.get("vendor_id") == _AMD:
            address = _address(properties)
            found.append(AmdGpu(number, node.text("name"), _gfx(target), address, node.get("memory", int)))
    return tuple(found)


def _gfx(number: int) -> str | None:
    """``gfx90a`` of 90010: two decimal digits each for minor and stepping, which the name has in hexadecimal.

    Linux, drivers/gpu/drm/amd/amdkfd/kfd_device.c (gfx_target_version); LLVM, User Guide for AMDGPU, Processors.
    """
    major, minor, stepping = number // 10000, number // 100 % 100, number % 100
    if minor > _LARGEST_DIGIT or stepping > _LARGEST_DIGIT:
        return None
    return f"gfx{major}{minor:x}{stepping:x}"


def _address(properties: Mapping[str, int]) -> str | None:
    """The PCI address of a domain and a location, which is the bus in eight bits, the device in five, the function."""
    location = properties.get("location_id")
    if location is None:
        return None
    domain = properties.get("domain", 0)
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7:x}"


def rocm(kernel: Raw) -> Reading[str]:
    """ROCm's release: its own file, then its header."""
    releases = kernel.get("rocm", dict[str, str]) or {}
    answers = [answer(name, releases.get(name)) for name in ("/opt/rocm/.info/version", "rocm_version.h")]
    return settle(answers, "there is no /opt/rocm with a release in it")


# The driver


def _driver(raw: RawFacts) -> Driver:
    kernel, nvml, cuda = raw.kernel, raw.nvml, raw.cuda
    nvml_library, cuda_library = nvml.text("library"), cuda.text("library")
    no_cuda = cuda.text("absent") or cuda.text("unloadable")
    module_version, banner = _module_version(kernel), kernel.text("proc_version")
    library = settle(
        [file_version(nvml_library), file_version(cuda_library)], "no version in the libraries' file names"
    )
    no_driver = "; ".join(
        f"{source.name}: {source.detail or source.state.value}"
        for source in raw.sources
        if source.name in _DRIVER_SOURCES
    )
    no_driver = no_driver or NO_SOURCE
    version = settle(
        [
            answer(module_version.source or "", module_version.value),
            parsed(DriverVersion.parse, nvml.text("driver_version"), "nvml"),
            parsed(DriverVersion.parse, raw.smi.driver_version, "nvidia-smi"),
        ],
        no_driver,
    )
    if not version.known and library.known and cuda_library and "compat" not in cuda_library:
        version = library
    level = [
        parsed(CudaVersion.from_number, cuda.get("cuda", int), "libcuda"),
        parsed(CudaVersion.from_number, nvml.get("cuda", int), "nvml"),
        parsed(CudaVersion.parse, raw.smi.cuda, "nvidia-smi"),
    ]
    flavor = "open" if banner and "Open Kernel Module" in banner else "proprietary"
    files = kernel.get("module_files", tuple[str, ...])
    # Each file lies below its kernel's name.
    kernels = None if files is None else tuple(dict.fromkeys(path.partition("/")[0] for path in files))
    return Driver(
        version=version,
        cuda=settle(level, no_driver),
        branch=known(version.value.branch, version.source or "") if version.value else missing(no_driver),
        module=_module(kernel),
        module_version=module_version,
        library_version=library,
        flavor=known(flavor, PROC_VERSION) if banner else missing(f"{PROC_VERSION} is not there"),
        nouveau=kernel.part("modules").reading("nouveau_loaded", bool, "/proc/modules"),
        nvml_library=reading("the loader", nvml_library, nvml.text("message")),
        cuda_library=reading("the loader", cuda_library, no_cuda),
        cuda_origin=cuda_origin(cuda_library, kernel),
        libraries=driver_libraries(kernel),
        dkms=kernel.all("dkms", DkmsBuild),
        module_kernels=reading("/lib/modules", kernels),
        module_files=reading("/lib/modules", files),
        module_blocks=kernel.reading("module_blocks", tuple[str, ...], "modprobe.d and /proc/cmdline"),
        nvml_init=nvml.reading("init", int, "nvml"),
        cuda_init=cuda.reading("init", int, "libcuda", no_cuda),
        device_nodes=kernel.all("device_nodes", DeviceNode),
    )


def _module_version(kernel: Raw) -> Reading[DriverVersion]:
    match = _MODULE_VERSION.search(kernel.text("proc_version") or "")
    answers = [
        parsed(DriverVersion.parse, match[1] if match else None, PROC_VERSION),
        parsed(DriverVersion.parse, kernel.text("sys_version"), SYS_VERSION),
    ]
    return settle(answers, f"neither {PROC_VERSION} nor {SYS_VERSION} is there")


def _module(kernel: Raw) -> Reading[Module]:
    if kernel.text("proc_version"):
        return known(Module.LOADED, PROC_VERSION)
    modules = kernel.part("modules")
    loaded, installed = modules.get("nvidia_loaded", bool), modules.get("module_installed", bool)
    if loaded is None:
        return missing("neither /proc/modules nor /sys/module is to be seen")
    if loaded:
        return known(Module.LOADED, "/proc/modules and /sys/module")
    if installed is None:
        return missing("the kernel's folder of modules is not to be seen")
    return known(Module.NOT_LOADED if installed else Module.NOT_INSTALLED, "/lib/modules")


def driver_libraries(kernel: Raw) -> tuple[DriverLibrary, ...]:
    """Every file of libcuda and libnvidia-ml, with where it comes from."""
    found = []
    for entry in kernel.all("libraries", DriverLibrary):
        release = file_version(entry.path)
        origin = _origin(entry.path, entry.mounted)
        found.append(entry._replace(release=release.value if release else None, origin=origin))
    return tuple(found)


def _origin(path: str, mounted: bool | None) -> LibraryOrigin:  # noqa: FBT001 - a fact of the file's
    for form, origin in _ORIGINS:
        if re.search(form, path):
            return origin
    if mounted:
        return LibraryOrigin.MOUNTED
    return LibraryOrigin.SYSTEM if _SYSTEM.search(path) else LibraryOrigin.OTHER


def cuda_origin(path: str | None, kernel: Raw) -> Reading[LibraryOrigin]:
    """Where the libcuda in use comes from: by its own path and, where it is one of those found, by the mounts."""
    if path is None:
        return missing("no libcuda is in use")
    # The longest, since the same library may lie in a folder and, behind a link, elsewhere.
    same = [entry for entry in kernel.all("libraries", DriverLibrary) if path.endswith(entry.path)]
    if not same:
        return known(_origin(path, None), "its path")
    return known(_origin(path, max(same, key=lambda entry: len(entry.path)).mounted), "its path and the mounts")


# CUDA toolkits


def _toolkits(raw: RawFacts) -> tuple[Toolkit, ...]:
    """Those of the host, then those that conda or wheels have put into the target."""
    on_host = (
        (entry, _toolkit(entry, "no file of it tells its version", raw.nvcc)) for entry in raw.kernel.parts("toolkits")
    )
    return (
        # One with a compiler alone is told where the compiler has answered.
        *(kit for entry, kit in on_host if entry.text("toolkit") or kit.toolkit.known),
        *(_toolkit(entry, "it has no headers", {}) for entry in raw.files.parts("toolkits")),
    )


def _toolkit(entry: Raw, reason: str, nvcc: Mapping[str, str]) -> Toolkit:
    path, others = entry.text("path") or "", entry.get("others", dict[str, str]) or {}
    versions = [
        parsed(CudaVersion.parse, entry.text("toolkit"), entry.text("source") or ""),
        *(parsed(CudaVersion.parse, version, source) for source, version in others.items()),
        parsed(CudaVersion.parse, nvcc.get(path), "nvcc"),
    ]
    return Toolkit(
        path=path,
        found_via=entry.text("found_via") or "",
        toolkit=settle(versions, reason),
        has_nvrtc=bool(entry.get("has_nvrtc", bool)),
        has_headers=bool(entry.get("has_headers", bool)),
    )


# Containers, and what was granted


def container_support(kernel: Raw) -> ContainerSupport:
    """The control group's rules, the toolkit, Docker's runtimes, and the files of the Container Device Interface."""
    rules, engine, toolkit = (kernel.part(name) for name in ("device_rules", "engine", "container_toolkit"))
    no_runtimes = NOT_READ
    if engine:
        no_runtimes = f"{_DAEMON_JSON} names none" if engine.get("configured", bool) else f"there is no {_DAEMON_JSON}"
    no_toolkit = "nvidia-ctk is there, but Debian's list of packages does not have it"
    if not toolkit.get("there", bool):
        no_toolkit = "neither nvidia-ctk nor its package is there" if toolkit else NOT_READ
    return ContainerSupport(
        device_rules=rules.reading("rules", tuple[str, ...], "devices.list", rules.text("reason") or NOT_READ),
        docker=engine.reading("program", str, _PROGRAMS, "it is not there" if engine else NOT_READ),
        has_toolkit=toolkit.reading("there", bool, _PROGRAMS, NOT_READ),
        toolkit=toolkit.reading("release", str, "/var/lib/dpkg/status", no_toolkit),
        runtimes=engine.reading("runtimes", tuple[str, ...], _DAEMON_JSON, no_runtimes),
        default_runtime=engine.reading("default_runtime", str, _DAEMON_JSON, no_runtimes),
        cdi_files=kernel.all("cdi_files", CdiFile),
    )


def mps(kernel: Raw) -> Mps:
    """Where clients look for MPS's daemon, and whether one has left its pipe there."""
    facts = kernel.part("mps")
    folder = facts.text("folder")
    if folder is None:
        return Mps(missing(NOT_READ), missing(NOT_READ))
    named_in = "CUDA_MPS_PIPE_DIRECTORY" if facts.get("told", bool) else "CUDA's default"
    return Mps(known(folder, named_in), known(bool(facts.get("daemon", bool)), f"{folder}/control"))


def grant(kernel: Raw, environment: Mapping[str, str]) -> Grant:
    """The GPUs that were granted, by the first who says so: Slurm, HTCondor, the container engine.

    CUDA_VISIBLE_DEVICES is no grant: anybody may set it.
    """
    found = _slurm(environment) or _condor(environment) or _container(kernel, environment)
    reason = "no scheduler or container engine has said so"
    return found or Grant(missing(reason), missing(reason), missing(reason))


def _slurm(environment: Mapping[str, str]) -> Grant | None:
    """Slurm, sbatch(1) and srun(1), output environment variables: the step's GPUs, the job's, how many on this node."""
    names = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
    devices = next(((name, listed(environment[name])) for name in names if environment.get(name)), None)
    count = parse_integer(environment.get("SLURM_GPUS_ON_NODE", ""))
    if devices is None and count is None and "SLURM_JOB_ID" not in environment:
        return None
    reason = f"none of {', '.join((*names, 'SLURM_GPUS_ON_NODE'))} says so"
    gpus: Reading[int] = missing(reason)
    if devices is not None:
        gpus = known(len(devices[1]), devices[0])
    elif count is not None:
        gpus = known(count, "SLURM_GPUS_ON_NODE")
    return Grant(
        known("slurm", devices[0] if devices else "SLURM_JOB_ID" if count is None else "SLURM_GPUS_ON_NODE"),
        gpus,
        missing(reason) if devices is None else known(devices[1], devices[0]),
    )


def _condor(environment: Mapping[str, str]) -> Grant | None:
    """HTCondor's variable for the GPUs of a job's slot.

    Where it has none, a word of the pool's stands there (HTCondor Manual, Configuration macros,
    ENVIRONMENT_VALUE_FOR_UnAssigned<name>): none in the manual's example, 10000 in jobs as published.
    """
    name = "_CONDOR_AssignedGPUs"
    if not environment.get(name):
        return None
    devices = tuple(entry for entry in listed(environment[name]) if entry not in _UNASSIGNED)
    return Grant(known("htcondor", name), known(len(devices), name), known(devices, name))


def _container(kernel: Raw, environment: Mapping[str, str]) -> Grant | None:
    """What the engine was asked to give (NVIDIA Container Toolkit, Specialized Configurations, GPU Enumeration).

    Outside of a container nobody heeds the variable. Mounts in its place are read first, as the toolkit does.
    """
    container, mounted = kernel.text("container"), kernel.all("mounted_requests", str)
    variable = environment.get("NVIDIA_VISIBLE_DEVICES")
    if container in (None, "none") or (not mounted and variable is None):
        return None
    source = "/var/run/nvidia-container-devices" if mounted else "NVIDIA_VISIBLE_DEVICES"
    asked = mounted or listed(variable or "")
    by = known("kubernetes" if container == "kubernetes" else "container-engine", source)
    if asked == ("all",):
        return Grant(by, missing(f"{source}: all there are"), missing(f"{source}: all there are"))
    if asked in ((), ("void",)):
        # CDI sets it too, whose own devices it shall not give twice.
        reason = f"{source}={variable}: nothing by this way; there may be another, such as CDI"
        return Grant(by, missing(reason), missing(reason))
    if asked == ("none",):
        return Grant(by, known(0, source), known((), source))
    return Grant(by, known(len(asked), source), known(asked, source))


def listed(text: str) -> tuple[str, ...]:
    """``0,2-4`` as 0, 2, 3, 4; UUIDs as they are."""
    found: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        first, last = (parse_integer(part) for part in entry.partition("-")[::2])
        if first is not None and last is not None and 0 <= last - first < _MOST:
            found += [str(number) for number in range(first, last + 1)]
        else:
            found.append(entry)
    return tuple(found)
