"""Boards with NVIDIA's Tegra: their driver, CUDA and libraries are JetPack's."""

from __future__ import annotations

from gpuenv.doctor.evidence import readings, source
from gpuenv.doctor.predicates import contained
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.snapshot import LibraryOrigin
from gpuenv.model.text import pattern

_OF_JETPACK = (LibraryOrigin.TEGRA, LibraryOrigin.MOUNTED, LibraryOrigin.COMPAT)
_SERVER_WHEEL = pattern(r"nvidia-[a-z-]+-cu1[12]")


@check("TEG901", Cause.JETSON_TEGRA, requires=("DRV100", "DRV101", "CTR301"))
def another_libcuda(facts: Facts) -> Outcome:
    """On a Tegra board, libcuda is not the one of its own platform.

    What it means: the GPU of a Jetson is driven by the driver that JetPack brings. A driver package for servers with
    Arm processors installs another libcuda, which finds no GPU there.
    How it is seen: the board's mark, a libcuda outside of the folders of Tegra, and an initialisation that fails.
    What to do: remove the packages of the other driver, and install those of JetPack again.
    """
    snapshot = facts.snapshot
    driver = snapshot.driver
    if not facts.needs.tegra or not driver.cuda_init.value or driver.cuda_origin.value in (None, *_OF_JETPACK):
        return
    yield Symptom(
        "On this Tegra board, another libcuda than JetPack's is loaded",
        readings(snapshot, "host.tegra", "driver.cuda_library", "driver.cuda_origin") + source(snapshot, "libcuda"),
        (
            Fix("Remove the packages of the other driver.", ("sudo", "apt-get", "remove", "libcuda1", "nvidia-driver")),
            Fix("Install JetPack's own again, then restart.", ("sudo", "apt-get", "install", "nvidia-l4t-cuda")),
        ),
    )


@check("TEG902", Cause.JETSON_TEGRA, requires=("ENV401", "TEG901"))
def wheels_for_servers(facts: Facts) -> Outcome:
    """On a Tegra board, the CUDA libraries are those for servers.

    What it means: up to CUDA 12 NVIDIA's wheels for aarch64 are built for servers with Arm processors (SBSA), and hold
    no code for the GPU of a Jetson; JetPack has libraries of its own. From CUDA 13 on one build serves both.
    How it is seen: the board's mark, and CUDA wheels of CUDA 11 or 12 in the target.
    What to do: remove these wheels, and let CuPy find JetPack's toolkit in /usr/local/cuda.
    """
    snapshot = facts.snapshot
    packages = snapshot.target.packages
    wheels = {name: release for name, release in packages.items() if _SERVER_WHEEL.fullmatch(name)}
    if not facts.needs.tegra or not wheels:
        return
    yield Symptom(
        f"On this Tegra board, the target has CUDA wheels for servers: {', '.join(wheels)}",
        readings(snapshot, "host.tegra")
        + tuple(Evidence(f"target.packages.{name}", release, "its metadata") for name, release in wheels.items()),
        (
            Fix(
                "Remove them; JetPack's own toolkit in /usr/local/cuda serves CuPy"
                + (", once it is mounted into the container." if contained(snapshot) else ".")
            ),
        ),
        Severity.WARNING,
    )
