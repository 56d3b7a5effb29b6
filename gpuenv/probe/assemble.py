"""Raw facts to a Snapshot: pure. The order of trust is the order in which the answers are listed."""

from __future__ import annotations

from gpuenv import __version__
from gpuenv.model.reading import Reading, known, missing, settle
from gpuenv.model.snapshot import Container, Driver, Host, Module, Snapshot, Toolkit
from gpuenv.model.text import pattern
from gpuenv.model.versions import CudaVersion, DriverVersion, Libc
from gpuenv.probe.assemble_container import container_support, grant, mps
from gpuenv.probe.assemble_gpus import assemble_gpus, count_gpus, count_visible
from gpuenv.probe.assemble_kernel import amd_gpus, cuda_origin, driver_libraries, kernel_log, other_kernels, rocm
from gpuenv.probe.assemble_target import INTERPRETER, assemble_target, target_toolkits
from gpuenv.probe.parse import NO_SOURCE, fact, file_version, parsed, said
from gpuenv.probe.raw import RawFacts
from gpuenv.probe.raw_kernel import KernelFacts, RawToolkit
from gpuenv.probe.raw_target import TargetFacts

PROC_VERSION = "/proc/driver/nvidia/version"
SYS_VERSION = "/sys/module/nvidia/version"
_MODULE_VERSION = pattern(r"(?:Kernel Module(?: for \S+)?)\s+(\d[\d.]+)")


def assemble(raw: RawFacts, taken_at: str | None) -> Snapshot:
    """Settles every fact from what the sources said, and keeps what the others said beside it."""
    gpus = assemble_gpus(raw)
    return Snapshot(
        gpuenv_version=__version__,
        taken_at=taken_at,
        host=_host(raw),
        driver=_driver(raw),
        gpus=gpus,
        gpu_count=count_gpus(raw),
        visible_count=count_visible(raw),
        pci_gpus=raw.kernel.pci_gpus,
        toolkits=(*_toolkits(raw), *target_toolkits(raw)),
        pointing_nowhere=raw.kernel.pointing_nowhere,
        amd_gpus=amd_gpus(raw.kernel),
        rocm=rocm(raw.kernel),
        kernel_log=kernel_log(raw.kernel.kernel_log),
        container_support=container_support(raw.kernel),
        grant=grant(raw.kernel, raw.environment),
        mps=mps(raw.kernel),
        target=assemble_target(raw),
        environment=dict(raw.environment),
        sources=raw.sources,
    )


def _host(raw: RawFacts) -> Host:
    kernel, target = raw.kernel, raw.target
    container = parsed(Container, kernel.container, "the marks container engines leave")
    return Host(
        os=fact("uname", kernel.uname.os),
        distribution=fact("/etc/os-release", kernel.distribution),
        kernel=fact("uname", kernel.uname.kernel),
        arch=settle([said(INTERPRETER, _arch(target)), said("uname", kernel.uname.arch)], NO_SOURCE),
        libc=settle([parsed(Libc.parse, target.libc, INTERPRETER)], f"{INTERPRETER} did not tell"),
        container=settle([container], NO_SOURCE),
        wsl=fact("kernel release and /dev/dxg", kernel.wsl),
        tegra=known(kernel.tegra.told, kernel.tegra.source) if kernel.tegra else missing(NO_SOURCE),
        sandbox=fact("/proc/version and uname", kernel.sandbox, "the kernel bears no mark of one"),
        secure_boot=fact("the firmware's variable SecureBoot", kernel.secure_boot, "its variables are not to be seen"),
        lockdown=fact("/sys/kernel/security/lockdown", kernel.lockdown, "/sys/kernel/security is not to be seen"),
        module_signatures=fact(
            "module.sig_enforce", kernel.module_signatures, "/sys/module/module/parameters is not to be seen"
        ),
        suspends=fact("/sys/power/suspend_stats/success", kernel.suspends, "the kernel does not count them here"),
        image=fact("/run/ostree-booted", kernel.image, "it bears no mark of one"),
    )


def _arch(target: TargetFacts) -> str | None:
    """``x86_64`` of ``linux-x86_64``: what wheels for the target must be built for."""
    system, _, arch = (target.platform or "").partition("-")
    return arch if system == "linux" and arch else None


