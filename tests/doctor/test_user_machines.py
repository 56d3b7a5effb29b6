"""Machines of users: the cause to fix first on each, and its fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gpuenv.doctor.diagnose import DiagnosisOptions
from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import (
    AmdGpu,
    Container,
    CupyInstallation,
    DeviceNode,
    Driver,
    Library,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
)
from gpuenv.preflight.evaluate import evaluate
from gpuenv.preflight.requirements import parse_requirement
from tests.support.diagnosis import diagnosis_of
from tests.support.fixes import by_hand
from tests.support.matrix import MATRIX

LINUX = ("os=linux", "arch=x86_64", "libc=glibc-2.35", "python=3.11", "numpy=2.1.0")
SITE = "/venv/lib/python3.11/site-packages"


def unchanged(snapshot: Snapshot) -> Snapshot:
    return snapshot


def conda(**packages: str) -> Callable[[Snapshot], Snapshot]:
    """A conda environment with these packages."""

    def change(snapshot: Snapshot) -> Snapshot:
        ours = {name.replace("_", "-"): release for name, release in packages.items()}
        cupy = tuple(CupyInstallation("cupy", release) for name, release in ours.items() if name == "cupy")
        target = snapshot.target
        target = target._replace(
            kind=known("conda", "x"),
            prefix=known("/opt/conda/envs/a", "x"),
            conda_packages=ours,
            packages={**target.packages, **ours},
            cupy=(*cupy, *target.cupy),
        )
        return snapshot._replace(target=target)

    return change


def libraries(*available: str) -> Callable[[Snapshot], Snapshot]:
    """The libraries of CUDA 12 that CuPy loads; only those named are found."""
    names = {"nvrtc": "libnvrtc.so.12", "cublas": "libcublas.so.12", "cufft": "libcufft.so.11"}

    def change(snapshot: Snapshot) -> Snapshot:
        result = tuple(
            Library(
                name,
                soname,
                f"{SITE}/{soname}" if name in available else None,
                error=None if name in available else "x",
            )
            for name, soname in names.items()
        )
        return snapshot._replace(target=snapshot.target._replace(libraries=result))

    return change


def in_container(kind: Container, *, nodes: str | None, bus: bool = True) -> Callable[[Snapshot], Snapshot]:
    """A container with these device nodes (open, closed or None) and without NVML and libcuda."""
    device_nodes = (
        ()
        if nodes is None
        else tuple(
            DeviceNode(f"/dev/{name}", nodes == "open", "crw-rw----", "0:44") for name in ("nvidia0", "nvidiactl")
        )
    )

    def change(snapshot: Snapshot) -> Snapshot:
        driver = Driver(
            version=known(snapshot.driver.version.value, "x") if snapshot.driver.version.value else Driver().version,
            module=known(Module.LOADED, "x"),
            module_version=snapshot.driver.version,
            device_nodes=device_nodes,
        )
        sources = (
            Source("kernel", SourceState.ANSWERED),
            *(Source(n, SourceState.ABSENT) for n in ("nvml", "libcuda")),
        )
        return snapshot._replace(
            host=snapshot.host._replace(container=known(kind, "x")),
            driver=driver,
            gpus=(),
            gpu_count=Snapshot().gpu_count,
            visible_count=Snapshot().visible_count,
            pci_gpus=(PciGpu("0000:31:00.0", "10de", "2330"),) if bus else (),
            sources=sources,
            assumed=(),
        )

    return change


def with_amd_gpu(snapshot: Snapshot) -> Snapshot:
    card = PciGpu("0000:03:00.0", "1002", "740f", kernel_driver="amdgpu")
    sources = (Source("kernel", SourceState.ANSWERED), *(Source(n, SourceState.ABSENT) for n in ("nvml", "libcuda")))
    return snapshot._replace(
        amd_gpus=(AmdGpu(1, "aldebaran", "gfx90a"),), pci_gpus=(card,), sources=sources, assumed=()
    )


def built(major: int, *requires: str) -> Callable[[Snapshot], Snapshot]:
    """A CuPy built from source, linked with this CUDA."""

    def change(snapshot: Snapshot) -> Snapshot:
        cupy = CupyInstallation("cupy", "14.2.0", cuda_major=major, requires=requires)
        return snapshot._replace(target=snapshot.target._replace(cupy=(cupy,)))

    return change


def module_at(file: str) -> Callable[[Snapshot], Snapshot]:
    """A package `cupy` without metadata, in a probed environment."""

    def change(snapshot: Snapshot) -> Snapshot:
        target = snapshot.target._replace(prefix=known("/venv", "x"), cupy_module=known(file, "x"))
        sources = (*snapshot.sources, Source("target", SourceState.ANSWERED))
        assumed = tuple(path for path in snapshot.assumed if path != "target.cupy")
        return snapshot._replace(target=target, sources=sources, assumed=assumed)

    return change


@dataclass(frozen=True, slots=True)
class Machine:
    """A user's machine, its primary cause if any, and words of the first fix."""

    facts: tuple[str, ...]
    cause: str | None
    fix_text: str = ""
    change: Callable[[Snapshot], Snapshot] = unchanged
    requires: tuple[str, ...] = ()


