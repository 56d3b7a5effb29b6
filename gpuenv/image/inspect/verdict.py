"""Whether an image runs on machines: every rule, the doctor's findings on each machine, and the status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpuenv import __version__
from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.doctor.registry import NotKnown, all_checks, to_finding
from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.image_report import ImageFinding, ImageReport, MachineVerdict, at_location
from gpuenv.image.inspect.rule_context import RuleContext, contents_of, context_of_rules
from gpuenv.image.inspect.rules import OTHER_IMAGE, all_rules
from gpuenv.image.inspect.rules_image import requirement_verdicts
from gpuenv.matrix.needs import driver_absent
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.finding import CheckStatus, Finding, Severity, ranked
from gpuenv.model.gpus import is_contained
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.report import Status

_CODES = {Status.UNFIT: ExitCode.UNFIT, Status.UNKNOWN: ExitCode.COULD_NOT_CHECK}
_ORDER = (Status.UNFIT, Status.UNKNOWN, Status.DEGRADED, Status.FIT)


def judge_machine(
    name: str, image: ImageFacts, snapshot: Snapshot, matrix: Matrix, clock: Callable[[], float]
) -> MachineVerdict:
    """Whether an image runs on a machine.

    Args:
        name: the machine's.
        image: the one for its platform.
        snapshot: what was read of it.
        matrix: the compatibility matrix.
        clock: seconds.
    """
    ctx = context_of_rules(image, snapshot, matrix)
    of_machine, open_questions = _of_machine(ctx, clock)
    findings = list(of_machine)
    for rule in sorted(all_rules("IMG"), key=lambda rule: rule.code not in OTHER_IMAGE):
        for outcome in rule.run(ctx):
            if isinstance(outcome, NotKnown):
                open_questions.append(outcome.reason)
            else:
                findings.append(to_finding(rule, outcome))
    in_order = ranked_findings([at_location(entry, machine=name) for entry in findings])
    return _verdict(name, ctx, in_order, tuple(dict.fromkeys(open_questions)))


def unfetched_verdict(name: str, reference: str, why: str, snapshot: Snapshot, matrix: Matrix) -> MachineVerdict:
    """Verdict on an image that could not be fetched.

    Args:
        name: the machine's.
        reference: the image.
        why: the reason.
        snapshot: what was read of the machine.
        matrix: the compatibility matrix.
    """
    return _verdict(name, context_of_rules(ImageFacts(reference, "unknown"), snapshot, matrix), (), (why,))


def _verdict(
    name: str, ctx: RuleContext, findings: tuple[ImageFinding, ...], unknown: tuple[str, ...]
) -> MachineVerdict:
    return MachineVerdict(
        machine=name,
        status=status_of(findings, unknown=bool(unknown)),
        driver=None if ctx.driver is None else str(ctx.driver),
        driver_cuda=None if ctx.level is None else str(ctx.level),
        gpus=tuple(gpu.label for gpu in ctx.gpus),
        platform=ctx.image.platform,
        requirements=requirement_verdicts(ctx),
        findings=findings,
        changes=_changes(findings),
        unknown=unknown,
    )


def _of_machine(ctx: RuleContext, clock: Callable[[], float]) -> tuple[list[Finding], list[str]]:
    """The doctor's findings on the machine itself, whatever the image, and what is not known of it."""
    if ctx.contents.rocm and not ctx.contents.cuda:
        return [], []
    found, unknown = _machine_itself(ctx, clock)
    if ctx.contents.for_gpus or not (found or unknown):
        return found, unknown
    return [], ["whether the image needs a GPU, which this machine may not give: its metadata do not say"]


def _machine_itself(ctx: RuleContext, clock: Callable[[], float]) -> tuple[list[Finding], list[str]]:
    snapshot = ctx.snapshot
    resolution = resolve(snapshot, ctx.matrix)
    left_out = frozenset(check.code for check in all_checks() if check.of_process)
    diagnosis = diagnose(snapshot, ctx.matrix, resolution, clock, DiagnosisOptions(no_cupy=True, excluded=left_out))
    found = [
        entry
        for entry in diagnosis.findings
        if entry.code.startswith(("DRV", "GPU")) and entry.severity is not Severity.NOTE
    ]
    if any(entry.severity is Severity.ERROR for entry in found):
        return found, []
    crashed = [run.code for run in diagnosis.checks if run.status is CheckStatus.CRASHED]
    unknown = [f"the result of check {code}: it crashed" for code in crashed]
    if not ctx.gpus:
        unknown.append("which GPU the machine has")
    if ctx.driver is None and ctx.level is None:
        where = ", for gpuenv runs in a container here" if is_contained(snapshot) else ""
        unknown.append(f"{'no driver was found' if driver_absent(snapshot) else 'the driver'}{where}")
    return found, unknown


def ranked_findings(findings: Iterable[ImageFinding]) -> tuple[ImageFinding, ...]:
    """Findings in the order of the rules; the first error is the one to fix first, and its consequences name it."""
    follows = {rule.code: rule.follows for rule in all_rules("IMG")}
    return ranked(findings, lambda finding, primary: primary.code in follows.get(finding.code, ()))


def status_of(findings: Iterable[ImageFinding], *, unknown: bool) -> Status:
    """Unfit with any error; unknown with an open question; fit with warnings."""
    severities = {entry.severity for entry in findings}
    if Severity.ERROR in severities:
        return Status.UNFIT
    if unknown:
        return Status.UNKNOWN
    return Status.DEGRADED if Severity.WARNING in severities else Status.FIT


def _changes(findings: Iterable[ImageFinding]) -> tuple[str, ...]:
    """What would have to change: the first fix of every error."""
    errors = (entry for entry in findings if entry.severity is Severity.ERROR and entry.follows_from is None)
    return tuple(dict.fromkeys(entry.fix[0].text for entry in errors if entry.fix))


def image_report(
    reference: str, images: Mapping[str, ImageFacts], machines: tuple[MachineVerdict, ...], matrix: Matrix
) -> ImageReport:
    """The report on an image: the worst of its machines."""
    worst = worst_of(entry.status for entry in machines)
    cuda = {platform: contents_of(image, matrix).cuda for platform, image in images.items()}
    findings = tuple(finding for entry in machines for finding in entry.findings)
    return ImageReport(
        subject=reference,
        kind="image",
        status=worst,
        exit_code=exit_code_of(worst),
        runs_on=tuple(entry.machine for entry in machines if entry.status in (Status.FIT, Status.DEGRADED)),
        images=tuple(images.values()),
        machines=machines,
        findings=_one_primary(findings),
        files=(),
        gpuenv_version=__version__,
        matrix_revision=matrix.revision,
        cuda={platform: str(version) for platform, version in cuda.items() if version is not None},
    )


def worst_of(statuses: Iterable[Status]) -> Status:
    """The worst of several verdicts."""
    return min(statuses, key=_ORDER.index, default=Status.UNKNOWN)


def exit_code_of(status: Status) -> int:
    """The contract's code for a verdict."""
    return int(_CODES.get(status, ExitCode.OK))


def _one_primary(findings: tuple[ImageFinding, ...]) -> tuple[ImageFinding, ...]:
    """Of several machines' findings, the first primary one stays so."""
    first = next((entry for entry in findings if entry.primary), None)
    return tuple(replace(entry, primary=entry is first) for entry in findings)