def _driver(raw: RawFacts) -> Driver:
    kernel, nvml, cuda = raw.kernel, raw.nvml, raw.cuda
    module_version = _module_version(kernel)
    library = settle(
        [file_version(nvml.library), file_version(cuda.library)], "no version in the libraries' file names"
    )
    version = _driver_version(raw, module_version)
    if not version.known and library.known and cuda.library and "compat" not in cuda.library:
        version = library
    return Driver(
        version=version,
        cuda=_driver_cuda(raw),
        branch=known(version.value.branch, version.source or "") if version.value else missing(_why_no_driver(raw)),
        module=_module(kernel),
        module_version=module_version,
        library_version=library,
        flavor=_flavor(kernel),
        nouveau=fact("/proc/modules", kernel.modules.nouveau_loaded if kernel.modules else None),
        nvml_library=fact("the loader", nvml.library, nvml.message),
        cuda_library=fact("the loader", cuda.library, cuda.absent or cuda.unloadable),
        cuda_origin=cuda_origin(cuda.library, kernel),
        libraries=driver_libraries(kernel),
        dkms=kernel.dkms,
        module_kernels=fact("/lib/modules", other_kernels(kernel.module_files)),
        module_files=fact("/lib/modules", kernel.module_files),
        module_blocks=fact("modprobe.d and /proc/cmdline", kernel.module_blocks),
        nvml_init=fact("nvml", nvml.init),
        cuda_init=fact("libcuda", cuda.init, cuda.absent or cuda.unloadable),
        device_nodes=kernel.device_nodes,
    )


def _driver_version(raw: RawFacts, module_version: Reading[DriverVersion]) -> Reading[DriverVersion]:
    answers = [
        said(module_version.source or "", module_version.value),
        parsed(DriverVersion.parse, raw.nvml.driver_version, "nvml"),
        parsed(DriverVersion.parse, raw.smi.driver_version, "nvidia-smi"),
    ]
    return settle(answers, _why_no_driver(raw))


def _driver_cuda(raw: RawFacts) -> Reading[CudaVersion]:
    answers = [
        parsed(CudaVersion.from_number, raw.cuda.cuda, "libcuda"),
        parsed(CudaVersion.from_number, raw.nvml.cuda, "nvml"),
        parsed(CudaVersion.parse, raw.smi.cuda, "nvidia-smi"),
    ]
    return settle(answers, _why_no_driver(raw))


def _why_no_driver(raw: RawFacts) -> str:
    words = [
        f"{source.name}: {source.detail or source.state.value}"
        for source in raw.sources
        if source.name in _DRIVER_SOURCES
    ]
    return "; ".join(words) or NO_SOURCE


_DRIVER_SOURCES = ("nvml", "libcuda", "nvidia-smi")


def _module_version(kernel: KernelFacts) -> Reading[DriverVersion]:
    match = _MODULE_VERSION.search(kernel.proc_version or "")
    answers = [
        parsed(DriverVersion.parse, match[1] if match else None, PROC_VERSION),
        parsed(DriverVersion.parse, kernel.sys_version, SYS_VERSION),
    ]
    return settle(answers, f"neither {PROC_VERSION} nor {SYS_VERSION} is there")


def _module(kernel: KernelFacts) -> Reading[Module]:
    if kernel.proc_version:
        return known(Module.LOADED, PROC_VERSION)
    if kernel.modules is None or kernel.modules.nvidia_loaded is None:
        return missing("neither /proc/modules nor /sys/module is to be seen")
    if kernel.modules.nvidia_loaded:
        return known(Module.LOADED, "/proc/modules and /sys/module")
    if kernel.modules.module_installed is None:
        return missing("the kernel's folder of modules is not to be seen")
    state = Module.NOT_LOADED if kernel.modules.module_installed else Module.NOT_INSTALLED
    return known(state, "/lib/modules")


def _flavor(kernel: KernelFacts) -> Reading[str]:
    if not kernel.proc_version:
        return missing(f"{PROC_VERSION} is not there")
    return known("open" if "Open Kernel Module" in kernel.proc_version else "proprietary", PROC_VERSION)


def _toolkits(raw: RawFacts) -> tuple[Toolkit, ...]:
    kits = ((entry, _toolkit(raw, entry)) for entry in raw.kernel.toolkits)
    # One with a compiler alone is told where the compiler has answered.
    return tuple(kit for entry, kit in kits if entry.toolkit or kit.toolkit.known)


def _toolkit(raw: RawFacts, entry: RawToolkit) -> Toolkit:
    answers = [
        parsed(CudaVersion.parse, entry.toolkit, entry.source or ""),
        *(parsed(CudaVersion.parse, told, source) for source, told in entry.others.items()),
        parsed(CudaVersion.parse, raw.nvcc.get(entry.path), "nvcc"),
    ]
    return Toolkit(
        path=entry.path,
        found_via=entry.found_via,
        toolkit=settle(answers, "no file of it tells its version"),
        has_nvrtc=entry.has_nvrtc,
        has_headers=entry.has_headers,
    )
