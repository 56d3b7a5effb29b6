"""Assembles a Snapshot from raw facts. Answers are listed in order of trust."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from gpuenv.probe.children import UserIdentity
from gpuenv.probe.gpu_assembly import assemble_gpus, count_gpus, count_visible
from gpuenv.probe.raw import (
    NO_SOURCE,
    NOT_READ,
    Raw,
    RawFacts,
    SmiFacts,
    answer,
    file_version,
    parse_answer,
    parse_message,
    reading,
)
from gpuenv.probe.request import ProbeRequest
from gpuenv.probe.target import named_by
from gpuenv.probe.target_assembly import INTERPRETER, assemble_target

_VARIABLES = (
    "CUDA", "NVIDIA_", "CUPY_", "NVCC", "NUMBA_", "LD_LIBRARY_PATH", "LD_PRELOAD", "CONDA_PREFIX", "VIRTUAL_ENV",
    "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS",
    "SLURM_GPUS_ON_NODE", "SLURM_STEP_NUM_TASKS", "LSB_JOBID", "PBS_JOBID", "GPU_DEVICE_ORDINAL", "WSL_DISTRO_NAME",
    "_CONDOR_AssignedGPUs", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip
PROC_VERSION = "/proc/driver/nvidia/version"
SYS_VERSION = "/sys/module/nvidia/version"
_PARAMS, _KERNEL_GPUS = "/proc/driver/nvidia/params", "/proc/driver/nvidia/gpus"
_DAEMON_JSON = "/etc/docker/daemon.json"
_PROGRAMS = "the folders of programs"
_MODULE_VERSION = pattern(r"(?:Kernel Module(?: for \S+)?)\s+(\d[\d.]+)")
_AMD = 0x1002  # PCI vendor id
_LARGEST_DIGIT = 15
# By a library's path; the first match counts. The folders are those that scripts/kernel.py searches.
_ORIGINS = (
    (r"/stubs/", LibraryOrigin.STUB),
    (r"/(?:cuda-)?compat(/|$)", LibraryOrigin.COMPAT),  # conda-forge's package cuda-compat has a folder of its name
    (r"/usr/lib/wsl/", LibraryOrigin.WSL),
    (r"/nix/store/|/run/opengl-driver/", LibraryOrigin.NIXOS),
    (r"/usr/lib/[^/]+/GL/nvidia-[^/]+/", LibraryOrigin.FLATPAK),
    (r"/usr/lib64-nvidia/|/usr/local/nvidia/|/var/lib/nvidia/", LibraryOrigin.CLOUD),
    (r"/usr/lib/aarch64-linux-gnu/(tegra|nvidia)/", LibraryOrigin.TEGRA),
    (r"/\.singularity\.d/libs/", LibraryOrigin.MOUNTED),
)
_SYSTEM = pattern(r"/(usr/)?lib(64)?/([\w-]+-linux-gnu/)?(nvidia/(current/)?)?lib[^/]+$")
_DRIVER_SOURCES = ("nvml", "libcuda", "nvidia-smi")
_MOST = 256  # devices in a range
_UNASSIGNED = ("10000", "none")


def assemble_snapshot(
    answers: Mapping[str, Any],
    request: ProbeRequest,
    interpreter: str | None,
    began: float,
    identity: UserIdentity | None,
) -> Snapshot:
    """The Snapshot of a session that began at this reading of ``time.monotonic``.

    ``answers`` are by the name of the source; a late source is missing. ``identity`` is the owner as whom root examined
    the target.
    """

    def late(name: str) -> Source:
        return Source(name, SourceState.TIMED_OUT, "no answer in time", request.timeout)

    not_probed = "there is no target to probe"
    kernel, kernel_source, nvcc, nvcc_source = answers.get("kernel", (Raw(), late("kernel"), {}, late("nvcc")))
    nvml, nvml_source = answers.get("nvml", (Raw(), late("nvml")))
    cuda, cuda_source = answers.get("libcuda", (Raw(), late("libcuda")))
    smi, smi_source = answers.get("nvidia-smi", (SmiFacts(), late("nvidia-smi")))
    no_target, no_files = late("target"), late("files")
    if interpreter is None:
        no_target = Source("target", SourceState.ABSENT, "no Python on PATH")
        if request.host_only:
            no_target = Source("target", SourceState.NOT_ASKED, "only the host is judged")
        no_files = Source("files", SourceState.NOT_ASKED, not_probed)
    no_libraries = Source("libraries", SourceState.NOT_ASKED, not_probed)
    target, target_source, libraries, libraries_source = answers.get("target", (Raw(), no_target, Raw(), no_libraries))
    # None also if the target did not answer in time.
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
        examined_as=f"uid {identity.uid}" if identity else None,
        target_named_by=named_by(request.python, request.environment),
        target_reason=target_source.detail,
        libraries=libraries,
        files=files,
        environment=relevant_variables(request.environment),
        sources=tuple(source._replace(started=max(0.0, source.started - began)) for source in sources),
    )
    return assemble(raw, request.taken_at)


def relevant_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that affect which GPU, CUDA and Python are used."""
    return {name: environment[name] for name in sorted(environment) if name.startswith(_VARIABLES)}


