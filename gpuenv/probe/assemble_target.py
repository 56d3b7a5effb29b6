"""The target's raw facts to its part of the Snapshot."""

from __future__ import annotations

from typing import TypeVar

from gpuenv.model.cupy import is_cupy
from gpuenv.model.reading import Reading, known, missing, settle
from gpuenv.model.snapshot import (
    CupyDependent,
    CupyInstallation,
    FileFault,
    JupyterKernel,
    Library,
    SourceState,
    StaleMetadata,
    Target,
)
from gpuenv.model.versions import CudaVersion, PythonVersion
from gpuenv.probe.raw import NOT_READ, RawFacts, parsed, reading

V = TypeVar("V")

INTERPRETER = "the target's interpreter"
_IMPORTS = "the target's import system"
_CACHE = "CUPY_CACHE_DIR and the home folder"
_NO_MODULE = "no module of this name is found"


def assemble_target(raw: RawFacts) -> Target:
    """What is in the target, and what CuPy would take from there."""
    facts = raw.target
    reason = raw.target_reason or f"{INTERPRETER} did not tell"
    answered = bool(facts.text("python"))
    distributions = facts.all("distributions", CupyInstallation)
    by_conda = facts.get("conda_packages", dict[str, str]) or {}
    packages = by_conda | {entry.distribution: entry.release for entry in reversed(distributions)}
    executable = facts.text("executable")

    def known_or(name: str, source: str, absent: str) -> Reading[str]:
        """A fact that is null because it is so, where the interpreter has answered."""
        return facts.reading(name, str, source, absent if answered else reason)

    return Target(
        executable=reading(INTERPRETER if executable else raw.target_named_by, executable or raw.target_path, reason),
        prefix=facts.reading("prefix", str, INTERPRETER, reason),
        kind=facts.reading("kind", str, INTERPRETER, reason),
        made_by=known_or("made_by", "pyvenv.cfg or conda-meta", "no tool has left its mark"),
        python=settle([parsed(PythonVersion.parse, facts.text("python"), INTERPRETER)], reason),
        implementation=facts.reading("implementation", str, INTERPRETER, reason),
        platform=facts.reading("platform", str, INTERPRETER, reason),
        externally_managed=facts.reading("externally_managed", bool, INTERPRETER, reason),
        writable=facts.reading("writable", bool, "the permissions of its folder of packages", reason),
        user_site=known_or("user_site", INTERPRETER, "it is not used here"),
        cupy=_cupy(raw, distributions),
        cupy_module=known_or("cupy_module", _IMPORTS, _NO_MODULE),
        numpy=reading("its metadata", packages.get("numpy"), "NumPy is not there" if answered else reason),
        numpy_module=known_or("numpy_module", _IMPORTS, _NO_MODULE),
        numpy_fault=known_or("numpy_fault", _IMPORTS, "nothing speaks against it"),
        pathfinder_hidden_by=known_or("pathfinder_hidden_by", _IMPORTS, "nothing does"),
        packages=dict(sorted(packages.items())),
        conda_packages=dict(sorted(by_conda.items())),
        libraries=raw.libraries.all("libraries", Library),
        cuda_path=_setting(raw, raw.libraries.text("cuda_path"), "it finds none"),
        headers=_setting(raw, raw.libraries.get("headers", tuple[str, ...]), "NVRTC did not tell its version"),
        headers_cuda=_headers_cuda(raw),
        preload=dict(sorted((raw.libraries.get("preload", dict[str, str]) or {}).items())),
        file_faults=raw.files.all("file_faults", FileFault),
        file_faults_count=raw.files.reading("file_faults_count", int, "RECORD", _why_no(raw, "files")),
        left_metadata=facts.all("left_metadata", StaleMetadata),
        kernels=facts.all("kernels", JupyterKernel),
        needs_of_cupy=facts.all("needs_of_cupy", CupyDependent),
        extension=raw.libraries.reading(
            "extension", str, "the target's loader", raw.libraries.text("extension_error") or _why_no(raw, "libraries")
        ),
        kernel_cache=known_or("kernel_cache", _CACHE, "kernels are kept in memory"),
        kernel_cache_fault=known_or("kernel_cache_fault", _CACHE, "it can be written"),
        kernel_cache_owners=facts.reading(
            "kernel_cache_owners", int, _CACHE, "there is none yet" if answered else reason
        ),
        starts_without=known_or("starts_without", f"{INTERPRETER}, started again", "it starts as it is"),
        startup_files=facts.all("startup_files", str),
        unstartable=known_or("unstartable", "the folders and links that lead to it", "it starts"),
        unreadable=facts.all("unreadable", str),
        lost_environment=known_or("lost_environment", INTERPRETER, "it has its settings"),
        environments_near=facts.all("environments_near", str),
    )


def _cupy(raw: RawFacts, distributions: tuple[CupyInstallation, ...]) -> tuple[CupyInstallation, ...]:
    """Each CuPy, with the package that lies where its metadata does."""
    modules = {entry.text("module"): entry.get("loads", bool) for entry in raw.target.parts("cupy_modules")}
    found = []
    for entry in distributions:
        file = f"{entry.location}/cupy/__init__.py"
        has_file = file in modules
        if is_cupy(entry.distribution):
            found.append(entry._replace(for_this_interpreter=modules.get(file), module=file if has_file else None))
    return tuple(found)


def _headers_cuda(raw: RawFacts) -> Reading[CudaVersion]:
    """What the headers say that are met first; of two in one folder the one of the runtime is the one compiled with."""
    found = raw.libraries.part("headers_cuda")
    if not found:
        looked = "headers" in raw.libraries
        return _setting(raw, None, "none of the folders has CUDA's headers" if looked else "the folders are not known")
    folder = found.text("folder")
    return settle(
        [
            parsed(CudaVersion.from_number, found.get("runtime", int), f"{folder}/cuda_runtime_api.h"),
            parsed(CudaVersion.from_number, found.get("driver", int), f"{folder}/cuda.h"),
        ],
        "the headers tell no version",
    )


def _setting(raw: RawFacts, value: V | None, absent: str) -> Reading[V]:
    """A fact that CuPy's own code tells, where it could be asked."""
    if value is not None:
        return known(value, "CuPy's own code")
    if "cuda_path" in raw.libraries:
        return missing(absent)
    return missing(raw.libraries.text("settings_error") or _why_no(raw, "libraries"))


def _why_no(raw: RawFacts, name: str) -> str:
    source = next((source for source in raw.sources if source.name == name), None)
    if source is None or source.state is SourceState.ANSWERED:
        return "CuPy's own files were not there to be asked" if name == "libraries" else NOT_READ
    return source.detail or source.state.value
