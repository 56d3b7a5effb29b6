"""Where a finding stands in a repository: systems of code review want a file and a line for everything. Pure."""

from __future__ import annotations

from gpuenv.model.finding import Finding
from gpuenv.model.requirement import RequirementResult
from gpuenv.report.report import Report
from gpuenv.report.told import requirement_of

_USUAL = "pyproject.toml"


def anchor(finding: Finding, report: Report) -> tuple[str, int]:
    """The requirement's own line; what is the machine's fault stands in the first line of the file that asks for it."""
    result = requirement_of(finding, report)
    if result is not None and result.file is not None:
        return requirement_anchor(result)
    return usual_anchor(report)


def usual_anchor(report: Report) -> tuple[str, int]:
    """The first line of the file that asks for something, or would."""
    asking = next((entry.file for entry in report.requirements if entry.file is not None), None)
    return _relative(asking or _USUAL), 1


def requirement_anchor(result: RequirementResult) -> tuple[str, int]:
    """The line in which a requirement stands; the usual file for one of the command line."""
    return _relative(result.file or _USUAL), result.line or 1


def _relative(path: str) -> str:
    """A path below the repository; another one is named by its last part."""
    outside = path.startswith(("/", "~", "..")) or ":" in path
    return path.rsplit("/", 1)[-1] if outside else path
