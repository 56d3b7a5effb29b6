"""Predicts the image that a Dockerfile builds, and checks it on machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gpuenv.image.dockerfile.base_images import BaseImage
from gpuenv.image.dockerfile.cuda import cuda_sources, frameworks, release_of
from gpuenv.image.dockerfile.requirements import Install, is_cuda_related
from gpuenv.image.dockerfile.target import BuildTarget
from gpuenv.image.dockerfile.variables import is_known
from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.image_report import ImageReport, MachineVerdict
from gpuenv.image.inspect.rule_context import MAINTAINER
from gpuenv.image.inspect.rules_driver import wanted_platform
from gpuenv.image.inspect.verdict import judge_machine, status_of, with_verdicts
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.tables import Flavour, Image, Matrix
from gpuenv.model.snapshot import Snapshot

_FLAVOUR_VARIABLES = {
    Flavour.BASE: ("NV_CUDA_CUDART_VERSION",),
    Flavour.RUNTIME: ("NV_CUDA_CUDART_VERSION", "NV_CUDA_LIB_VERSION"),
    Flavour.DEVEL: ("NV_CUDA_CUDART_VERSION", "NV_CUDA_LIB_VERSION", "NV_CUDA_CUDART_DEV_VERSION"),
}


def with_machines(
    report: ImageReport,
    built: tuple[BuildTarget, ...],
    machines: Mapping[str, Snapshot],
    matrix: Matrix,
    clock: Callable[[], float],
) -> ImageReport:
    """The report on a Dockerfile, with a verdict for each machine and target; the clock times the checks."""
    if not machines or not built:
        return report
    verdicts = tuple(
        _with_target_name(_machine_verdict(name, each, snapshot, matrix, clock), each, built)
        for name, snapshot in machines.items()
        for each in built
    )
    return with_verdicts(report, verdicts)


def _machine_verdict(
    name: str, target: BuildTarget, snapshot: Snapshot, matrix: Matrix, clock: Callable[[], float]
) -> MachineVerdict:
    """The verdict on a target on a machine; unknown if the base image is unknown."""
    verdict = judge_machine(name, predicted_image(target, snapshot, matrix), snapshot, matrix, clock)
    base, has = target.base, cuda_sources(target)
    conditions = [each for each in target.unknown if any(map(is_cuda_related, each.possible))]
    if conditions:
        reasons = tuple(f"whether this runs: {each.what} (line {each.location.line})" for each in conditions)
        status = status_of(verdict.findings, unknown=True)
        return replace(verdict, unknown=(*verdict.unknown, *reasons), status=status)
    lines = [line for line in matrix.wheel_lines if any(entry.name == line.name for entry in target.cupy)]
    if not base.unknown or (lines and all(line.cuda_major in has.wheels for line in lines)):
        return verdict
    hint = f"; gpuenv check-image {base.text} reads it from the registry" if base.name is not None else ""
    reason = f"which CUDA the base image {base.text} has: its name does not show it{hint}"
    return replace(verdict, unknown=(*verdict.unknown, reason), status=status_of(verdict.findings, unknown=True))


def _with_target_name(verdict: MachineVerdict, target: BuildTarget, every: tuple[BuildTarget, ...]) -> MachineVerdict:
    stage = target.stages[-1]
    several = sum(other.service == target.service for other in every) > 1
    parts = [f"service {target.service}"] if target.service else []
    parts += [f"stage {stage.name or stage.number}"] if several else []
    return replace(verdict, machine=f"{verdict.machine} ({', '.join(parts)})") if parts else verdict


def predicted_image(target: BuildTarget, snapshot: Snapshot, matrix: Matrix) -> ImageFacts:
    """The facts of the predicted image for a machine's platform, from its base image and its Dockerfile."""
    base, cupy = target.base, [install for install in target.cupy if install.name != "cupy"]
    environment = {
        **_base_environment(base),
        **{name: setting.value for name, setting in target.environment.items() if is_known(setting.value)},
    }
    if target.python is not None:
        environment.setdefault("PYTHON_VERSION", str(target.python))
    return ImageFacts(
        reference=base.text if is_known(base.text) else "unknown",
        source="dockerfile",
        platform=target.stages[-1].platform or str(wanted_platform(needs_of(snapshot, matrix))),
        environment=environment,
        labels=_labels(target),
        history=(
            *(_step(target, install) for install in cupy),
            *(f"RUN pip install {each.name}" for each in frameworks(target)),
        ),
        frameworks={each.name: str(each.cuda) for each in frameworks(target) if each.cuda},
    )


def _labels(target: BuildTarget) -> dict[str, str]:
    """The labels: the maintainer of NVIDIA's images, and the CUDA of an image with an unknown requirement.

    CUDA_VERSION would be a requirement: without NVIDIA_REQUIRE_CUDA, the container toolkit takes it for one.
    """
    base = target.base
    found = {"maintainer": MAINTAINER} if base.nvidia or base.row or base.nvidia_row else {}
    cuda = cuda_sources(target).cuda
    if cuda is not None and (base.row or base.nvidia_row) is None:
        found["com.nvidia.cuda.version"] = str(cuda)
    return found


def _step(target: BuildTarget, install: Install) -> str:
    """The step of the history that installs a CuPy."""
    release = release_of(target, install)
    extras = f"[{','.join(sorted(install.extras))}]" if install.extras else ""
    return f"RUN pip install {install.name}{extras}" + (f"=={release.cupy}" if release else "")


def _base_environment(base: BaseImage) -> dict[str, str]:
    if base.tegra:
        return {"L4T_VERSION": f"of {base.text}"}
    if base.rocm:
        return {"ROCM_PATH": "/opt/rocm"}
    if base.cuda is None:
        return {}
    version = str(base.cuda)
    names = _FLAVOUR_VARIABLES.get(base.flavour, ()) if base.flavour else ()
    found = dict.fromkeys(names, version)
    row = base.row or base.nvidia_row
    if row is not None:
        found |= {"CUDA_VERSION": version, "NVIDIA_REQUIRE_CUDA": requirement_of(row)}
    if base.nvidia or row is not None:
        found |= {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    return found


def requirement_of(row: Image) -> str:
    """NVIDIA_REQUIRE_CUDA of an image of the matrix, in NVIDIA's form."""
    windows = (f"brand={brand},driver>={branch},driver<{branch + 1}" for branch in row.branches for brand in row.brands)
    return " ".join((f"cuda>={row.cuda}", *windows))
