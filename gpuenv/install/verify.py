"""Verifies an install before it is committed: metadata, imports in child processes, and the doctor."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from packaging.utils import canonicalize_name

from gpuenv.install.environment import Inventory, Scheme, read_inventory
from gpuenv.install.plan import Plan, Verification
from gpuenv.matrix.ranges import same_release
from gpuenv.model.cupy import is_cupy
from gpuenv.model.dependencies import Package, parse, unmet_requirements
from gpuenv.model.redaction import cut_text
from gpuenv.probe.children import ChildGroup, Ending
from gpuenv.probe.context import target_command
from gpuenv.probe.interpreters import run_interpreter
from gpuenv.probe.protocol import last_line, parse_facts

# Frameworks that share the CUDA libraries: their imports must keep working.
_FRAMEWORKS = {"torch": "torch", "jax": "jax", "numba-cuda": "numba.cuda", "tensorflow": "tensorflow"}
_RAPIDS = re.compile(r"(cudf|cuml|cugraph|rmm|cuvs|cucim)(-cu\d\d)?")
_NO_DRIVER = re.compile(r"libcuda\.so\.1: cannot open shared object file")
_MAX_SHOWN = 3
_LONGEST = 400  # characters shown of an error
CONSISTENT = "consistent"
ANOTHER_CUPY = "another CuPy is imported"
_MAX_PARALLEL = 4


class ImportSettings(NamedTuple):
    """How to import modules, each in a child process that ends with the transaction."""

    executable: str  # the target's interpreter
    environment: Mapping[str, str]  # the user's
    seconds: float  # time limit of an import
    group: ChildGroup


class ImportResult(NamedTuple):
    """Result of importing a module: its release and file, or the error."""

    module: str
    works: bool
    detail: str
    file: str | None = None
    release: str | None = None


class DoctorComparison(NamedTuple):
    """The doctor's errors about the target by code: those before, and a function that finds those now."""

    before: Mapping[str, str]
    now: Callable[[], Mapping[str, str]]


def import_in_child(child: ImportSettings, module: str) -> ImportResult:
    """Imports a module as a program in the target would."""
    command = target_command(child.executable, "module_import", module)
    result = run_interpreter(command, child.environment, time.monotonic() + child.seconds, child.group)
    facts = parse_facts(result.stdout)
    if result.ending is Ending.TIMED_OUT:
        return ImportResult(module, False, f"timed out after {child.seconds:.0f} s")
    if result.ending is Ending.CRASHED:
        return ImportResult(module, False, f"killed by {result.signal_name}")
    if result.ending is Ending.NOT_STARTED or "started" not in facts:
        why = result.error or last_line(result.stderr)
        return ImportResult(module, False, f"the interpreter could not be started: {why}")
    if "error" in facts or "done" not in facts:
        error = str(facts.get("error", f"exit code {result.exit_code}"))
        return ImportResult(module, False, cut_text(error, _LONGEST))
    file, release = facts.get("file"), facts.get("release")
    return ImportResult(module, True, f"{release or ''} {file or ''}".strip(), file, release)


def working_frameworks(child: ImportSettings, packages: Iterable[Package]) -> tuple[str, ...]:
    """The installed frameworks whose import works now."""
    names = [(entry.name, _RAPIDS.fullmatch(entry.name)) for entry in packages]
    modules = [rapids[1] if rapids else _FRAMEWORKS[name] for name, rapids in names if rapids or name in _FRAMEWORKS]
    with ThreadPoolExecutor(max(1, len(modules))) as pool:
        found = list(pool.map(partial(import_in_child, child), modules))
    return tuple(entry.module for entry in found if entry.works)


def verify(
    plan: Plan, before: Inventory, child: ImportSettings, frameworks: Sequence[str], doctor: DoctorComparison
) -> tuple[Verification, ...]:
    """Runs all verifications, in parallel, up to the first failure."""
    after = read_inventory(before.scheme)
    steps: list[Callable[[], Verification]] = [
        lambda: _as_planned(plan, after),
        lambda: _consistent(before, after),
        lambda: verify_import(plan, child, before.scheme),
        lambda: verify_doctor(doctor),
        *(partial(verify_framework, child, module) for module in frameworks),
    ]
    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        try:
            return tuple(until_failure(pool.map(timed, steps)))
        except BaseException:
            child.group.close()  # an interrupt does not wait for an import that hangs
            raise


