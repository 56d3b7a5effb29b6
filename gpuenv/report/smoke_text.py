"""Results of GPU tests as lines of text, and their measurements as series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuenv.model.smoke import Compared, Quantity, SmokeResult, TestedGpu, TestResult, TestStatus
from gpuenv.model.strings import format_quantity, format_share
from gpuenv.report.job import host_text
from gpuenv.report.text_line import Style, TextLine, counted

_MIB = 1024 * 1024
_SMOKE_VERDICTS = {
    TestStatus.PASSED: ("PASSED", "every test computed correct results.", Style.GOOD),
    TestStatus.FAILED: ("FAILED", "the GPU or its software computes wrong results or none.", Style.BAD),
    TestStatus.BUSY: ("BUSY", "other processes use the GPU, so the result is undetermined.", Style.WARNING),
    TestStatus.SKIPPED: ("SKIPPED", "no test ran.", Style.WARNING),
}
_SMOKE_STYLES = {
    TestStatus.PASSED: Style.PLAIN,
    TestStatus.SKIPPED: Style.QUIET,
    TestStatus.BUSY: Style.WARNING,
}
_MAX_NAMED = 3  # skipped tests with the same reason; more are counted


def smoke_lines(result: SmokeResult, *, verbose: bool = False) -> Iterator[TextLine]:
    """The result; passed tests are counted, and listed if ``verbose``."""
    status, sentence, style = _smoke_verdict(result)
    yield TextLine(f"{status}: {sentence}", style, len(status) + 2)
    if text := host_text(result.host_name, result.jobs):
        yield TextLine(f"Host: {text}", hang=2)
    if result.fault:
        yield TextLine(_fault_text(result.fault), Style.WARNING)
    for reason in result.rejected:
        yield TextLine(f"  {reason}", Style.BAD, 4)
    for gpu in result.gpus:
        yield TextLine()
        yield TextLine(_tested_gpu(gpu), Style.HEADING, 2)
        yield from _gpu_lines(result, gpu.uuid, verbose=verbose)
    others = [test for test in result.tests if test.gpu not in {gpu.uuid for gpu in result.gpus}]
    if others:
        yield TextLine()
        yield TextLine("Tests of no single GPU" if result.gpus else "Tests", Style.HEADING)
        yield from _test_lines(others, verbose=verbose)
    yield from _comparison_lines(result.compared)
    yield TextLine()
    yield TextLine(f"{_summary_text(result)}; exit code {result.exit_code}.", Style.QUIET, 2)


def section_lines(result: SmokeResult, *, verbose: bool = False) -> Iterator[TextLine]:
    """The result as a section of a report, whose findings list the failures."""
    yield TextLine()
    yield TextLine("GPU tests", Style.HEADING)
    status, sentence, style = _smoke_verdict(result)
    yield TextLine(f"  {status}: {sentence}", style, 4)
    if result.fault:
        yield TextLine(f"  {_fault_text(result.fault)}", Style.WARNING, 4)
    if verbose or result.status is TestStatus.SKIPPED:  # no finding says why no test ran
        yield from _test_lines(result.tests, verbose=verbose)
    yield from _comparison_lines(result.compared, heading=False)
    yield TextLine(f"  {_summary_text(result)}", Style.QUIET, 4)


def _smoke_verdict(result: SmokeResult) -> tuple[str, str, Style]:
    status, sentence, style = _SMOKE_VERDICTS[result.status]
    has_passed = any(test.status is TestStatus.PASSED for test in result.tests)
    untested = sum(gpu.status is TestStatus.SKIPPED for gpu in result.gpus)
    if result.status is TestStatus.PASSED and result.rejected:
        return "REJECTED", "every test computed correct results, and a requirement is not met.", Style.BAD
    if result.status is TestStatus.SKIPPED and has_passed and untested:
        count = f"no test ran on {untested} of {len(result.gpus)} GPUs"
        return "UNFINISHED", f"{count}; those that ran computed correct results.", style
    if result.status is TestStatus.SKIPPED and has_passed:
        return "UNFINISHED", "not every test ran; those that ran computed correct results.", style
    return status, sentence, style


def _fault_text(fault: str) -> str:
    return f"A fault was planted on purpose: {fault}."


def _tested_gpu(gpu: TestedGpu) -> str:
    parts = [gpu.name or "GPU"]
    if gpu.compute_capability:
        parts.append(f"compute capability {gpu.compute_capability}")
    if gpu.memory_total:
        parts.append(f"{gpu.memory_total // _MIB} MiB")
    where = [f"GPU {gpu.index}" if gpu.index is not None else "", gpu.pci or ""]
    status = f": {gpu.status.value}" if gpu.status not in (None, TestStatus.PASSED) else ""
    return ", ".join([*parts, gpu.uuid or "UUID unknown", *filter(None, where)]) + status


def _gpu_lines(result: SmokeResult, uuid: str | None, *, verbose: bool) -> Iterator[TextLine]:
    tests = [test for test in result.tests if test.gpu == uuid]
    yield from _test_lines(tests, verbose=verbose)
    peaks = {entry.name: entry for entry in result.compared if entry.gpu == uuid and entry.against == "data-sheet"}
    for test in tests:
        for name, quantity in test.measured.items():
            peak = peaks.get(f"{test.group}.{name}")
            share = f", {format_share(peak.ratio)} of the data sheet" if peak else ""
            yield TextLine(f"  {test.group}.{name + _repetition(test):<24} {format_quantity(quantity)}{share}", hang=4)


def _test_lines(tests: Sequence[TestResult], *, verbose: bool) -> Iterator[TextLine]:
    passed = sum(test.status is TestStatus.PASSED for test in tests)
    if passed and not verbose:
        yield TextLine(f"  {counted(passed, 'test')} passed")
    reasons: dict[str, list[str]] = {}
    # Each cause is explained once, after the last test with it.
    last = {test.cause: test for test in tests if verbose or test.status is not TestStatus.SKIPPED}
    for test in tests:
        if test.status is TestStatus.SKIPPED and not verbose:
            reasons.setdefault(test.detail or "no reason reported", []).append(test.name)
        elif test.status is not TestStatus.PASSED or verbose:
            yield _test_line(test)
            if test.cause is not None and last[test.cause] is test:
                yield TextLine(f"    > gpuenv explain {test.cause.value}", hang=6)
    for reason, skipped in reasons.items():
        names = tuple(dict.fromkeys(skipped))  # repetitions are skipped for the same reason
        text = ", ".join(names) if len(names) <= _MAX_NAMED else counted(len(names), "test")
        yield TextLine(f"  skipped: {text}", Style.QUIET, 4)
        yield TextLine(f"    {reason}", Style.QUIET, 4)


def _test_line(test: TestResult) -> TextLine:
    detail = f": {test.detail}" if test.detail else f" ({test.title})"
    text = f"  {test.status.value:<9} {test_label(test)}, {test.duration:.1f} s{detail}"
    return TextLine(text, _SMOKE_STYLES.get(test.status, Style.BAD), 4)


def _comparison_lines(comparisons: Sequence[Compared], *, heading: bool = True) -> Iterator[TextLine]:
    worse = [entry for entry in comparisons if entry.worse]
    if not comparisons:
        return
    if heading:
        yield TextLine()
        yield TextLine("Compared", Style.HEADING)
    for against, name in (
        ("baseline", "the baseline"),
        ("baseline-product", "the baseline of this product"),
        ("data-sheet", "the data sheet"),
        ("minimum", "its minimum"),
    ):
        count = sum(entry.against == against for entry in comparisons)
        if count:
            yield TextLine(f"  {counted(count, 'value')} compared with {name}")
    owners = {
        "baseline": "the baseline's",
        "baseline-product": "this product's baseline of",
        "sisters": "the other GPUs'",
        "data-sheet": "the data sheet's",
        "minimum": "the required",
        "start": "the burn-in's first",
    }
    for entry in worse:
        measured, reference = Quantity(entry.value, entry.unit), Quantity(entry.baseline, entry.unit)
        yield TextLine(
            f"  {entry.name}: {format_quantity(measured)}, {format_share(entry.ratio)} of "
            f"{owners[entry.against]} {format_quantity(reference)} ({entry.gpu or 'UUID unknown'})",
            Style.WARNING,
            4,
        )
    if not worse:
        yield TextLine("  none worse by more than the tolerance", Style.GOOD)


def counts_text(result: SmokeResult) -> str:
    """``38 passed, 2 skipped``."""
    counts = {status: sum(test.status is status for test in result.tests) for status in TestStatus}
    return ", ".join(f"{count} {status.value}" for status, count in counts.items() if count) or "no tests"


def _summary_text(result: SmokeResult) -> str:
    excess = "" if result.duration <= result.budget else f", over the budget of {result.budget:g} s of this level"
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    tail = f"; {versions}" if versions else ""
    settings = f"level {result.level.value}, seed {result.seed}"
    return f"{counts_text(result)}; {settings}, {result.duration:.1f} s{excess}{tail}"


def test_label(test: TestResult) -> str:
    """The name, numbered from the second repetition on, since readers take equal names for the same test."""
    return f"{test.name}{_repetition(test)}"


def _repetition(test: TestResult) -> str:
    return f" #{test.repeat + 1}" if test.repeat else ""


def measured_texts(test: TestResult) -> list[str]:
    """The measurements of a test: ``matmul_f16 641 TFLOP/s``."""
    return [f"{name} {format_quantity(quantity)}" for name, quantity in test.measured.items()]


class Series(NamedTuple):
    """The values of one quantity on one GPU."""

    name: str  # ``GROUP.QUANTITY``
    gpu: str  # its UUID
    unit: str  # of the values
    values: tuple[float, ...]  # one per repetition
    comparisons: tuple[Compared, ...] = ()  # with baseline, data sheet and other GPUs

    @property
    def text(self) -> str:
        """``641 TFLOP/s``, or the range of several."""
        ends = dict.fromkeys((min(self.values), max(self.values)))
        return " to ".join(format_quantity(Quantity(value, self.unit)) for value in ends)


def smoke_series(result: SmokeResult) -> tuple[Series, ...]:
    """All measurements by name and GPU, in the order of the tests."""
    measured: dict[tuple[str, str], list[Quantity]] = {}
    for test in result.tests:
        for name, quantity in test.measured.items():
            measured.setdefault((f"{test.group}.{name}", test.gpu or ""), []).append(quantity)
    comparisons: dict[tuple[str, str], list[Compared]] = {}
    for entry in result.compared:
        comparisons.setdefault((entry.name, entry.gpu or ""), []).append(entry)
    return tuple(
        Series(*key, quantities[0].unit, tuple(q.value for q in quantities), tuple(comparisons.get(key, ())))
        for key, quantities in measured.items()
    )