def assemble(raw: RawFacts, taken_at: str | None) -> Snapshot:
    """Settles every fact by the sources' answers, and keeps differing answers with it."""
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
        grant=find_grant(kernel, raw.environment),
        mps=mps(kernel),
        target=assemble_target(raw),
        environment=dict(raw.environment),
        sources=raw.sources,
    )


# The host


def _host(raw: RawFacts) -> Host:
    kernel, uname, tegra = raw.kernel, raw.kernel.part("uname"), raw.kernel.part("tegra")
    container = parse_answer(Container, kernel.text("container"), "the marks container engines leave")
    # linux-x86_64: the platform of the target's wheels.
    system, _, arch = (raw.target.text("platform") or "").partition("-")
    target_arch = arch if system == "linux" and arch else None
    return Host(
        os=uname.reading("os", str, "uname"),
        distribution=kernel.reading("distribution", str, "/etc/os-release"),
        kernel=uname.reading("kernel", str, "uname"),
        arch=settle([answer(INTERPRETER, target_arch), answer("uname", uname.text("arch"))], NO_SOURCE),
        libc=settle([parse_answer(Libc.parse, raw.target.text("libc"), INTERPRETER)], f"{INTERPRETER} printed none"),
        container=settle([container], NO_SOURCE),
        wsl=kernel.reading("wsl", bool, "kernel release and /dev/dxg"),
        tegra=tegra.reading("name", str, tegra.text("source") or ""),
        sandbox=kernel.reading("sandbox", str, "/proc/version and uname", "the kernel has no mark of one"),
        secure_boot=kernel.reading(
            "secure_boot", bool, "the firmware's variable SecureBoot", "its variables are not visible"
        ),
        lockdown=kernel.reading(
            "lockdown", str, "/sys/kernel/security/lockdown", "/sys/kernel/security is not visible"
        ),
        module_signatures=kernel.reading(
            "module_signatures", bool, "module.sig_enforce", "/sys/module/module/parameters is not visible"
        ),
        overcommit=kernel.reading("overcommit", int, "/proc/sys/vm/overcommit_memory"),
        address_limit=kernel.reading("address_limit", int, "RLIMIT_AS", "this process has no limit"),
        suspends=kernel.reading("suspends", int, "/sys/power/suspend_stats/success", "the kernel does not count them"),
        image=kernel.reading("image", str, "/run/ostree-booted", "no mark of one was found"),
    )


def kernel_log(kernel: Raw) -> Reading[tuple[KernelMessage, ...]]:
    """The kernel log with the Xid numbers and GPUs that its lines name."""
    log = kernel.part("kernel_log")
    source = log.text("source")
    if source is None:
        return missing(log.text("reason") or NOT_READ)
    return known(tuple(parse_message(line) for line in log.all("lines", str)), source)


def amd_gpus(kernel: Raw) -> tuple[AmdGpu, ...]:
    """The nodes of AMD's compute driver that are GPUs: CPU nodes have no compute target."""
    found = []
    for node in kernel.parts("amd_nodes"):
        number, properties = node.get("node", int), node.get("properties", dict[str, int]) or {}
        target = properties.get("gfx_target_version", 0)
        if number is not None and target > 0 and properties.get("vendor_id") == _AMD:
            address = _address(properties)
            found.append(AmdGpu(number, node.text("name"), _gfx(target), address, node.get("memory", int)))
    return tuple(found)


def _gfx(number: int) -> str | None:
    """``gfx90a`` for 90010: two decimal digits each for minor and stepping, which are hexadecimal in the name.

    Linux, drivers/gpu/drm/amd/amdkfd/kfd_device.c (gfx_target_version); LLVM, User Guide for AMDGPU, Processors.
    """
    major, minor, stepping = number // 10000, number // 100 % 100, number % 100
    if minor > _LARGEST_DIGIT or stepping > _LARGEST_DIGIT:
        return None
    return f"gfx{major}{minor:x}{stepping:x}"


