"""Verification after an install, before it is kept: by metadata, by imports in children, and by the doctor."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from packaging.utils import canonicalize_name

from gpuenv.install.dependencies import Package, parse, unmet_requirements
from gpuenv.install.environment import Inventory, Scheme, read_inventory
from gpuenv.install.plan import Plan, Verification
from gpuenv.matrix.ranges import same_release
from gpuenv.model.cupy import is_cupy
from gpuenv.model.secrets import for_the_target
from gpuenv.probe.children import ChildGroup, Ending, run_child
from gpuenv.probe.context import in_target
from gpuenv.probe.protocol import parse_facts

# Frameworks that share the CUDA libraries: their import must still work afterwards.
_FRAMEWORKS = {"torch": "torch", "jax": "jax", "numba-cuda": "numba.cuda", "tensorflow": "tensorflow"}
_RAPIDS = re.compile(r"(cudf|cuml|cugraph|rmm|cuvs|cucim)(-cu\d\d)?")
_NO_DRIVER = re.compile(r"libcuda\.so\.1: cannot open shared object file")
_SHOWN = 3
CONSISTENT = "consistent"
ANOTHER = "another CuPy is imported"
_AT_ONCE = 4


class ImportSettings(NamedTuple):
    """How modules are imported: in children of their own, which end with the transaction."""

    executable: str  # the target's interpreter
    environment: Mapping[str, str]  # the user's
    seconds: float  # that one import may take
    group: ChildGroup


class ImportResult(NamedTuple):
    """Result of importing a module: its release and file, or what went wrong."""

    module: str
    works: bool
    detail: str
    file: str | None = None
    release: str | None = None


class DoctorComparison(NamedTuple):
    """The doctor's errors about the target by code: those before, and what finds those now."""

    before: Mapping[str, str]
    now: Callable[[], Mapping[str, str]]


def import_in_child(child: ImportSettings, module: str) -> ImportResult:
    """Imports a module as a program of the target's would."""
    command = [*in_target(child.executable, "importing", module)]
    result = run_child(command, for_the_target(child.environment), time.monotonic() + child.seconds, child.group)
    facts = parse_facts(result.stdout)
    if result.ending is Ending.TIMED_OUT:
        return ImportResult(module, False, f"timed out after {child.seconds:.0f} s")
    if result.ending is Ending.CRASHED:
        return ImportResult(module, False, f"killed by {result.signal_name}")
    if result.ending is Ending.NOT_STARTED or "started" not in facts:
        return ImportResult(
            module, False, f"the interpreter could not be started: {result.error or result.stderr[-200:]}"
        )
    if "error" in facts or "done" not in facts:
        return ImportResult(module, False, str(facts.get("error", f"exit code {result.exit_code}"))[:400])
    file, release = facts.get("file"), facts.get("release")
    return ImportResult(module, True, f"{release or ''} {file or ''}".strip(), file, release)


def working_frameworks(child: ImportSettings, packages: Iterable[Package]) -> tuple[str, ...]:
    """The frameworks there whose import works now."""
    names = [(entry.name, _RAPIDS.fullmatch(entry.name)) for entry in packages]
    modules = [rapids[1] if rapids else _FRAMEWORKS[name] for name, rapids in names if rapids or name in _FRAMEWORKS]
    with ThreadPoolExecutor(max(1, len(modules))) as pool:
        found = list(pool.map(partial(import_in_child, child), modules))
    return tuple(entry.module for entry in found if entry.works)