def linux(*options: str) -> tuple[str, ...]:
    return (*LINUX, *options)


USER_MACHINES = {
    "a CuPy that was built here for a Python without wheels": Machine(
        linux("python=3.15", "driver=470.256.02", "gpu=A100", "cupy=none"), None, change=built(11)
    ),
    "a CuPy that was built here, where only the wheels for the driver want another Python": Machine(
        linux("python=3.14", "driver=470.256.02", "gpu=A100", "cupy=none"), None, change=built(11)
    ),
    "a CuPy that was built here with a CUDA older than any wheel's": Machine(
        linux("driver=440.64", "gpu=V100", "cupy=none"), None, change=built(10)
    ),
    "a CuPy that was built here with a CUDA newer than its driver": Machine(
        linux("driver=418.40.04", "gpu=V100", "cupy=none"), "driver-too-old-for-cuda", change=built(11)
    ),
    "a CuPy that was built here, and a driver without the GPU": Machine(
        linux("driver=595.58.03", "gpu=K80", "cupy=none"), "gpu-removed-from-driver", "branch 470", change=built(11)
    ),
    "a Python without wheels and without CuPy": Machine(
        linux("python=3.14", "driver=470.256.02", "gpu=A100", "cupy=none"), "python-unsupported", "Python 3.9"
    ),
    "a desktop whose driver was never updated": Machine(
        linux("driver=535.183.01", "gpu=RTX 4090", "cupy=cupy-cuda13x==14.2.0"),
        "driver-too-old-for-cuda", "cupy-cuda12x",
    ),
    "an old card with the newest line": Machine(
        linux("driver=580.95.05", "gpu=GTX 1080 Ti", "cupy=cupy-cuda13x==14.2.0"),
        "gpu-removed-from-toolkit", "cupy-cuda12x",
    ),
    "a new card on the distribution's driver": Machine(
        linux("driver=550.163.01", "gpu=RTX 5090", "cupy=cupy-cuda12x==14.2.0"), "gpu-too-new-for-driver", "driver"
    ),
    "an upgraded Kepler server": Machine(
        linux("driver=550.163.01", "gpu=Tesla K80", "cupy=cupy-cuda11x==13.6.0"), "gpu-removed-from-driver", "470"
    ),
    "conda's CuPy and then pip's": Machine(
        linux("driver=580.95.05", "gpu=H100", "cupy=cupy-cuda12x==14.2.0"),
        "mixed-pip-conda", "pip", conda(cupy="14.1.1", cuda_version="12.9", numpy="2.1.0"),
    ),
    "a conda environment of an old Python": Machine(
        linux("driver=580.95.05", "gpu=A100", "python=3.8", "numpy=1.24.4", "cupy=none"),
        "cupy-not-installed", "in a new environment", conda(numpy="1.24.4", python="3.8.18"),
    ),
    "a conda environment of the oldest Python with a build": Machine(
        linux("driver=580.95.05", "gpu=A100", "python=3.9", "numpy=1.26.4", "cupy=none"),
        "cupy-not-installed", "cupy=13.6.0", conda(numpy="1.26.4", python="3.9.18"),
    ),
    "pip without the extra": Machine(
        linux("driver=580.95.05", "gpu=L4", "cupy=cupy-cuda12x==14.2.0"), "cuda-library-missing", "[ctk]", libraries()
    ),
    "a pinned NumPy 1": Machine(
        linux("driver=580.95.05", "gpu=L4", "numpy=1.26.4", "cupy=cupy-cuda12x==14.2.0"), "numpy-incompatible", "NumPy",
        libraries("nvrtc", "cublas", "cufft"),
    ),
    "no NumPy at all": Machine(
        linux("driver=580.95.05", "gpu=L4", "numpy=none", "cupy=cupy-cuda12x==14.2.0"), "numpy-incompatible", "NumPy",
        libraries("nvrtc", "cublas", "cufft"),
    ),
    "two lines after an upgrade": Machine(
        linux("driver=580.95.05", "gpu=A100", "cupy=cupy-cuda12x==13.6.0", "package.cupy-cuda13x=14.2.0"),
        "multiple-cupy-packages", "Remove all",
    ),
    "Alpine": Machine(
        ("os=linux", "arch=x86_64", "libc=musl-1.2", "python=3.12", "driver=580.95.05", "gpu=A100", "cupy=none"),
        "platform-wheel-missing", "glibc",
    ),
    "a Mac": Machine(("os=darwin", "arch=aarch64", "python=3.12", "cupy=none"), "no-nvidia-gpu", "Linux or Windows"),
    "a gaming PC with Windows": Machine(
        ("os=windows", "arch=x86_64", "numpy=2.1.0", "driver=560.94", "gpu=RTX 3060", "cupy=cupy-cuda13x==14.2.0"),
        "driver-too-old-for-cuda", "cupy-cuda12x",
    ),
    "an AMD card with a CuPy for CUDA": Machine(
        linux("cupy=cupy-cuda12x==14.2.0"), "rocm-mismatch", "ROCm", with_amd_gpu
    ),
    "an AMD card alone": Machine(linux("cupy=none"), "no-nvidia-gpu", "ROCm", with_amd_gpu),
    "docker run without --gpus": Machine(
        linux("driver=580.95.05", "cupy=cupy-cuda13x==14.2.0"), "container-without-gpu", "--gpus",
        in_container(Container.DOCKER, nodes=None),
    ),
    "a pod without a limit, its bus hidden": Machine(
        linux("driver=580.95.05", "cupy=cupy-cuda13x==14.2.0"), "container-without-gpu", "nvidia.com/gpu",
        in_container(Container.KUBERNETES, nodes=None, bus=False),
    ),
    "podman with the nodes by hand": Machine(
        linux("driver=580.95.05", "cupy=cupy-cuda13x==14.2.0"), "container-toolkit-broken", "nvidia.com/gpu",
        in_container(Container.PODMAN, nodes="open"),
    ),
    "a healthy job that requires too many GPUs": Machine(
        linux("driver=580.95.05", "gpu=H100", "gpu=H100", "cupy=cupy-cuda13x==14.2.0"),
        "requirement-not-met", "machine",
        requires=("gpu>=4",),
    ),
    "a distribution's CuPy of CUDA 13 and an old card": Machine(
        linux("driver=580.95.05", "gpu=GTX 1080", "cupy=none"), "gpu-removed-from-toolkit", "cupy-cuda12x", built(13),
    ),
    "a distribution's CuPy of CUDA 13 and an old driver": Machine(
        linux("driver=550.163.01", "gpu=L4", "cupy=none"), "driver-too-old-for-cuda", "cupy-cuda12x", built(13),
    ),
    "a CuPy from source and another NumPy": Machine(
        linux("driver=580.95.05", "gpu=L4", "numpy=1.26.4", "cupy=none"), "numpy-incompatible", "NumPy",
        built(12, "numpy>=2.0,<2.7"),
    ),
    "an installation that was cut short": Machine(
        linux("driver=580.95.05", "gpu=L4", "cupy=none"), "corrupt-installation", SITE,
        module_at(f"{SITE}/cupy/__init__.py"),
    ),
    "a user directory named cupy": Machine(
        linux("driver=580.95.05", "gpu=L4", "cupy=none"), "cupy-not-installed", "cupy-cuda13x",
        module_at("/home/me/project/cupy/__init__.py"),
    ),
    "a healthy CuPy from source": Machine(
        linux("driver=580.95.05", "gpu=H100", "cupy=none"), None, change=built(13, "numpy<2.7,>=2.0")
    ),
    "a healthy server": Machine(linux("driver=580.95.05", "gpu=H100", "cupy=cupy-cuda13x==14.2.0"), None),
    "a healthy machine with two kinds of GPUs": Machine(
        linux("driver=580.95.05", "gpu=V100", "gpu=H100", "cupy=cupy-cuda12x==14.2.0"), None
    ),
}  # fmt: skip


def findings(machine: Machine) -> tuple[Finding, ...]:
    snapshot = machine.change(assume(Snapshot(), machine.facts, MATRIX))
    requirements = evaluate([parse_requirement(text) for text in machine.requires], snapshot)
    diagnosis = diagnosis_of(snapshot, DiagnosisOptions(requirements))
    return tuple(map(by_hand, diagnosis.findings))


@pytest.mark.parametrize("name", USER_MACHINES)
def test_the_primary_cause_and_its_fix_are_as_expected(name: str) -> None:
    machine = USER_MACHINES[name]
    primary = next((finding for finding in findings(machine) if finding.primary), None)
    assert (primary.cause.value if primary else None) == machine.cause
    if primary is not None:
        first = primary.fix[:2]  # the removal of another line precedes the installation
        assert (
            machine.fix_text.lower() in " ".join(f"{fix.text} {' '.join(fix.command or ())}" for fix in first).lower()
        )