def until_failure(verifications: Iterable[Verification]) -> Iterator[Verification]:
    """Yields verifications up to the first failed one."""
    for verification in verifications:
        yield verification
        if verification.passed is False:
            return


def timed(step: Callable[[], Verification]) -> Verification:
    """Runs a verification and measures its duration."""
    started = time.monotonic()
    verification = step()
    return replace(verification, duration=time.monotonic() - started)


def _as_planned(plan: Plan, after: Inventory) -> Verification:
    """Checks that the planned versions and extras are installed, and removals done."""
    installed = {name: entry.release for name, entry in after.own.items()}
    wrong = [
        f"{pin.name} {pin.release} was to be installed, found {installed.get(pin.name, 'none')}"
        for pin in plan.install
        if not same_release(installed.get(pin.name, "none"), pin.release)
    ]
    coming = {pin.name for pin in plan.install}
    gone = (entry.name for entry in plan.remove if entry.name not in coming)
    wrong += [f"{name} was to be removed and is still installed" for name in gone if name in installed]
    visible = {entry.name: entry for entry in after.visible}
    for text in plan.requirements:
        requirement = parse(text)
        found = visible.get(canonicalize_name(requirement.name)) if requirement else None
        if requirement is None or found is None:
            wrong.append(f"{text} is not installed")
            continue
        if not requirement.specifier.contains(found.release, prereleases=True):
            wrong.append(f"{text} was required, {found.release} is installed")
        lost = (extra for extra in map(canonicalize_name, requirement.extras) if extra not in found.extras)
        wrong += [f"{found.name} {found.release} has no extra {extra}" for extra in lost]
    detail = "; ".join(wrong[:_MAX_SHOWN]) or f"{len(plan.install)} distributions at their exact versions"
    return Verification("as planned", not wrong, detail)


def _consistent(before: Inventory, after: Inventory) -> Verification:
    """Checks that no requirement became unmet."""
    markers = before.scheme.markers
    old = {str(fault) for fault in unmet_requirements(before.visible, markers)}
    new = [str(fault) for fault in unmet_requirements(after.visible, markers) if str(fault) not in old]
    return Verification(CONSISTENT, not new, "; ".join(new[:_MAX_SHOWN]) or "every distribution has what it needs")


def verify_import(plan: Plan, child: ImportSettings, scheme: Scheme) -> Verification:
    """Checks that CuPy can be imported, and is the installed one."""
    wanted = next((pin for pin in plan.install if is_cupy(pin.name)), None)
    found = import_in_child(child, "cupy")
    if not found.works:
        without_driver = bool(_NO_DRIVER.search(found.detail))
        passed = None if without_driver else False
        return Verification("import cupy", passed, found.detail + (" (no driver here)" if without_driver else ""))
    folders = tuple(f"{folder}/" for folder in scheme.own_folders)
    if wanted is not None and not os.path.realpath(found.file or "").startswith(folders):
        return Verification("import cupy", False, f"{ANOTHER_CUPY}: {found.file}")
    if wanted is not None and found.release and not same_release(found.release, wanted.release):
        return Verification("import cupy", False, f"{wanted.release} was installed, {found.release} is imported")
    return Verification("import cupy", True, found.detail)


def verify_framework(child: ImportSettings, module: str) -> Verification:
    """Checks that a framework can still be imported."""
    found = import_in_child(child, module)
    return Verification(f"import {module}", found.works, found.detail)


def verify_doctor(doctor: DoctorComparison) -> Verification:
    """Checks that the doctor finds no new error about the target."""
    now = doctor.now()
    new = [f"{code}: {title}" for code, title in now.items() if code not in doctor.before]
    gone = [code for code in doctor.before if code not in now]
    detail = "; ".join(new[:_MAX_SHOWN]) or (f"fixed: {', '.join(gone)}" if gone else "no new errors")
    return Verification("doctor", not new, detail)
