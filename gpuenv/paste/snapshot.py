"""A paste as a partial Snapshot; what it does not say stays unknown. Pure."""

from __future__ import annotations

from gpuenv.matrix.records import Matrix
from gpuenv.model.identity import NVIDIA
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import AmdGpu, Container, ContainerSupport, Host, Module, PciGpu, Snapshot
from gpuenv.model.versions import Libc, PythonVersion
from gpuenv.paste import forms
from gpuenv.paste.driver import gpu_of, no_driver, pasted_driver, pasted_sources
from gpuenv.paste.merge import UNSAID, amd_gpus, answers, count, merged_gpus, reading, visible
from gpuenv.paste.records import Pasted
from gpuenv.paste.target import pasted_target, pasted_toolkits

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
# CPython 3.8, Lib/platform.py: platform() takes what the interpreter was linked with; from 3.9 on the C library's own
# answer (measured on Debian 12 with 3.8.18, which tells 2.34 of 2.36, and with 3.9.18).
_FIRST_TO_ASK_LIBC = PythonVersion(3, 9)


def to_snapshot(pasted: Pasted, matrix: Matrix) -> Snapshot:
    """The Snapshot of what a paste says.

    Args:
        pasted: the paste.
        matrix: looks up a GPU's compute capability and a driver's CUDA level, where the paste does not say them.
    """
    form, gpus = merged_gpus(pasted)
    target = pasted_target(pasted)
    nothing_there = bool(pasted.listings) and not target.cupy
    return Snapshot(
        host=_host(pasted),
        driver=pasted_driver(pasted, matrix),
        gpus=tuple(gpu_of(gpu, f"pasted {form}", matrix) for gpu in gpus),
        gpu_count=count(pasted),
        visible_count=visible(pasted),
        pci_gpus=_devices(pasted),
        toolkits=pasted_toolkits(pasted),
        amd_gpus=tuple(AmdGpu(node, name, gfx) for node, (name, gfx) in enumerate(amd_gpus(pasted))),
        rocm=reading(pasted, "rocm-release", str),
        kernel_log=known(pasted.log, f"pasted {forms.DMESG}") if pasted.log else Reading(),
        container_support=_container_support(pasted),
        target=target,
        environment={
            entry.fact.removeprefix("env."): entry.value
            for entry in reversed(pasted.said)
            if entry.fact.startswith("env.")
        },
        sources=pasted_sources(pasted),
        assumed=(*(("target.cupy",) if nothing_there else ()), *no_driver(pasted)),
    )


def known_keys(snapshot: Snapshot) -> frozenset[str]:
    """The facts of a Snapshot that are known, by the names that ``--assume`` has for them.

    Of a GPU whose driver is not there, nothing is left to assume: one that is assumed would be driven.
    """
    host, driver, target = snapshot.host, snapshot.driver, snapshot.target
    undriven = driver.module.value in (Module.NOT_LOADED, Module.NOT_INSTALLED)
    known_facts = {
        "os": host.os.known,
        "arch": host.arch.known,
        "libc": host.libc.known,
        "wsl": host.wsl.known,
        "driver": driver.version.known,
        "driver-cuda": driver.cuda.known,
        "gpu": bool(snapshot.gpus) or undriven,
        "compute-capability": undriven or any(gpu.compute_capability.known for gpu in snapshot.gpus),
        "python": target.python.known,
        "numpy": target.numpy.known,
        "cupy": bool(target.cupy),
        "toolkit": bool(snapshot.toolkits),
    }
    return frozenset(key for key, is_known in known_facts.items() if is_known)


def _host(pasted: Pasted) -> Host:
    kernel = reading(pasted, "kernel", str)
    return Host(
        os=reading(pasted, "os", str),
        distribution=_distribution(pasted),
        kernel=kernel,
        container=_container(pasted),
        arch=reading(pasted, "arch", lambda told: _ARCHITECTURES.get(told, told)),
        libc=_libc(pasted),
        wsl=reading(pasted, "wsl", lambda told: told == "yes"),
        tegra=_tegra(kernel),
        secure_boot=UNSAID,
    )


def _container(pasted: Pasted) -> Reading[Container]:
    """A variable that tells the NVIDIA container toolkit what to hand over is set for a container's own program."""
    told = reading(pasted, "env.NVIDIA_VISIBLE_DEVICES", str)
    return known(Container.OTHER, str(told.source)) if told.known else Reading()


def _tegra(kernel: Reading[str]) -> Reading[str]:
    """The kernel that only a Tegra board has."""
    is_tegra = (kernel.value or "").endswith("-tegra")
    return known(f"kernel {kernel.value}", str(kernel.source)) if is_tegra else UNSAID


def _libc(pasted: Pasted) -> Reading[Libc]:
    """The C library; what an old Python tells of it is only what it was linked with."""
    told = reading(pasted, "libc", Libc.parse)
    python = reading(pasted, "python", PythonVersion.parse).value
    if told.known or python is None or python < _FIRST_TO_ASK_LIBC:
        return told
    return reading(pasted, "libc-by-python", Libc.parse)


def _distribution(pasted: Pasted) -> Reading[str]:
    """``ubuntu 22.04`` of os-release, else the line that others make of it."""
    name, release = answers(pasted, "distribution-id"), answers(pasted, "distribution-release")
    if name:
        told = f"{name[0].value} {release[0].value}" if release else name[0].value
        return known(told, f"pasted {forms.OS_RELEASE}, line {name[0].line}")
    return reading(pasted, "distribution", str)


def _devices(pasted: Pasted) -> tuple[PciGpu, ...] | None:
    """The controllers that are listed; a list of lspci without any of NVIDIA's may have been searched for others."""
    if not any(device.vendor == NVIDIA for device in pasted.devices):
        return None
    return tuple(
        PciGpu(device.pci, device.vendor, device.device, device.name, device.kernel_driver) for device in pasted.devices
    )


def _container_support(pasted: Pasted) -> ContainerSupport:
    return ContainerSupport(
        runtimes=reading(pasted, "runtimes", lambda told: tuple(told.split())),
        default_runtime=reading(pasted, "default-runtime", str),
    )
