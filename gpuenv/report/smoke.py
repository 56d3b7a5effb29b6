"""GPU tests as lines of text, and what they have measured as series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuenv.model.smoke import Compared, Quantity, SmokeResult, TestedGpu, TestResult, TestStatus
from gpuenv.model.strings import format_quantity, format_share
from gpuenv.report.lines import Line, Style, counted

_MIB = 1024 * 1024
_SMOKE_VERDICTS = {
    TestStatus.PASSED: ("PASSED", "every test gave the right numbers.", Style.GOOD),
    TestStatus.FAILED: ("FAILED", "the GPU, or what lies between it and CuPy, gives wrong answers or none.", Style.BAD),
    TestStatus.BUSY: ("BUSY", "others use the GPU: not broken, but not proven either.", Style.WARNING),
    TestStatus.SKIPPED: ("SKIPPED", "nothing was proven.", Style.WARNING),
}
_SMOKE_STYLES = {
    TestStatus.PASSED: Style.PLAIN,
    TestStatus.SKIPPED: Style.QUIET,
    TestStatus.BUSY: Style.WARNING,
}
_NAMED = 3  # skipped tests of one reason; more are counted


def smoke_lines(result: SmokeResult, *, verbose: bool = False) -> Iterator[Line]:
    """The whole result; tests that passed are counted, and listed if ``verbose``."""
    word, sentence, style = _smoke_verdict(result)
    yield Line(f"{word}: {sentence}", style, len(word) + 2)
    if result.fault:
        yield Line(_planted(result.fault), Style.WARNING)
    for gpu in result.gpus:
        yield Line()
        yield Line(_tested_gpu(gpu), Style.HEADING, 2)
        yield from _of_one(result, gpu.uuid, verbose=verbose)
    others = [test for test in result.tests if test.gpu not in {gpu.uuid for gpu in result.gpus}]
    if others:
        yield Line()
        yield Line("Not on one GPU" if result.gpus else "Tests", Style.HEADING)
        yield from _tests(others, verbose=verbose)
    yield from _compared(result.compared)
    yield Line()
    yield Line(f"{_counted(result)}; exit code {result.exit_code}.", Style.QUIET, 2)


def section_lines(result: SmokeResult, *, verbose: bool = False) -> Iterator[Line]:
    """The result as a part of a report, whose findings say what failed."""
    yield Line()
    yield Line("GPU tests", Style.HEADING)
    word, sentence, style = _smoke_verdict(result)
    yield Line(f"  {word}: {sentence}", style, 4)
    if result.fault:
        yield Line(f"  {_planted(result.fault)}", Style.WARNING, 4)
    if verbose or result.status is TestStatus.SKIPPED:  # no finding says why nothing was tried
        yield from _tests(result.tests, verbose=verbose)
    yield from _compared(result.compared, heading=False)
    yield Line(f"  {_counted(result)}", Style.QUIET, 4)


def _smoke_verdict(result: SmokeResult) -> tuple[str, str, Style]:
    word, sentence, style = _SMOKE_VERDICTS[result.status]
    passed = any(test.status is TestStatus.PASSED for test in result.tests)
    if result.status is TestStatus.SKIPPED and passed:
        sentence = "not all was tried; what was gave the right numbers."
        return "UNFINISHED", sentence, style
    return word, sentence, style


def _planted(fault: str) -> str:
    return f"A fault was planted on purpose: {fault}."


def _tested_gpu(gpu: TestedGpu) -> str:
    parts = [gpu.name or "GPU"]
    if gpu.compute_capability:
        parts.append(f"compute capability {gpu.compute_capability}")
    if gpu.memory_total:
        parts.append(f"{gpu.memory_total // _MIB} MiB")
    return ", ".join([*parts, gpu.uuid or "UUID unknown"])


def _of_one(result: SmokeResult, uuid: str | None, *, verbose: bool) -> Iterator[Line]:
    tests = [test for test in result.tests if test.gpu == uuid]
    yield from _tests(tests, verbose=verbose)
    peaks = {entry.name: entry for entry in result.compared if entry.gpu == uuid and entry.against == "data-sheet"}
    for test in tests:
        for name, quantity in test.measured.items():
            peak = peaks.get(f"{test.group}.{name}")
            beside = f", {format_share(peak.ratio)} of the data sheet" if peak else ""
            yield Line(f"  {test.group}.{name + _repetition(test):<24} {format_quantity(quantity)}{beside}", hang=4)


def _tests(tests: Sequence[TestResult], *, verbose: bool) -> Iterator[Line]:
    passed = sum(test.status is TestStatus.PASSED for test in tests)
    if passed and not verbose:
        yield Line(f"  {counted(passed, 'test')} passed")
    reasons: dict[str, list[str]] = {}
    # Each cause is named once, after the last test that is told with it.
    last = {test.cause: test for test in tests if verbose or test.status is not TestStatus.SKIPPED}
    for test in tests:
        if test.status is TestStatus.SKIPPED and not verbose:
            reasons.setdefault(test.detail or "no reason told", []).append(test.name)
        elif test.status is not TestStatus.PASSED or verbose:
            yield _test(test)
            if test.cause is not None and last[test.cause] is test:
                yield Line(f"    > gpuenv explain {test.cause.value}", hang=6)
    for reason, every in reasons.items():
        names = tuple(dict.fromkeys(every))  # a repetition is skipped for the same reason
        told = ", ".join(names) if len(names) <= _NAMED else counted(len(names), "test")
        yield Line(f"  skipped: {told}", Style.QUIET, 4)
        yield Line(f"    {reason}", Style.QUIET, 4)


def _test(test: TestResult) -> Line:
    detail = f": {test.detail}" if test.detail else f" ({test.title})"
    text = f"  {test.status.value:<9} {test_label(test)}, {test.duration:.1f} s{detail}"
    return Line(text, _SMOKE_STYLES.get(test.status, Style.BAD), 4)


def _compared(compared: Sequence[Compared], *, heading: bool = True) -> Iterator[Line]:
    worse = [entry for entry in compared if entry.worse]
    if not compared:
        return
    if heading:
        yield Line()
        yield Line("Compared", Style.HEADING)
    for against, beside in (("baseline", "the baseline"), ("data-sheet", "the data sheet")):
        count = sum(entry.against == against for entry in compared)
        if count:
            yield Line(f"  {counted(count, 'number')} beside {beside}")
    for entry in worse:
        beside = {"sisters": "its sisters'", "data-sheet": "the data sheet's"}.get(entry.against, "the baseline's")
        yield Line(
            f"  {entry.name}: {format_quantity(Quantity(entry.value, entry.unit))}, {format_share(entry.ratio)} of"
            f" {beside} {format_quantity(Quantity(entry.baseline, entry.unit))} ({entry.gpu or 'UUID unknown'})",
            Style.WARNING,
            4,
        )
    if not worse:
        yield Line("  none worse by more than the tolerance", Style.GOOD)


def counts_text(result: SmokeResult) -> str:
    """``38 passed, 2 skipped``: how the tests ended."""
    counts = {status: sum(test.status is status for test in result.tests) for status in TestStatus}
    return ", ".join(f"{count} {status.value}" for status, count in counts.items() if count) or "no tests"


def _counted(result: SmokeResult) -> str:
    over = (
        "" if result.duration <= result.budget else f", more than the {result.budget:g} s that this level should take"
    )
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    tail = f"; {versions}" if versions else ""
    return f"{counts_text(result)}; level {result.level.value}, seed {result.seed}, {result.duration:.1f} s{over}{tail}"


def test_label(test: TestResult) -> str:
    """Its name, and from the second repetition on which it is: readers take two of one name for the same."""
    return f"{test.name}{_repetition(test)}"


def _repetition(test: TestResult) -> str:
    return f" #{test.repeat + 1}" if test.repeat else ""


def measured_texts(test: TestResult) -> list[str]:
    """What it has measured, in words: ``matmul_f16 641 TFLOP/s``."""
    return [f"{name} {format_quantity(quantity)}" for name, quantity in test.measured.items()]


class Series(NamedTuple):
    """What one GPU reached of one quantity.

    Attributes:
        name: ``GROUP.QUANTITY``.
        gpu: its UUID.
        unit: of the values.
        values: one a repetition.
        beside: what they are beside other numbers.
    """

    name: str
    gpu: str
    unit: str
    values: tuple[float, ...]
    beside: tuple[Compared, ...] = ()

    @property
    def text(self) -> str:
        """``641 TFLOP/s``, or the range of several."""
        ends = dict.fromkeys((min(self.values), max(self.values)))
        return " to ".join(format_quantity(Quantity(value, self.unit)) for value in ends)


def smoke_series(result: SmokeResult) -> tuple[Series, ...]:
    """Every number that was measured, by name and GPU, in the order of the tests."""
    found: dict[tuple[str, str], list[Quantity]] = {}
    for test in result.tests:
        for name, quantity in test.measured.items():
            found.setdefault((f"{test.group}.{name}", test.gpu or ""), []).append(quantity)
    beside: dict[tuple[str, str], list[Compared]] = {}
    for entry in result.compared:
        beside.setdefault((entry.name, entry.gpu or ""), []).append(entry)
    return tuple(
        Series(*key, quantities[0].unit, tuple(q.value for q in quantities), tuple(beside.get(key, ())))
        for key, quantities in found.items()
    )
