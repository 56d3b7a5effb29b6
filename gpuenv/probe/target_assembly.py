"""Assembles the target's part of a Snapshot."""

from __future__ import annotations

from typing import TypeVar

from gpuenv.model.cupy import is_cupy
from gpuenv.model.reading import Reading, known, missing, settle
from gpuenv.model.redaction import cut_text
from gpuenv.model.snapshot import (
    CupyInstallation,
    Dependent,
    FileFault,
    JupyterKernel,
    Library,
    OpenTransaction,
    SourceState,
    StaleMetadata,
    Target,
)
from gpuenv.model.versions import CudaVersion, PythonVersion
from gpuenv.probe.raw import NOT_READ, RawFacts, parse_answer, reading

V = TypeVar("V")

INTERPRETER = "the target's interpreter"
_IMPORTS = "the target's import system"
_CACHE = "CUPY_CACHE_DIR and the home folder"
_LONGEST = 300  # characters shown of an error
_NO_MODULE = "no module of this name was found"


def assemble_target(raw: RawFacts) -> Target:
    """The target's content, and what CuPy would load from it."""
    facts = raw.target
    reason = raw.target_reason or f"{INTERPRETER} printed nothing"
    answered = bool(facts.text("python"))
    no_extension = _error(raw, "extension_error") or _missing_reason(raw, "libraries")
    distributions = facts.all("distributions", CupyInstallation)
    by_conda = facts.get("conda_packages", dict[str, str]) or {}
    packages = by_conda | {entry.distribution: entry.release for entry in reversed(distributions)}
    executable = facts.text("executable")

    def known_or(name: str, source: str, absent: str) -> Reading[str]:
        """A text that may be null; if it is, the reason is ``absent``, unless the interpreter did not answer."""
        return facts.reading(name, str, source, absent if answered else reason)

    return Target(
        executable=reading(INTERPRETER if executable else raw.target_named_by, executable or raw.target_path, reason),
        prefix=facts.reading("prefix", str, INTERPRETER, reason),
        kind=facts.reading("kind", str, INTERPRETER, reason),
        made_by=known_or("made_by", "pyvenv.cfg or conda-meta", "no tool's marker file was found"),
        python=settle([parse_answer(PythonVersion.parse, facts.text("python"), INTERPRETER)], reason),
        implementation=facts.reading("implementation", str, INTERPRETER, reason),
        platform=facts.reading("platform", str, INTERPRETER, reason),
        externally_managed=facts.reading("externally_managed", bool, INTERPRETER, reason),
        writable=facts.reading("writable", bool, "the permissions of its folder of packages", reason),
        user_site=known_or("user_site", INTERPRETER, "not enabled"),
        cupy=_cupy(raw, distributions),
        cupy_module=known_or("cupy_module", _IMPORTS, _NO_MODULE),
        numpy=reading("its metadata", packages.get("numpy"), "NumPy is not installed" if answered else reason),
        numpy_module=known_or("numpy_module", _IMPORTS, _NO_MODULE),
        numpy_fault=known_or("numpy_fault", _IMPORTS, "it seems importable"),
        pathfinder_hidden_by=known_or("pathfinder_hidden_by", _IMPORTS, "it is not hidden"),
        packages=dict(sorted(packages.items())),
        conda_packages=dict(sorted(by_conda.items())),
        conda_needs=facts.all("conda_needs", Dependent),
        libraries=raw.libraries.all("libraries", Library),
        cuda_path=_setting(raw, raw.libraries.text("cuda_path"), "it found none"),
        headers=_setting(raw, raw.libraries.get("headers", tuple[str, ...]), "NVRTC's version is unknown"),
        headers_cuda=_headers_cuda(raw),
        preload=dict(sorted((raw.libraries.get("preload", dict[str, str]) or {}).items())),
        file_faults=raw.files.all("file_faults", FileFault),
        file_faults_count=raw.files.reading("file_faults_count", int, "RECORD", _missing_reason(raw, "files")),
        left_metadata=facts.all("left_metadata", StaleMetadata),
        kernels=facts.all("kernels", JupyterKernel),
        needs_of_cupy=facts.all("needs_of_cupy", Dependent),
        cuda_dependents=facts.get("cuda_dependents", tuple[Dependent, ...]),
        extension=raw.libraries.reading(
            "extension",
            str,
            "the target's loader",
            no_extension,
        ),
        kernel_cache=known_or("kernel_cache", _CACHE, "kernels are kept in memory"),
        kernel_cache_fault=known_or("kernel_cache_fault", _CACHE, "it is writable"),
        kernel_cache_owners=facts.reading(
            "kernel_cache_owners", int, _CACHE, "it does not exist yet" if answered else reason
        ),
        starts_without=known_or("starts_without", f"{INTERPRETER}, started again", "it starts unchanged"),
        startup_files=facts.all("startup_files", str),
        unstartable=known_or("unstartable", "the folders and links that lead to it", "it starts"),
        venv_python=known_or("venv_python", "pyvenv.cfg", "no pyvenv.cfg names one"),
        unreadable=facts.all("unreadable", str),
        lost_environment=known_or("lost_environment", INTERPRETER, "its pyvenv.cfg exists"),
        environments_near=facts.all("environments_near", str),
        examined_as=reading("the owner of its files", raw.examined_as, "it was examined as the user of gpuenv"),
        open_transaction=facts.reading(
            "open_transaction",
            OpenTransaction,
            "the journals in its folder .gpuenv",
            facts.text("unread_transactions") or "no install or rollback of gpuenv was interrupted",
        ),
    )