def proofs(
    plan: Plan, before: Inventory, child: ImportSettings, frameworks: Sequence[str], doctor: DoctorComparison
) -> tuple[Verification, ...]:
    """All verifications, up to the first that fails; those that wait for children run at the same time."""
    after = read_inventory(before.scheme)
    steps: list[Callable[[], Verification]] = [
        lambda: _as_planned(plan, after),
        lambda: _consistent(before, after),
        lambda: import_proof(plan, child, before.scheme),
        lambda: doctor_proof(doctor),
        *(partial(framework_proof, child, module) for module in frameworks),
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            return tuple(until_one_fails(pool.map(timed, steps)))
        except BaseException:
            child.group.close()  # an interrupt does not wait for an import that hangs
            raise


def until_one_fails(made: Iterable[Verification]) -> Iterator[Verification]:
    """The verifications up to the first that failed."""
    for proof in made:
        yield proof
        if proof.passed is False:
            return


def timed(step: Callable[[], Verification]) -> Verification:
    """Runs a verification and notes how long it took."""
    started = time.monotonic()
    proof = step()
    return replace(proof, duration=time.monotonic() - started)


def _as_planned(plan: Plan, after: Inventory) -> Verification:
    """The installed versions and extras are the planned ones, and what was to go has gone."""
    own = {name: entry.release for name, entry in after.own.items()}
    wrong = [
        f"{pin.name} {pin.release} was to be installed, found {own.get(pin.name, 'none')}"
        for pin in plan.install
        if not same_release(own.get(pin.name, "none"), pin.release)
    ]
    coming = {pin.name for pin in plan.install}
    gone = (entry.name for entry in plan.remove if entry.name not in coming)
    wrong += [f"{name} was to be removed and is still installed" for name in gone if name in own]
    visible = {entry.name: entry for entry in after.visible}
    for text in plan.requirements:
        requirement = parse(text)
        there = visible.get(canonicalize_name(requirement.name)) if requirement else None
        if requirement is None or there is None:
            wrong.append(f"{text} is not installed")
            continue
        if not requirement.specifier.contains(there.release, prereleases=True):
            wrong.append(f"{text} was required, {there.release} is installed")
        lost = (extra for extra in map(canonicalize_name, requirement.extras) if extra not in there.extras)
        wrong += [f"{there.name} {there.release} has no extra {extra}" for extra in lost]
    detail = "; ".join(wrong[:_SHOWN]) or f"{len(plan.install)} distributions at their exact versions"
    return Verification("as planned", not wrong, detail)


def _consistent(before: Inventory, after: Inventory) -> Verification:
    """No requirement is unmet that was met before."""
    markers = before.scheme.markers
    old = {str(fault) for fault in unmet_requirements(before.visible, markers)}
    new = [str(fault) for fault in unmet_requirements(after.visible, markers) if str(fault) not in old]
    return Verification(CONSISTENT, not new, "; ".join(new[:_SHOWN]) or "every distribution has what it needs")


def import_proof(plan: Plan, child: ImportSettings, scheme: Scheme) -> Verification:
    """CuPy can be imported, and it is the one that was installed."""
    wanted = next((pin for pin in plan.install if is_cupy(pin.name)), None)
    found = import_in_child(child, "cupy")
    if not found.works:
        without_driver = bool(_NO_DRIVER.search(found.detail))
        passed = None if without_driver else False
        return Verification("import cupy", passed, found.detail + (" (no driver here)" if without_driver else ""))
    folders = (f"{scheme.purelib}/", f"{scheme.platlib}/")
    if wanted is not None and not (found.file or "").startswith(folders):
        return Verification("import cupy", False, f"{ANOTHER}: {found.file}")
    if wanted is not None and found.release and not same_release(found.release, wanted.release):
        return Verification("import cupy", False, f"{wanted.release} was installed, {found.release} is imported")
    return Verification("import cupy", True, found.detail)


def framework_proof(child: ImportSettings, module: str) -> Verification:
    """A framework that could be imported before still can be."""
    found = import_in_child(child, module)
    return Verification(f"import {module}", found.works, found.detail)


def doctor_proof(doctor: DoctorComparison) -> Verification:
    """The doctor finds no error about the target that was not there before."""
    now = doctor.now()
    new = [f"{code}: {title}" for code, title in now.items() if code not in doctor.before]
    gone = [code for code in doctor.before if code not in now]
    detail = "; ".join(new[:_SHOWN]) or (f"fixed: {', '.join(gone)}" if gone else "no new errors")
    return Verification("doctor", not new, detail)