def _address(properties: Mapping[str, int]) -> str | None:
    """The PCI address: ``location_id`` holds the bus in eight bits, the device in five, the function in three."""
    location = properties.get("location_id")
    if location is None:
        return None
    domain = properties.get("domain", 0)
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7:x}"


def rocm(kernel: Raw) -> Reading[str]:
    """ROCm's release: its own file, then its header."""
    releases = kernel.get("rocm", dict[str, str]) or {}
    answers = [answer(name, releases.get(name)) for name in ("/opt/rocm/.info/version", "rocm_version.h")]
    return settle(answers, "no ROCm release in /opt/rocm")


# The driver


def _driver(raw: RawFacts) -> Driver:
    kernel, nvml, cuda = raw.kernel, raw.nvml, raw.cuda
    nvml_library, cuda_library = nvml.text("library"), cuda.text("library")
    no_cuda = cuda.text("absent") or cuda.text("unloadable")
    module_version, banner = _module_version(kernel), kernel.text("proc_version")
    library = settle(
        [file_version(nvml_library), file_version(cuda_library)], "the libraries' file names have no version"
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
            parse_answer(DriverVersion.parse, nvml.text("driver_version"), "nvml"),
            parse_answer(DriverVersion.parse, raw.smi.driver_version, "nvidia-smi"),
        ],
        no_driver,
    )
    if not version.known and library.known and cuda_library and "compat" not in cuda_library:
        version = library
    level = [
        parse_answer(CudaVersion.from_number, cuda.get("cuda", int), "libcuda"),
        parse_answer(CudaVersion.from_number, nvml.get("cuda", int), "nvml"),
        parse_answer(CudaVersion.parse, raw.smi.cuda, "nvidia-smi"),
    ]
    flavor = "open" if banner and "Open Kernel Module" in banner else "proprietary"
    files = kernel.get("module_files", tuple[str, ...])
    listed = kernel.parts("driver_gpus")
    excluded = tuple(gpu.text("pci") or "unknown" for gpu in listed if gpu.get("excluded", bool))
    # Paths begin with the kernel's name.
    kernels = None if files is None else tuple(dict.fromkeys(path.partition("/")[0] for path in files))
    return Driver(
        version=version,
        cuda=settle(level, no_driver),
        branch=known(version.value.branch, version.source or "") if version.value else missing(no_driver),
        module=_module(kernel),
        module_version=module_version,
        library_version=library,
        flavor=known(flavor, PROC_VERSION) if banner else missing(f"{PROC_VERSION} does not exist"),
        nouveau=kernel.part("modules").reading("nouveau_loaded", bool, "/proc/modules"),
        nvml_library=reading("the loader", nvml_library, nvml.text("message")),
        cuda_library=reading("the loader", cuda_library, no_cuda),
        cuda_origin=cuda_origin(cuda_library, kernel),
        libraries=driver_libraries(kernel),
        dkms=kernel.all("dkms", DkmsBuild),
        module_kernels=reading("/lib/modules", kernels),
        module_files=reading("/lib/modules", files),
        module_blocks=kernel.reading("module_blocks", tuple[str, ...], "modprobe.d and /proc/cmdline"),
        module_options=_module_options(kernel),
        excluded_gpus=known(excluded, _KERNEL_GPUS) if listed else missing(f"{_KERNEL_GPUS} lists none"),
        uninstaller=kernel.reading("uninstaller", str, "/usr/bin", "NVIDIA's .run file installed no driver"),
        nvml_init=nvml.reading("init", int, "nvml"),
        cuda_init=cuda.reading("init", int, "libcuda", no_cuda),
        device_nodes=kernel.all("device_nodes", DeviceNode),
    )


def _module_options(kernel: Raw) -> Reading[tuple[str, ...]]:
    """The lines that set options, and the GPUs that the loaded module excludes by them."""
    options = kernel.reading("module_options", tuple[str, ...], f"modprobe.d, /proc/cmdline and {_PARAMS}")
    excluded = kernel.text("driver_params")
    if options.value is None or excluded is None:
        return options
    return known((*options.value, f"{_PARAMS}: NVreg_ExcludedGpus={excluded}"), options.source or "")


def _module_version(kernel: Raw) -> Reading[DriverVersion]:
    match = _MODULE_VERSION.search(kernel.text("proc_version") or "")
    answers = [
        parse_answer(DriverVersion.parse, match[1] if match else None, PROC_VERSION),
        parse_answer(DriverVersion.parse, kernel.text("sys_version"), SYS_VERSION),
    ]
    return settle(answers, f"neither {PROC_VERSION} nor {SYS_VERSION} exists")


