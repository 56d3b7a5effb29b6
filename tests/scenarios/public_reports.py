"""Machines of public reports, rebuilt from the facts in each report; the root cause is that of the report.

A machine profile of the same kind fills in facts that a report omits; a report may name releases that are not in
the matrix.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import PciSpec, Profile
from tests.scenarios.scenario import Scenario, combine, driver, files, gpus, no_setup, stub, unchanged
from tests.scenarios.target_setups import OTHER_UID, SUFFIX, run, write

if TYPE_CHECKING:
    from tests.scenarios.scenario import Change, Setup, Workspace


@dataclass(frozen=True, slots=True)
class ReportedMachine:
    """A machine from a public report.

    Attributes:
        source: the report.
        scenario: the machine, and the root cause in its report.
        fix_text: words of the first fixes or their commands; empty if the report has no fix.
    """

    source: str
    scenario: Scenario
    fix_text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.scenario.cause}"


def case(  # noqa: PLR0913 - a row of the table
    source: str,
    cause: str,
    base: str,
    change: Change = unchanged,
    setup: Setup = no_setup,
    *,
    fix_text: str = "",
    error: bool = True,
    unprivileged: bool = False,
    needs_root: bool = False,
    python: str = "3.12",
) -> ReportedMachine:
    assumptions = ("--assume", f"python={python}") if python else ()
    scenario = Scenario(
        cause,
        source,
        base,
        change,
        setup,
        error,
        unprivileged=unprivileged,
        needs_root=needs_root,
        assumptions=assumptions,
    )
    return ReportedMachine(source, scenario, fix_text)


L4, V100, H100, H200, T4, GEFORCE = "l4-550", "v100-580", "h100-535", "h200-580", "t4-470", "rtx5090-570"
LINE_12 = "cupy-cuda12x==14.2.0"
AFTER_SUSPEND = combine(files(sys__power__suspend_stats__success="2\n"), stub(cuda__return__cuInit="999"))
SECURE_BOOT = files(
    **{
        "sys__firmware__efi__efivars__SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\0\0\0\x01",
        "sys__kernel__security__lockdown": "none [integrity] confidentiality\n",
    }
)


def driver_release(release: str, *, level: int, **more: object) -> Change:
    """Another driver release, with its module and libraries."""
    return driver(version=release, library=release, cuda=level, **more)


def card(name: str, capability: str, device: str, **more: object) -> Change:
    return gpus(name=name, capability=capability, device=device, **more)


def gpu_copies(count: int) -> Change:
    """This number of copies of the machine's first GPU."""

    def change(profile: Profile) -> Profile:
        first = profile.gpus[0]
        each = (
            replace(first, pci=f"0000:{0x31 + n:02x}:00.0", uuid=f"GPU-{n:08x}-{first.uuid[-27:]}")
            for n in range(count)
        )
        return replace(profile, gpus=tuple(each))

    return change


VIDEO = 44  # the group video of Debian; elsewhere another one, or none
INTEL = PciSpec("0000:00:02.0", "0x030000", "8086", "46a3", "i915")


def nodes_of_another_user(mode: int) -> Setup:
    """The device nodes belong to another user and to the group video, and have this mode."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        for path in (workspace.machine.root / "dev").glob("nv*"):
            if path.is_file():
                os.chown(path, OTHER_UID, VIDEO)
                path.chmod(mode)
        return {}

    return setup


def directory_of_another_user(path: str, mode: int, variable: str, file_name: str = "") -> Setup:
    """A directory of another user that a variable names, with a private file if `file_name` is given."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        folder = workspace.folder / path
        folder.mkdir(parents=True)
        if file_name:
            os.chown(write(folder / file_name), OTHER_UID, OTHER_UID)
            (folder / file_name).chmod(0o600)
        os.chown(folder, OTHER_UID, OTHER_UID)
        folder.chmod(mode)
        return {variable: str(folder)}

    return setup


def cuda_path_of(release: str) -> Setup:
    def setup(workspace: Workspace) -> Mapping[str, str]:
        folder = workspace.machine.root / f"usr/local/cuda-{release}"
        write(folder / "version.txt", f"CUDA Version {release}.61\n")
        write(folder / "include/cuda.h", f"#define CUDA_VERSION {release.replace('.', '0')}0\n")
        return {"CUDA_PATH": f"/usr/local/cuda-{release}"}

    return setup


def missing_modules(*paths: str) -> Setup:
    """The package directory of CuPy exists without its modules."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        (workspace.site / "cupy").mkdir(exist_ok=True)
        (record,) = workspace.site.glob("cupy*.dist-info/RECORD")
        with record.open("a", encoding="utf-8") as file:
            file.writelines(f"{path},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,120\n" for path in paths)
        return {}

    return setup


def linked_with(major: int) -> Setup:
    """A build of CuPy linked with cuBLAS of this CUDA major, which its distribution name does not contain."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        folder = workspace.site / "cupy_backends/cuda/libs"
        write(folder / "empty.c")
        write(workspace.site / "cupy/__init__.py")
        (cublas,) = (workspace.machine.root / "usr/local/cuda/lib64").glob(f"libcublas.so.{major}")
        module = folder / f"cublas{SUFFIX}"
        run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(folder / "empty.c"), str(cublas), "-o", str(module)])
        return {}

    return setup


def further_libraries(release: str, *names: str) -> Change:
    """Driver libraries of another release in the library directory."""
    return files(**{f"usr__lib__x86_64-linux-gnu__{name}.so.{release}": "" for name in names})
