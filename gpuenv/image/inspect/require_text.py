"""A requirement of an image as text: what it demands, and what would have to change for it to be met."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuenv.image.inspect.nvidia_require import Condition, Machine, Requirement, holds, ineffective_disable_value
from gpuenv.image.inspect.rule_context import RuleContext
from gpuenv.matrix.products import branches_for
from gpuenv.matrix.tables import DriverBranch
from gpuenv.model.versions import CudaVersion, DriverVersion

_MOST, _LONGEST = 12, 120
_BRANCH = re.compile(r"\d{1,9}")


def wants(requirement: Requirement) -> str:
    """Its first alternative, and how many others there are."""
    first = ", ".join(map(str, requirement[0])) if requirement else "nothing"
    first = first if len(first) <= _LONGEST else f"{first[:_LONGEST]}..."
    windows = _branches(requirement)
    if windows:
        return f"{first} (or a driver of branch {_listed(windows)} with a GPU of a listed brand)"
    more = len(requirement) - 1
    return f"{first} (or one of {more} alternatives)" if more > 0 else first


def requirement_text(requirement: Requirement) -> str:
    """All of it, with the windows of driver branches put together."""
    plain = [", ".join(map(str, entries)) for entries in requirement if _window(entries) is None]
    branches, brands = _branches(requirement), _brands(requirement)
    alternatives = list(dict.fromkeys(plain))[:_MOST]
    if branches:
        alternatives.append(f"a driver of branch {_listed(branches)} with brand {', '.join(brands) or 'any'}")
    return "; or ".join(alternatives)


def _window(entries: tuple[Condition, ...]) -> int | None:
    """The branch of ``driver>=535,driver<536``."""
    low = next(
        (c.value for c in entries if (c.key, c.operator) == ("driver", ">=") and _BRANCH.fullmatch(c.value)), None
    )
    high = next(
        (c.value for c in entries if (c.key, c.operator) == ("driver", "<") and _BRANCH.fullmatch(c.value)), None
    )
    return int(low) if low and high and int(high) == int(low) + 1 else None


def _branches(requirement: Requirement) -> list[str]:
    found = {window for entries in requirement if (window := _window(entries)) is not None}
    return [str(branch) for branch in sorted(found)]


def _brands(requirement: Requirement) -> list[str]:
    return sorted({c.value for entries in requirement if _window(entries) for c in entries if c.key == "brand"})


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def changes(requirement: Requirement, ctx: RuleContext, refused: tuple[str | None, ...]) -> Iterator[str]:
    """Changes that would meet the requirement on this machine, the simplest first."""
    for number, text in enumerate(_ways(requirement, ctx, refused)):
        alone = text.removeprefix("Or ")
        yield text if number else f"{alone[:1].upper()}{alone[1:]}"


def _ways(requirement: Requirement, ctx: RuleContext, refused: tuple[str | None, ...]) -> Iterator[str]:
    branches = ctx.matrix.driver_branches if not ctx.needs.tegra else ()  # a Jetson's comes with its JetPack
    branch = next((row for row in branches if _admits(requirement, row, ctx)), None)
    if branch is not None:
        first = f" ({branch.first} or newer)" if branch.first else ""
        yield f"Update the driver to branch {branch.branch}{first}: its CUDA level is {branch.cuda}."
    fitting = [gpu.label for gpu in ctx.gpus if gpu.label not in refused]
    if fitting:
        yield f"Or give the container only the GPUs that it allows: {', '.join(dict.fromkeys(fitting))}."
    if ctx.level is not None:
        yield f"Or use an image of CUDA {ctx.level} or older."
    cuda = ctx.contents.cuda
    if cuda is not None and ctx.level is not None and runs_by_minor(cuda, ctx):
        yield (
            f"CUDA {cuda} itself runs on this driver (minor-version compatibility), so NVIDIA_DISABLE_REQUIRE=1 or CDI "
            "would do for programs that need nothing newer than the driver."
        )
    meant = ineffective_disable_value(ctx.image.environment)
    if meant is not None:
        yield f"NVIDIA_DISABLE_REQUIRE={meant[:20]} of the image switches nothing off: 1 or true would."


def oldest_driver(cuda: CudaVersion, ctx: RuleContext) -> DriverVersion | None:
    """The oldest driver on which programs of a CUDA major run."""
    row = next((entry for entry in ctx.matrix.cuda_majors if entry.major == cuda.major), None)
    return (row.windows if ctx.needs.windows else row.linux) if row else None


def runs_by_minor(cuda: CudaVersion, ctx: RuleContext) -> bool:
    """Whether CUDA's minor-version compatibility lets its programs run on this driver."""
    oldest = oldest_driver(cuda, ctx)
    return oldest is not None and ctx.driver is not None and ctx.driver >= oldest


def supports_gpus(branch: int, ctx: RuleContext) -> bool:
    """Whether a driver branch is one for every GPU of the machine, as far as the matrix says."""
    ranges = [branches_for(gpu.compute_capability, ctx.matrix) for gpu in ctx.gpus]
    return not any(each.wants(branch) for each in ranges if each is not None)


def _admits(requirement: Requirement, row: DriverBranch, ctx: RuleContext) -> bool:
    """Whether a newer driver branch would meet it with the GPUs that are there."""
    if (ctx.driver is not None and row.branch <= ctx.driver.branch) or not supports_gpus(row.branch, ctx):
        return False
    version = str(row.first or f"{row.branch}.0")
    machines = [machine for gpu in ctx.gpus for machine in gpu.machines] or [Machine()]
    return all(holds(requirement, Machine(str(row.cuda), version, each.arch, each.brand)) for each in machines)