def _module(kernel: Raw) -> Reading[Module]:
    if kernel.text("proc_version"):
        return known(Module.LOADED, PROC_VERSION)
    modules = kernel.part("modules")
    loaded, installed = modules.get("nvidia_loaded", bool), modules.get("module_installed", bool)
    if loaded is None:
        return missing("neither /proc/modules nor /sys/module is visible")
    if loaded:
        return known(Module.LOADED, "/proc/modules and /sys/module")
    if installed is None:
        return missing("the kernel's folder of modules is not visible")
    return known(Module.NOT_LOADED if installed else Module.NOT_INSTALLED, "/lib/modules")


def driver_libraries(kernel: Raw) -> tuple[DriverLibrary, ...]:
    """Every file of libcuda and libnvidia-ml with its origin."""
    found = []
    for entry in kernel.all("libraries", DriverLibrary):
        release = file_version(entry.path)
        origin = _origin(entry.path, entry.mounted)
        found.append(entry._replace(release=release.value if release else None, origin=origin))
    return tuple(found)


def _origin(path: str, mounted: bool | None) -> LibraryOrigin:  # noqa: FBT001 - a fact about the file
    for form, origin in _ORIGINS:
        if re.search(form, path):
            return origin
    if mounted:
        return LibraryOrigin.MOUNTED
    return LibraryOrigin.SYSTEM if _SYSTEM.search(path) else LibraryOrigin.OTHER


def cuda_origin(path: str | None, kernel: Raw) -> Reading[LibraryOrigin]:
    """The origin of the libcuda in use, by its path and, if it is among the libraries found, by the mounts."""
    if path is None:
        return missing("no libcuda is in use")
    # The longest path, since a link may show the same library in another folder.
    same = [entry for entry in kernel.all("libraries", DriverLibrary) if path.endswith(entry.path)]
    if not same:
        return known(_origin(path, None), "its path")
    return known(_origin(path, max(same, key=lambda entry: len(entry.path)).mounted), "its path and the mounts")


# CUDA toolkits


def _toolkits(raw: RawFacts) -> tuple[Toolkit, ...]:
    """The toolkits of the host, then those that conda or wheels installed in the target."""
    on_host = (
        (entry, _toolkit(entry, "none of its files has a version", raw.nvcc)) for entry in raw.kernel.parts("toolkits")
    )
    return (
        # A toolkit with only a compiler counts if the compiler answered.
        *(kit for entry, kit in on_host if entry.text("toolkit") or kit.toolkit.known),
        *(_toolkit(entry, "it has no headers", {}) for entry in raw.files.parts("toolkits")),
    )


def _toolkit(entry: Raw, reason: str, nvcc: Mapping[str, str]) -> Toolkit:
    path, others = entry.text("path") or "", entry.get("others", dict[str, str]) or {}
    versions = [
        parse_answer(CudaVersion.parse, entry.text("toolkit"), entry.text("source") or ""),
        *(parse_answer(CudaVersion.parse, version, source) for source, version in others.items()),
        parse_answer(CudaVersion.parse, nvcc.get(path), "nvcc"),
    ]
    return Toolkit(
        path=path,
        found_via=entry.text("found_via") or "",
        toolkit=settle(versions, reason),
        has_nvrtc=bool(entry.get("has_nvrtc", bool)),
        has_headers=bool(entry.get("has_headers", bool)),
    )


# Containers and granted GPUs


def container_support(kernel: Raw) -> ContainerSupport:
    """The control group's rules, the toolkit, Docker's runtimes, and the files of the Container Device Interface."""
    rules, engine, toolkit = (kernel.part(name) for name in ("device_rules", "engine", "container_toolkit"))
    no_runtimes = NOT_READ
    if engine:
        no_runtimes = f"{_DAEMON_JSON} names none" if engine.get("configured", bool) else f"there is no {_DAEMON_JSON}"
    no_toolkit = "nvidia-ctk is installed, but not in Debian's list of packages"
    if not toolkit.get("installed", bool):
        no_toolkit = "neither nvidia-ctk nor its package is installed" if toolkit else NOT_READ
    return ContainerSupport(
        device_rules=rules.reading("rules", tuple[str, ...], "devices.list", rules.text("reason") or NOT_READ),
        docker=engine.reading("program", str, _PROGRAMS, "it is not installed" if engine else NOT_READ),
        has_toolkit=toolkit.reading("installed", bool, _PROGRAMS, NOT_READ),
        toolkit=toolkit.reading("release", str, "/var/lib/dpkg/status", no_toolkit),
        runtimes=engine.reading("runtimes", tuple[str, ...], _DAEMON_JSON, no_runtimes),
        default_runtime=engine.reading("default_runtime", str, _DAEMON_JSON, no_runtimes),
        cdi_files=kernel.all("cdi_files", CdiFile),
    )


