"""Machines of public reports, built anew from what each report tells of its machine: the root cause is the report's.

What a report leaves open is filled in from a recorded machine of the same kind; releases that no wheel line of the
matrix reaches are the report's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import PciSpec, Profile
from tests.scenarios.ground import Scenario, as_recorded, both, driver, files, gpus, nothing, stub
from tests.scenarios.spoiling import NOBODY, SUFFIX, run, write

if TYPE_CHECKING:
    from tests.scenarios.ground import Change, Ground, Spoil


@dataclass(frozen=True, slots=True)
class Reported:
    """A machine as a public report has it.

    Attributes:
        source: the report.
        scenario: the machine, and the root cause that its report came to.
        cure: words that stand in the first cure, or in its command; empty where the report knows none.
    """

    source: str
    scenario: Scenario
    cure: str

    def __str__(self) -> str:
        return f"{self.source}: {self.scenario.cause}"


def case(  # noqa: PLR0913 - a row of the table
    source: str,
    cause: str,
    base: str,
    change: Change = as_recorded,
    spoil: Spoil = nothing,
    *,
    cure: str = "",
    error: bool = True,
    without_rights: bool = False,
    root: bool = False,
    python: str = "3.12",
) -> Reported:
    assuming = ("--assume", f"python={python}") if python else ()
    scenario = Scenario(
        cause, source, base, change, spoil, error, without_rights=without_rights, root=root, assuming=assuming
    )
    return Reported(source, scenario, cure)


L4, V100, H100, H200, T4, GEFORCE = "l4-550", "v100-580", "h100-535", "h200-580", "t4-470", "rtx5090-570"
LINE_12 = "cupy-cuda12x==14.2.0"
ASLEEP = both(files(sys__power__suspend_stats__success="2\n"), stub(cuda__return__cuInit="999"))
SECURE = files(
    **{
        "sys__firmware__efi__efivars__SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\0\0\0\x01",
        "sys__kernel__security__lockdown": "none [integrity] confidentiality\n",
    }
)


def on(release: str, *, level: int, **more: object) -> Change:
    """Another driver, whole."""
    return driver(version=release, library=release, cuda=level, **more)


def card(name: str, capability: str, device: str, **more: object) -> Change:
    return gpus(name=name, capability=capability, device=device, **more)


def many(count: int) -> Change:
    """That many of the machine's first GPU."""

    def change(profile: Profile) -> Profile:
        first = profile.gpus[0]
        each = (
            replace(first, pci=f"0000:{0x31 + n:02x}:00.0", uuid=f"GPU-{n:08x}-{first.uuid[-27:]}")
            for n in range(count)
        )
        return replace(profile, gpus=tuple(each))

    return change


INTEL = PciSpec("0000:00:02.0", "0x030000", "8086", "46a3", "i915")


def owned(mode: int) -> Spoil:
    """The device nodes belong to another user and group, with this mode."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        for path in (ground.machine.root / "dev").glob("nv*"):
            if path.is_file():
                os.chown(path, NOBODY, NOBODY)
                path.chmod(mode)
        return {}

    return spoil


def folder_of_another(path: str, mode: int, variable: str, kept: str = "") -> Spoil:
    """A folder of another user's, which a variable names."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        folder = ground.folder / path
        folder.mkdir(parents=True)
        if kept:
            os.chown(write(folder / kept), NOBODY, NOBODY)
            (folder / kept).chmod(0o600)
        os.chown(folder, NOBODY, NOBODY)
        folder.chmod(mode)
        return {variable: str(folder)}

    return spoil


def cuda_path_of(release: str) -> Spoil:
    def spoil(ground: Ground) -> Mapping[str, str]:
        folder = ground.machine.root / f"usr/local/cuda-{release}"
        write(folder / "version.txt", f"CUDA Version {release}.61\n")
        write(folder / "include/cuda.h", f"#define CUDA_VERSION {release.replace('.', '0')}0\n")
        return {"CUDA_PATH": f"/usr/local/cuda-{release}"}

    return spoil


def files_gone(*paths: str) -> Spoil:
    """Of CuPy's package, a folder is left that has none of its modules."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        (ground.site / "cupy").mkdir(exist_ok=True)
        (record,) = ground.site.glob("cupy*.dist-info/RECORD")
        with record.open("a", encoding="utf-8") as file:
            file.writelines(f"{path},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,120\n" for path in paths)
        return {}

    return spoil


def linked_with(major: int) -> Spoil:
    """A build of CuPy whose module is linked with cuBLAS of that CUDA, as its distribution's name does not tell."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        folder = ground.site / "cupy_backends/cuda/libs"
        write(folder / "empty.c")
        write(ground.site / "cupy/__init__.py")
        (cublas,) = (ground.machine.root / "usr/local/cuda/lib64").glob(f"libcublas.so.{major}")
        module = folder / f"cublas{SUFFIX}"
        run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(folder / "empty.c"), str(cublas), "-o", str(module)])
        return {}

    return spoil


def libraries_beside(release: str, *names: str) -> Change:
    """Further files of a driver of another release in the folder of the libraries."""
    return files(**{f"usr__lib__x86_64-linux-gnu__{name}.so.{release}": "" for name in names})
