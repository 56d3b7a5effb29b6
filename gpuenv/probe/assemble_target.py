"""The target's raw facts to its part of the Snapshot: pure. The order of trust is the order of the answers."""

from __future__ import annotations

from gpuenv.model.cupy import is_cupy
from gpuenv.model.reading import Reading, known, missing, settle
from gpuenv.model.snapshot import CupyInstallation, Library, SourceState, Target, Toolkit
from gpuenv.model.versions import CudaVersion, PythonVersion
from gpuenv.probe.parse import fact, parsed
from gpuenv.probe.raw import RawFacts
from gpuenv.probe.raw_target import Distribution, LibraryFacts, TargetFacts

INTERPRETER = "the target's interpreter"
METADATA = "its metadata"
RECORD = "RECORD"
SETTINGS = "CuPy's own code"
_IMPORTS = "the target's import system"
_LINKS = "the folders and links that lead to it"
_AGAIN = "the target's interpreter, started again"
_CACHE = "CUPY_CACHE_DIR and the home folder"


def assemble_target(raw: RawFacts) -> Target:
    """What is in the target, and what CuPy would take from there."""
    facts = raw.target
    reason = raw.target_reason or "the target's interpreter did not tell"
    own = {entry.name: entry.release for entry in reversed(facts.distributions)}
    packages = dict(facts.conda_packages) | own
    return Target(
        executable=fact(
            INTERPRETER if facts.executable else raw.target_named_by, facts.executable or raw.target_path, reason
        ),
        prefix=fact(INTERPRETER, facts.prefix, reason),
        kind=fact(INTERPRETER, facts.kind, reason),
        made_by=fact("pyvenv.cfg or conda-meta", facts.made_by, _absence(facts, "no tool has left its mark", reason)),
        python=settle([parsed(PythonVersion.parse, facts.python, INTERPRETER)], reason),
        implementation=fact(INTERPRETER, facts.implementation, reason),
        platform=fact(INTERPRETER, facts.platform, reason),
        externally_managed=fact(INTERPRETER, facts.externally_managed, reason),
        writable=fact("the permissions of its folder of packages", facts.writable, reason),
        user_site=fact(INTERPRETER, facts.user_site, _absence(facts, "it is not used here", reason)),
        cupy=tuple(_cupy(entry, facts) for entry in facts.distributions if is_cupy(entry.name)),
        cupy_module=fact(_IMPORTS, facts.cupy_module, _absence(facts, "no module of this name is found", reason)),
        numpy=fact(METADATA, packages.get("numpy"), _absence(facts, "NumPy is not there", reason)),
        numpy_module=fact(_IMPORTS, facts.numpy_module, _absence(facts, "no module of this name is found", reason)),
        numpy_fault=fact(_IMPORTS, facts.numpy_fault, _absence(facts, "nothing speaks against it", reason)),
        pathfinder_hidden_by=fact(_IMPORTS, facts.pathfinder_hidden_by, _absence(facts, "nothing does", reason)),
        packages=dict(sorted(packages.items())),
        conda_packages=dict(sorted(facts.conda_packages.items())),
        libraries=_libraries(raw.libraries),
        cuda_path=_setting(raw, raw.libraries.cuda_path, "it finds none"),
        headers=_setting(raw, raw.libraries.headers, "NVRTC did not tell its version"),
        headers_cuda=_headers_cuda(raw),
        preload=dict(sorted(raw.libraries.preload.items())),
        file_faults=raw.files.file_faults,
        file_faults_count=fact(RECORD, raw.files.file_faults_count, _why_no(raw, "files")),
        left_metadata=facts.left_metadata,
        kernels=facts.kernels,
        needs_of_cupy=facts.needs_of_cupy,
        extension=fact("the target's loader", raw.libraries.extension, _no_extension(raw)),
        kernel_cache=fact(_CACHE, facts.kernel_cache, _absence(facts, "kernels are kept in memory", reason)),
        kernel_cache_fault=fact(_CACHE, facts.kernel_cache_fault, _absence(facts, "it can be written", reason)),
        kernel_cache_owners=fact(_CACHE, facts.kernel_cache_owners, _absence(facts, "there is none yet", reason)),
        starts_without=fact(_AGAIN, facts.starts_without, _absence(facts, "it starts as it is", reason)),
        startup_files=facts.startup_files,
        unstartable=fact(_LINKS, facts.unstartable, _absence(facts, "it starts", reason)),
        unreadable=facts.unreadable,
        lost_environment=fact(INTERPRETER, facts.lost_environment, _absence(facts, "it has its settings", reason)),
        environments_near=facts.environments_near,
    )


def _no_extension(raw: RawFacts) -> str:
    """What the loader said; or that it was not asked."""
    return raw.libraries.extension_error or _why_no(raw, "libraries")


def target_toolkits(raw: RawFacts) -> tuple[Toolkit, ...]:
    """The toolkits that conda or wheels have put into the target."""
    return tuple(
        Toolkit(
            path=entry.path,
            found_via=entry.found_via,
            toolkit=settle([parsed(CudaVersion.parse, entry.toolkit, entry.source or "")], "it has no headers"),
            has_nvrtc=entry.has_nvrtc,
            has_headers=entry.has_headers,
        )
        for entry in raw.files.toolkits
    )


def _cupy(entry: Distribution, facts: TargetFacts) -> CupyInstallation:
    file = f"{entry.location}/cupy/__init__.py"
    module = next((found for found in facts.cupy_modules if found.module == file), None)
    return CupyInstallation(
        distribution=entry.name,
        release=entry.release,
        location=entry.location,
        tags=entry.tags,
        for_this_interpreter=module.loads if module else None,
        module=module.module if module else None,
        requires=entry.requires,
        cuda_major=entry.cuda_major,
        place=entry.place,
    )


def _libraries(facts: LibraryFacts) -> tuple[Library, ...]:
    return tuple(
        Library(
            name=entry.name,
            soname=entry.soname,
            path=entry.path,
            found_via=entry.found_via,
            finder_path=entry.finder_path,
            release=entry.release,
            optional=entry.optional,
            error=entry.error,
        )
        for entry in facts.libraries or ()
    )


def _headers_cuda(raw: RawFacts) -> Reading[CudaVersion]:
    """What the headers say that are met first; of two in one folder the one of the runtime is the one compiled with."""
    found = raw.libraries.headers_cuda
    if found is None:
        reason = "none of the folders has CUDA's headers" if raw.libraries.headers is not None else None
        return _setting(raw, None, reason or "the folders are not known")
    return settle(
        [
            parsed(CudaVersion.from_number, found.runtime, f"{found.folder}/cuda_runtime_api.h"),
            parsed(CudaVersion.from_number, found.driver, f"{found.folder}/cuda.h"),
        ],
        "the headers tell no version",
    )


def _setting(raw: RawFacts, value: object, absent: str) -> Reading:  # type: ignore[type-arg]  # the caller's field says which
    """A fact that CuPy's own code tells, where it could be asked."""
    if value is not None:
        return known(value, SETTINGS)
    if raw.libraries.settings:
        return missing(absent)
    return missing(raw.libraries.settings_error or _why_no(raw, "libraries"))


def _absence(facts: TargetFacts, absent: str, reason: str) -> str:
    """Why a fact is null: because it is so, where the interpreter has answered."""
    return absent if facts.python else reason


def _why_no(raw: RawFacts, name: str) -> str:
    source = next((source for source in raw.sources if source.name == name), None)
    if source is None or source.state is SourceState.ANSWERED:
        return "CuPy's own files were not there to be asked" if name == "libraries" else "nobody looked"
    return source.detail or source.state.value
