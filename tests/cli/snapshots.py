"""Plausible snapshots of machines, as ``gpuenv probe -o`` writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuenv.model.codec import encode
from gpuenv.model.reading import Answer, Reading, known, missing
from gpuenv.model.snapshot import (
    Container,
    CupyInstallation,
    Driver,
    Gpu,
    Host,
    Library,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Target,
)
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

if TYPE_CHECKING:
    from pathlib import Path

UUID = "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584"
_MIB = 1024 * 1024
_SONAMES = ("nvrtc.so.12", "cublas.so.12", "cufft.so.11", "curand.so.10", "cusolver.so.11", "cusparse.so.12")


def _driver(version: str, cuda: str) -> Driver:
    driver = DriverVersion.parse(version)
    return Driver(
        version=Reading(driver, "/proc/driver/nvidia/version", (Answer(driver, "nvml"),)),
        cuda=known(CudaVersion.parse(cuda), "libcuda"),
        branch=known(driver.branch, "/proc/driver/nvidia/version"),
        module=known(Module.LOADED, "/proc/modules"),
        nvml_library=known(f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}", "the loader"),
        cuda_library=known(f"/usr/lib/x86_64-linux-gnu/libcuda.so.{version}", "the loader"),
        nvml_init=known(0, "nvml"),
        cuda_init=known(0, "libcuda"),
    )


def _target(line: str, prefix: str) -> Target:
    interpreter = "the target's interpreter"
    libraries = tuple(
        Library(name.split(".")[0], f"lib{name}", f"{prefix}/lib/python3.12/site-packages/nvidia/lib{name}", "wheel")
        for name in _SONAMES
    )
    return Target(
        executable=known(f"{prefix}/bin/python3", interpreter),
        prefix=known(prefix, interpreter),
        kind=known("venv", interpreter),
        python=known(PythonVersion.parse("3.12.4"), interpreter),
        implementation=known("cpython", interpreter),
        platform=known("linux-x86_64", interpreter),
        externally_managed=known(value=False, source=interpreter),
        cupy=(CupyInstallation(line, "14.2.0", f"{prefix}/lib/python3.12/site-packages"),),
        numpy=known("2.3.4", "its metadata"),
        packages={line: "14.2.0", "numpy": "2.3.4"},
        libraries=libraries,
    )


FIT = Snapshot(
    gpuenv_version="0.1.0",
    taken_at="2026-11-21T12:00:00+00:00",
    host=Host(
        os=known("linux", "uname"),
        distribution=known("ubuntu 24.04", "/etc/os-release"),
        kernel=known("6.8.0-48-generic", "uname"),
        arch=known("x86_64", "uname"),
        libc=known(Libc.parse("glibc-2.39"), "the target's interpreter"),
        container=known(Container.NONE, "the marks container engines leave"),
        wsl=known(value=False, source="kernel release and /dev/dxg"),
    ),
    driver=_driver("550.54.15", "12.4"),
    gpus=(
        Gpu(
            index=known(0, "nvml"),
            ordinal=known(0, "libcuda"),
            uuid=known(UUID, "nvml"),
            pci=known("0000:53:00.0", "nvml"),
            name=known("NVIDIA A100-SXM4-80GB", "nvml"),
            compute_capability=known(ComputeCapability.parse("8.0"), "nvml"),
            memory_total=known(81920 * _MIB, "nvml"),
            memory_free=known(81000 * _MIB, "nvml"),
        ),
    ),
    gpu_count=known(1, "nvml"),
    visible_count=known(1, "libcuda"),
    pci_gpus=(PciGpu("0000:53:00.0", "10de", "20b2", "GA100 [A100 SXM4 80GB]", "nvidia"),),
    target=_target("cupy-cuda12x", "/srv/envs/cupy"),
    sources=tuple(
        Source(name, SourceState.ANSWERED, None, 0.05)
        for name in ("kernel", "nvml", "libcuda", "nvidia-smi", "target", "libraries")
    ),
)
"""A machine without a problem."""

UNFIT = FIT._replace(driver=_driver("470.161.03", "11.4"))
"""The driver is older than the wheel's CUDA."""

WITHOUT_GPU = FIT._replace(
    driver=Driver(module=known(Module.NOT_INSTALLED, "/lib/modules")),
    gpus=(),
    gpu_count=missing("no source reports it"),
    visible_count=missing("libcuda.so.1: cannot open shared object file"),
    pci_gpus=(),
    sources=tuple(
        Source(source.name, SourceState.ABSENT if source.name in ("nvml", "libcuda", "nvidia-smi") else source.state)
        for source in FIT.sources
    ),
)
"""A machine without an NVIDIA GPU and without a driver."""

SNAPSHOTS = {"fit": FIT, "unfit": UNFIT, "without-gpu": WITHOUT_GPU, "empty": Snapshot()}


def write_snapshot(snapshot: Snapshot, path: Path) -> Path:
    """Writes a snapshot as JSON; returns the path."""
    path.write_text(json.dumps(encode(snapshot)), encoding="utf-8")
    return path


def replace_facts(snapshot: Snapshot, **fields: Any) -> Snapshot:  # noqa: ANN401 - fields of Snapshot
    """A copy of a snapshot with some facts replaced."""
    return snapshot._replace(**fields)
