"""How NVIDIA's driver gets a GPU that the kernel's own free driver holds: nouveau, or nova after it. Pure."""

from __future__ import annotations

from gpuenv.doctor.blocks import blocks, let_through
from gpuenv.doctor.declared import is_declared, kept_away
from gpuenv.doctor.joint import wanted
from gpuenv.doctor.machine import NOVA, held_by_nova, libraries_absent
from gpuenv.doctor.registry import Facts
from gpuenv.doctor.remedies import driver_fixes, initial_disk, restart
from gpuenv.model.driver import Module
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Snapshot


def free_driver(snapshot: Snapshot) -> str:
    """The name of the module that holds the GPU."""
    return NOVA if held_by_nova(snapshot) else "nouveau"


def in_its_place(facts: Facts) -> tuple[Fix, ...]:
    """Where the driver's own module is there for this kernel and blocked, somebody chose the other: that is undone."""
    snapshot = facts.snapshot
    name = free_driver(snapshot)
    there = snapshot.driver.module.value is Module.NOT_LOADED and not is_declared(snapshot)
    if there and blocks(snapshot):
        by_file = Fix(f"Where {name} comes back, keep it out: blacklist {name}, in a file below /etc/modprobe.d.")
        return (*let_through(snapshot), kept_away(snapshot, name, f"Where {name} comes back,") or by_file)
    if there and not libraries_absent(snapshot):
        by_parameters = kept_away(snapshot, name, "NVIDIA's driver is installed:")
        by_files = (_by_a_file(name), _early_too(snapshot, name))
        return (*_of_the_right_kind(facts), *((by_parameters,) if by_parameters else by_files), _taking(snapshot))
    kept_out = (_nova_too(),) if name == NOVA else ()
    return (*driver_fixes(facts), *kept_out, restart(snapshot, "so that the new module takes the GPU"))


def _nova_too() -> Fix:
    """Packages of the driver keep nouveau out; of what follows it the older ones know nothing."""
    return Fix(f"Keep {NOVA} out, where the package does not: blacklist {NOVA}, in a file below /etc/modprobe.d.")


def _by_a_file(name: str) -> Fix:
    lines = f"the line blacklist {name}"
    if name == "nouveau":
        lines = f"the lines blacklist {name} and options {name} modeset=0"
    words = f"NVIDIA's driver is installed: keep {name} out of its way, by {lines}"
    return Fix(f"{words} in a file below /etc/modprobe.d, where they are not there yet.")


def _of_the_right_kind(facts: Facts) -> tuple[Fix, ...]:
    """Which kind its modules are of is not told before they are loaded, and the other drives the screen until then.

    The open ones say Dual MIT/GPL (open-gpu-kernel-modules, nv.c, MODULE_LICENSE), the proprietary ones NVIDIA.
    """
    kinds = wanted(facts).kinds
    if len(kinds) != 1 or facts.snapshot.driver.flavor.known:
        return ()
    words = f"See first that its modules are the {next(iter(kinds))} ones, without which nothing drives this GPU"
    return (Fix(f"{words}: the open ones say Dual MIT/GPL.", ("modinfo", "-F", "license", "nvidia")),)


def _early_too(snapshot: Snapshot, name: str) -> Fix:
    words = f"Make the initial RAM disk anew, from which {name} is loaded before that file counts, and restart."
    return Fix(words, initial_disk(snapshot))


def _taking(snapshot: Snapshot) -> Fix:
    return restart(snapshot, "so that NVIDIA's module takes the GPU")
