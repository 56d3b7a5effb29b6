"""CUDA libraries of different releases, which the loader does not bring together."""

from __future__ import annotations

from gpuenv.doctor.checks.cupy import ONE_CUPY
from gpuenv.doctor.evidence import cuda_bringers, searched
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.installed import installed_cuda_major
from gpuenv.doctor.loader_errors import Refusal, library_of_symbol, refusal_of
from gpuenv.doctor.registry import Facts, Outcome, RepairKind, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.cuda_wheels import cuda_wheel
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.pattern import pattern
from gpuenv.model.snapshot import Library

_RELEASE = pattern(r"_(\d{1,3})_(\d{1,3})$")  # how nvJitLink's symbols end: __nvJitLinkComplete_12_4


@check(
    "LIB611",
    Cause.LIBRARY_PATH_CONFLICT,
    Cause.TORCH_CUPY_CONFLICT,
    requires=(*ONE_CUPY, "LIB602", "LIB603"),
    repair=RepairKind.ADD,
)
def refused(facts: Facts) -> Outcome:
    """A CUDA library that CuPy loads is there, and cannot be loaded together with another one that is found first.

    What it means: CUDA's libraries use each other, and one needs another that is of its own release or newer. Where an
    older nvJitLink is installed beside a newer cuSPARSE, or LD_LIBRARY_PATH leads to one, the loader refuses cuSPARSE.
    CuPy itself then says that the library is not found.
    How it is seen: the loader's own words when the target loads each library: a symbol or a version that is not there.
    What to do: install the library that lacks it in the release of the one that needs it, or let that be found first.
    """
    told = [(library, refusal) for library in facts.snapshot.target.libraries if (refusal := refusal_of(library))]
    if not told:
        return
    refusal = told[0][1]
    provider = _provider(facts, refusal)
    bringers = cuda_bringers(facts.snapshot) if _is_wheels(provider) else ()
    named = provider.soname if provider else refusal.by or "library"
    sonames = ", ".join(entry.soname for entry, _ in told)
    found = f"{provider.release or 'unknown'} in {provider.path}" if provider else "unknown"
    yield Symptom(
        f"{sonames} cannot be loaded: the {named} that is found first is of another release",
        tuple(Evidence(entry.soname, entry.error or "", "the target's loader") for entry, _ in told)
        + (Evidence(named, found, "its own word"),)
        + bringers
        + searched(facts.snapshot)[:1],
        _same_release(facts, refusal, provider),
        cause=Cause.TORCH_CUPY_CONFLICT if bringers else None,
    )


def _provider(facts: Facts, refusal: Refusal) -> Library | None:
    """The library that lacks what is needed, where it is known which one that is: by its soname, or by the symbol's."""
    for entry in facts.snapshot.target.libraries:
        if entry.path and (
            entry.soname == refusal.by if refusal.by else entry.name == library_of_symbol(refusal.symbol)
        ):
            return entry
    return None


def _is_wheels(library: Library | None) -> bool:
    return library is not None and "/site-packages/" in (library.path or "")


def _same_release(facts: Facts, refusal: Refusal, provider: Library | None) -> tuple[Fix, ...]:
    first = Fix("Let the loader find the libraries of one CUDA release first: LD_LIBRARY_PATH decides where set.")
    release, major = _RELEASE.search(refusal.symbol), installed_cuda_major(facts)
    if provider is None or not _is_wheels(provider) or major is None or release is None:
        return (first,)
    wheel = cuda_wheel(provider.name.lower(), major)
    if wheel not in facts.snapshot.target.packages:
        return (first,)
    wanted = f"{wheel}>={release[1]}.{release[2]},<{int(release[1]) + 1}"
    return (
        pip_fix(facts.snapshot, "Install it in the release that is needed.", "install", wanted),
        Fix("Where another package pins the older one: keep CuPy and that package in environments of their own."),
    )