def mps(kernel: Raw) -> Mps:
    """The folder in which clients expect MPS's daemon, and whether its pipe is there."""
    facts = kernel.part("mps")
    folder = facts.text("folder")
    if folder is None:
        return Mps(missing(NOT_READ), missing(NOT_READ))
    source = "CUDA_MPS_PIPE_DIRECTORY" if facts.get("configured", bool) else "CUDA's default"
    return Mps(known(folder, source), known(bool(facts.get("daemon", bool)), f"{folder}/control"))


def find_grant(kernel: Raw, environment: Mapping[str, str]) -> Grant:
    """The granted GPUs, by the first source that has them: Slurm, HTCondor, the container engine.

    CUDA_VISIBLE_DEVICES is not a grant: any user may set it.
    """
    found = _slurm(environment) or _condor(environment) or _container(kernel, environment)
    reason = "no scheduler or container engine reports a grant"
    return found or Grant(missing(reason), missing(reason), missing(reason))


def _slurm(environment: Mapping[str, str]) -> Grant | None:
    """Slurm, sbatch(1) and srun(1), output environment variables: the step's GPUs, the job's, how many on this node."""
    names = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
    devices = next(((name, parse_device_list(environment[name])) for name in names if environment.get(name)), None)
    count = parse_integer(environment.get("SLURM_GPUS_ON_NODE", ""))
    if devices is None and count is None and "SLURM_JOB_ID" not in environment:
        return None
    reason = f"none of {', '.join((*names, 'SLURM_GPUS_ON_NODE'))} is set"
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

    Without a GPU, it holds a value that the pool configures (HTCondor Manual, Configuration macros,
    ENVIRONMENT_VALUE_FOR_UnAssigned<name>): none in the manual's example, 10000 in jobs as published.
    """
    name = "_CONDOR_AssignedGPUs"
    if not environment.get(name):
        return None
    devices = tuple(entry for entry in parse_device_list(environment[name]) if entry not in _UNASSIGNED)
    return Grant(known("htcondor", name), known(len(devices), name), known(devices, name))


def _container(kernel: Raw, environment: Mapping[str, str]) -> Grant | None:
    """The GPUs requested of the engine (NVIDIA Container Toolkit, Specialized Configurations, GPU Enumeration).

    Outside a container the variable has no effect. Mounts take precedence over it, as in the toolkit.
    """
    container, mounted = kernel.text("container"), kernel.all("mounted_requests", str)
    variable = environment.get("NVIDIA_VISIBLE_DEVICES")
    if container in (None, "none") or (not mounted and variable is None):
        return None
    source = "/var/run/nvidia-container-devices" if mounted else "NVIDIA_VISIBLE_DEVICES"
    requested = _of_gpus(mounted or parse_device_list(variable or ""))
    by = known("kubernetes" if container == "kubernetes" else "container-engine", source)
    if "all" in requested:
        return Grant(by, missing(f"{source}: all GPUs"), missing(f"{source}: all GPUs"))
    if requested in ((), ("void",)):
        # Set also with CDI, to keep the toolkit from adding CDI's devices a second time.
        reason = f"{source}={variable}: none in this way; there may be another, such as CDI"
        return Grant(by, missing(reason), missing(reason))
    if requested == ("none",):
        return Grant(by, known(0, source), known((), source))
    return Grant(by, known(len(requested), source), known(requested, source))


def _of_gpus(requested: Sequence[str]) -> tuple[str, ...]:
    """The requested GPUs by their names alone, if they are requested as devices of CDI; without devices of other kinds.

    A device of CDI is ``vendor/class=name``; NVIDIA's classes of GPUs are ``nvidia.com/gpu`` and
    ``runtime.nvidia.com/gpu``, another is ``nvidia.com/pva`` (NVIDIA Container Toolkit, Support for CDI).
    """
    parts = (entry.rpartition("=") for entry in requested)
    return tuple(name for kind, _, name in parts if not kind or kind.endswith("nvidia.com/gpu"))


def parse_device_list(text: str) -> tuple[str, ...]:
    """The entries of a device list: ``0,2-4`` becomes 0, 2, 3, 4; UUIDs are kept."""
    found: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        first, last = (parse_integer(part) for part in entry.partition("-")[::2])
        if first is not None and last is not None and 0 <= last - first < _MOST:
            found += [str(number) for number in range(first, last + 1)]
        else:
            found.append(entry)
    return tuple(found)