def _cupy(raw: RawFacts, distributions: tuple[CupyInstallation, ...]) -> tuple[CupyInstallation, ...]:
    """Each CuPy, with the package next to its metadata."""
    modules = {entry.text("module"): entry.get("loads", bool) for entry in raw.target.parts("cupy_modules")}
    found = []
    for entry in distributions:
        file = f"{entry.location}/cupy/__init__.py"
        has_file = file in modules
        if is_cupy(entry.distribution):
            found.append(entry._replace(for_this_interpreter=modules.get(file), module=file if has_file else None))
    return tuple(found)


def _headers_cuda(raw: RawFacts) -> Reading[CudaVersion]:
    """The version of the first headers on the path; the runtime's header, which CuPy includes, comes first."""
    found = raw.libraries.part("headers_cuda")
    if not found:
        is_searched = "headers" in raw.libraries
        return _setting(raw, None, "no CUDA headers in these folders" if is_searched else "the folders are unknown")
    folder = found.text("folder")
    return settle(
        [
            parse_answer(CudaVersion.from_number, found.get("runtime", int), f"{folder}/cuda_runtime_api.h"),
            parse_answer(CudaVersion.from_number, found.get("driver", int), f"{folder}/cuda.h"),
        ],
        "the headers define no version",
    )


def _setting(raw: RawFacts, value: V | None, absent: str) -> Reading[V]:
    """A value found by CuPy's own code, if it could be run."""
    if value is not None:
        return known(value, "CuPy's own code")
    if "cuda_path" in raw.libraries:
        return missing(absent)
    return missing(_error(raw, "settings_error") or _missing_reason(raw, "libraries"))


def _error(raw: RawFacts, name: str) -> str | None:
    """An error in the target's loader or in CuPy's own code, shortened."""
    text = raw.libraries.text(name)
    return None if text is None else cut_text(text, _LONGEST)


def _missing_reason(raw: RawFacts, name: str) -> str:
    source = next((source for source in raw.sources if source.name == name), None)
    if source is None or source.state is SourceState.ANSWERED:
        return "CuPy's own files are missing" if name == "libraries" else NOT_READ
    return source.detail or source.state.value
