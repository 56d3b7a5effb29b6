"""What contains this process and what it was granted, made into facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import ContainerSupport, Grant, Mps
from gpuenv.model.text import whole_number
from gpuenv.probe.parse import fact
from gpuenv.probe.raw_kernel import KernelFacts

_NOT_READ = "nobody looked"
_PROGRAMS = "the folders of programs"
_MOST = 256  # devices of a range
_UNASSIGNED = ("10000", "none")


def container_support(kernel: KernelFacts) -> ContainerSupport:
    """The control group's rules, the toolkit, Docker's runtimes, and the files of the Container Device Interface."""
    rules, engine, toolkit = kernel.device_rules, kernel.engine, kernel.container_toolkit
    no_runtimes = _NOT_READ
    if engine is not None:
        no_runtimes = (
            "/etc/docker/daemon.json names none" if engine.configured else "there is no /etc/docker/daemon.json"
        )
    no_toolkit = "nvidia-ctk is there, but Debian's list of packages does not have it"
    if toolkit is None or not toolkit.there:
        no_toolkit = "neither nvidia-ctk nor its package is there" if toolkit else _NOT_READ
    return ContainerSupport(
        device_rules=fact(
            "devices.list", rules.rules if rules else None, (rules.reason if rules else None) or _NOT_READ
        ),
        docker=fact(_PROGRAMS, engine.program if engine else None, "it is not there" if engine else _NOT_READ),
        has_toolkit=fact(_PROGRAMS, toolkit.there if toolkit else None, _NOT_READ),
        toolkit=fact("/var/lib/dpkg/status", toolkit.release if toolkit else None, no_toolkit),
        runtimes=fact("/etc/docker/daemon.json", engine.runtimes if engine else None, no_runtimes),
        default_runtime=fact("/etc/docker/daemon.json", engine.default_runtime if engine else None, no_runtimes),
        cdi_files=kernel.cdi_files,
    )


def mps(kernel: KernelFacts) -> Mps:
    """Where clients look for MPS's daemon, and whether one has left its pipe there."""
    if kernel.mps is None:
        return Mps(missing(_NOT_READ), missing(_NOT_READ))
    told = "CUDA_MPS_PIPE_DIRECTORY" if kernel.mps.told else "CUDA's default"
    return Mps(known(kernel.mps.folder, told), known(kernel.mps.daemon, f"{kernel.mps.folder}/control"))


def grant(kernel: KernelFacts, environment: Mapping[str, str]) -> Grant:
    """The GPUs that were granted, by the first who says so: Slurm, HTCondor, the container engine.

    CUDA_VISIBLE_DEVICES is no grant: anybody may set it.
    """
    return _slurm(environment) or _condor(environment) or _container(kernel, environment) or _nobody()


def _nobody() -> Grant:
    reason = "no scheduler or container engine has said so"
    return Grant(missing(reason), missing(reason), missing(reason))


def _slurm(environment: Mapping[str, str]) -> Grant | None:
    """Slurm, sbatch(1) and srun(1), output environment variables: the step's GPUs, the job's, how many on this node."""
    names = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
    devices = next(((name, listed(environment[name])) for name in names if environment.get(name)), None)
    count = whole_number(environment.get("SLURM_GPUS_ON_NODE", ""))
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


def _container(kernel: KernelFacts, environment: Mapping[str, str]) -> Grant | None:
    """What the engine was asked to give (NVIDIA Container Toolkit, Specialized Configurations, GPU Enumeration).

    Outside of a container nobody heeds the variable. Mounts in its place are read first, as the toolkit does.
    """
    if kernel.container in (None, "none"):
        return None
    variable = environment.get("NVIDIA_VISIBLE_DEVICES")
    if not kernel.mounted_requests and variable is None:
        return None
    source = "/var/run/nvidia-container-devices" if kernel.mounted_requests else "NVIDIA_VISIBLE_DEVICES"
    asked = kernel.mounted_requests or listed(variable or "")
    by = known("kubernetes" if kernel.container == "kubernetes" else "container-engine", source)
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
        first, last = (whole_number(part) for part in entry.partition("-")[::2])
        if first is not None and last is not None and 0 <= last - first < _MOST:
            found += [str(number) for number in range(first, last + 1)]
        else:
            found.append(entry)
    return tuple(found)
