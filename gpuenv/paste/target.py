"""The target environment that a paste tells of: its packages, its CuPy, its libraries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuenv.model.cuda_libraries import WANTED
from gpuenv.model.lines import cuda_major_of, is_cupy, line_of_build
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import CupyInstallation, Library, Target, Toolkit
from gpuenv.model.versions import CudaVersion, PythonVersion
from gpuenv.paste import forms
from gpuenv.paste.merge import UNSAID, answers, reading
from gpuenv.paste.records import Pasted
from gpuenv.probe.scripts.interpreter_packages import RELEVANT

_UNNAMED = "a file that the paste does not name"
_NOWHERE = "a folder that the paste does not name"


def pasted_target(pasted: Pasted) -> Target:
    """The environment, as far as it is told."""
    packages = {name: release for name, (release, _) in pasted.packages.items() if RELEVANT.match(f"{name}-{release}")}
    by_conda = {name: release for name, (release, by) in pasted.packages.items() if by == "conda"}
    numpy = reading(pasted, "numpy", str)
    if "numpy" in packages:
        numpy = known(packages["numpy"], "pasted list of packages")
    for torch in answers(pasted, "package.torch")[:1]:
        packages["torch"] = max(torch.value, packages.get("torch", ""), key=len)  # one of them may lack the local part
    cupy = _cupy(pasted, packages)
    packages = {**packages, **{entry.distribution: entry.release for entry in cupy}}
    if numpy.value is not None:
        packages.setdefault("numpy", numpy.value)
    return Target(
        kind=Reading("conda", f"pasted {forms.CONDA}") if by_conda else Reading(),
        python=_python(pasted, by_conda),
        implementation=UNSAID,
        cupy=cupy,
        numpy=numpy,
        packages=packages,
        conda_packages={name: release for name, release in by_conda.items() if name in packages},
        cuda_path=reading(pasted, "cuda-path", str),
        libraries=_libraries(pasted, cupy, packages),
    )


def pasted_toolkits(pasted: Pasted) -> tuple[Toolkit, ...]:
    """A toolkit whose nvcc answers is taken for a whole one; what CuPy has found may lack NVRTC."""
    told = answers(pasted, "toolkit")
    path = reading(pasted, "cuda-path", str).value
    if not told or (told[0].form == forms.SHOW_CONFIG and path is None):
        return ()
    by_cupy = told[0].form == forms.SHOW_CONFIG
    has_nvrtc = not by_cupy or bool(answers(pasted, "nvrtc"))
    found_via = "CuPy" if by_cupy else "PATH"
    level = reading(pasted, "toolkit", CudaVersion.parse)
    return (Toolkit(str(path) if by_cupy else _NOWHERE, found_via, level, has_nvrtc=has_nvrtc, has_headers=True),)


def _python(pasted: Pasted, by_conda: Mapping[str, str]) -> Reading[PythonVersion]:
    told = reading(pasted, "python", PythonVersion.parse)
    if told.known:
        return told
    try:
        return known(PythonVersion.parse(by_conda.get("python", "")), f"pasted {forms.CONDA}")
    except ValueError:
        return told


def _libraries(pasted: Pasted, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> tuple[Library, ...]:
    """The libraries that CuPy has asked for their release, or could not load."""
    nvrtc = reading(pasted, "nvrtc", CudaVersion.parse).value
    major = cuda_major_of(cupy[0].distribution, packages) if cupy else None
    found = []
    for entry in WANTED.get(major or 0, ()):
        library = Library(entry.name, entry.soname, found_via=forms.SHOW_CONFIG)
        missing = answers(pasted, f"missing.{entry.name}")
        if missing:
            found.append(replace(library, error=missing[0].value))
        elif entry.name == "nvrtc" and nvrtc is not None:
            found.append(replace(library, path=_UNNAMED, release=str(nvrtc)))
    return tuple(found)


def _cupy(pasted: Pasted, packages: Mapping[str, str]) -> tuple[CupyInstallation, ...]:
    """CuPy as a list of packages has it, else as it says itself, which tells its CUDA and not its distribution."""
    listed = [name for name in packages if is_cupy(name)]
    if "cupy" in listed:  # conda's cupy stands on its cupy-core: one installation
        listed = [name for name in listed if name != "cupy-core"]
    if listed:
        return tuple(CupyInstallation(name, packages[name]) for name in sorted(listed))
    release, cuda = answers(pasted, "cupy-release"), answers(pasted, "cupy-cuda")
    if not release or not cuda or answers(pasted, "rocm"):
        return ()
    line = line_of_build(release[0].value, CudaVersion.parse(cuda[0].value))
    return (CupyInstallation(line, release[0].value),) if line else ()
