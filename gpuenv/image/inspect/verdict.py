"""The verdict on an image on machines: every rule, the doctor's findings on each machine, and the status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.doctor.registry import NotKnown, to_finding
from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.image_report import ImageFinding, ImageReport, MachineVerdict, at_location, exit_code_of
from gpuenv.image.inspect.rule_context import RuleContext, contents_of, make_rule_context
from gpuenv.image.inspect.rules_driver import requirement_verdicts
from gpuenv.image.rule_registry import OTHER_IMAGE, all_rules
from gpuenv.matrix.needs import driver_absent
from gpuenv.matrix.tables import Matrix
from gpuenv.model.finding import CheckStatus, Finding, Severity, ranked
from gpuenv.model.gpus import is_contained
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.report import Status

_ORDER = (Status.UNFIT, Status.UNKNOWN, Status.DEGRADED, Status.FIT)


def judge_machine(
    name: str, image: ImageFacts, snapshot: Snapshot, matrix: Matrix, clock: Callable[[], float]
) -> MachineVerdict:
    """Whether an image, which is that for the machine's platform, runs on a machine."""
    ctx = make_rule_context(image, snapshot, matrix)
    findings, unknown = _machine_findings(ctx, clock)
    for rule in sorted(all_rules("IMG"), key=lambda rule: rule.code not in OTHER_IMAGE):
        for outcome in rule.run(ctx):
            if isinstance(outcome, NotKnown):
                unknown.append(outcome.reason)
            else:
                findings.append(to_finding(rule, outcome))
    located = [at_location(entry, machine=name) for entry in findings]
    return _verdict(name, ctx, ranked_findings(located), tuple(dict.fromkeys(unknown)))


def unfetched_verdict(name: str, reference: str, reason: str, snapshot: Snapshot, matrix: Matrix) -> MachineVerdict:
    """Verdict on an image that could not be fetched, for this reason."""
    return _verdict(name, make_rule_context(ImageFacts(reference, "unknown"), snapshot, matrix), (), (reason,))


def _verdict(
    name: str, ctx: RuleContext, findings: tuple[ImageFinding, ...], unknown: tuple[str, ...]
) -> MachineVerdict:
    errors = (entry for entry in findings if entry.severity is Severity.ERROR and entry.follows_from is None)
    return MachineVerdict(
        machine=name,
        status=status_of(findings, unknown=bool(unknown)),
        driver=ctx.host.driver,
        driver_cuda=ctx.host.cuda,
        gpus=tuple(gpu.label for gpu in ctx.gpus),
        platform=ctx.image.platform,
        requirements=requirement_verdicts(ctx),
        findings=findings,
        changes=tuple(dict.fromkeys(entry.fix[0].text for entry in errors if entry.fix)),
        unknown=unknown,
        uses_gpu=None if ctx.image.source == "unknown" else ctx.contents.uses_gpu,
    )


def _machine_findings(ctx: RuleContext, clock: Callable[[], float]) -> tuple[list[Finding], list[str]]:
    """The doctor's findings on the machine itself, and its unknown facts."""
    if ctx.contents.rocm and not ctx.contents.cuda:
        return [], []
    snapshot = ctx.snapshot
    excluded = frozenset(check.code for check in all_checks() if check.of_process)
    options = DiagnosisOptions(no_cupy=True, excluded=excluded)
    diagnosis = diagnose(snapshot, ctx.matrix, clock, options)
    findings = [
        entry
        for entry in diagnosis.findings
        if entry.code.startswith(("DRV", "GPU")) and entry.severity is not Severity.NOTE
    ]
    unknown = [
        f"the result of check {run.code}: it crashed" for run in diagnosis.checks if run.status is CheckStatus.CRASHED
    ]
    if not ctx.gpus:
        unknown.append("which GPU the machine has")
    if ctx.driver is None and ctx.level is None:
        where = ", for gpuenv runs in a container here" if is_contained(snapshot) else ""
        unknown.append(f"{'no driver was found' if driver_absent(snapshot) else 'the driver'}{where}")
    if any(entry.severity is Severity.ERROR for entry in findings):
        unknown = []
    if ctx.contents.for_gpus or not (findings or unknown):
        return findings, unknown
    return [], ["whether the image needs a GPU, which this machine may lack: its metadata do not say"]


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


def image_report(
    reference: str, images: Mapping[str, ImageFacts], machines: tuple[MachineVerdict, ...], matrix: Matrix
) -> ImageReport:
    """The report on an image, with the verdict for each machine."""
    cuda = {platform: contents_of(image, matrix).cuda for platform, image in images.items()}
    report = ImageReport(
        subject=reference,
        kind="image",
        status=Status.FIT,
        exit_code=exit_code_of(Status.FIT),
        images=tuple(images.values()),
        matrix_revision=matrix.revision,
        cuda={platform: str(version) for platform, version in cuda.items() if version is not None},
    )
    return with_verdicts(report, machines)


def with_verdicts(report: ImageReport, verdicts: tuple[MachineVerdict, ...]) -> ImageReport:
    """The report with the findings on machines, and with the worst status."""
    findings = (*report.findings, *(finding for entry in verdicts for finding in entry.findings))
    first = next((entry for entry in findings if entry.primary), None)
    status = min((report.status, *(entry.status for entry in verdicts)), key=_ORDER.index)
    return replace(
        report,
        machines=verdicts,
        findings=tuple(replace(entry, primary=entry is first) for entry in findings),
        status=status,
        exit_code=exit_code_of(status),
        runs_on=tuple(entry.machine for entry in verdicts if entry.status in (Status.FIT, Status.DEGRADED)),
    )
