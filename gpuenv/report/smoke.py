"""A run of the smoke tests as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.model.smoke import Compared, Quantity, SmokeResult, TestedGpu, TestResult, TestStatus
from gpuenv.report.text import Line, Style

_WORD = {
    TestStatus.PASSED: ("PASSED", "every test gave the right numbers.", Style.GOOD),
    TestStatus.FAILED: ("FAILED", "the GPU, or what lies between it and CuPy, gives wrong answers or none.", Style.BAD),
    TestStatus.BUSY: ("BUSY", "others use the GPU: not broken, but not proven either.", Style.WARNING),
    TestStatus.SKIPPED: ("SKIPPED", "nothing was proven.", Style.WARNING),
}
_STYLE = {
    TestStatus.PASSED: Style.PLAIN,
    TestStatus.SKIPPED: Style.QUIET,
    TestStatus.BUSY: Style.WARNING,
}
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))
_MIB = 1024 * 1024


def smoke_lines(result: SmokeResult, *, verbose: bool = False) -> Iterator[Line]:
    """The whole result; tests that passed are counted, and listed if ``verbose``."""
    word, sentence, style = _WORD[result.status]
    yield Line(f"{word}: {sentence}", style, len(word) + 2)
    if result.fault:
        yield Line(f"A fault was planted on purpose: {result.fault}.", Style.WARNING)
    for gpu in result.gpus:
        yield Line()
        yield Line(_gpu(gpu), Style.HEADING, 2)
        yield from _of_one(result, gpu.uuid, verbose=verbose)
    others = [test for test in result.tests if test.gpu not in {gpu.uuid for gpu in result.gpus}]
    if others:
        yield Line()
        yield Line("Not on one GPU" if result.gpus else "Tests", Style.HEADING)
        yield from _tests(others, verbose=verbose)
    yield from _compared(result.compared)
    yield Line()
    yield Line(_closing(result), Style.QUIET, 2)


def _gpu(gpu: TestedGpu) -> str:
    parts = [gpu.name or "GPU"]
    if gpu.compute_capability:
        parts.append(f"compute capability {gpu.compute_capability}")
    if gpu.memory_total:
        parts.append(f"{gpu.memory_total // _MIB} MiB")
    return ", ".join([*parts, gpu.uuid or "UUID unknown"])


def _of_one(result: SmokeResult, uuid: str | None, *, verbose: bool) -> Iterator[Line]:
    tests = [test for test in result.tests if test.gpu == uuid]
    yield from _tests(tests, verbose=verbose)
    for test in tests:
        for name, quantity in test.measured.items():
            yield Line(f"  {test.group}.{name:<24} {_quantity(quantity)}", hang=4)


def _tests(tests: Sequence[TestResult], *, verbose: bool) -> Iterator[Line]:
    passed = sum(test.status is TestStatus.PASSED for test in tests)
    if passed and not verbose:
        yield Line(f"  {passed} {'test' if passed == 1 else 'tests'} passed")
    reasons: dict[str, list[str]] = {}
    for test in tests:
        if test.status is TestStatus.SKIPPED and not verbose:
            reasons.setdefault(test.detail or "no reason told", []).append(test.name)
        elif test.status is not TestStatus.PASSED or verbose:
            yield _test(test)
            if test.cause is not None:
                yield Line(f"    > gpuenv explain {test.cause.value}", hang=6)
    for reason, names in reasons.items():
        yield Line(
            f"  skipped: {', '.join(names) if len(names) <= len('few') else f'{len(names)} tests'}", Style.QUIET, 4
        )
        yield Line(f"    {reason}", Style.QUIET, 4)


def _test(test: TestResult) -> Line:
    detail = f": {test.detail}" if test.detail else f" ({test.title})"
    repeat = f" #{test.repeat + 1}" if test.repeat else ""
    text = f"  {test.status.value:<9} {test.name}{repeat}, {test.duration:.1f} s{detail}"
    return Line(text, _STYLE.get(test.status, Style.BAD), 4)


def _quantity(quantity: Quantity) -> str:
    """A number with a prefix: 52.1 TFLOP/s, 24 GB/s, 3.1 us."""
    value, unit = quantity.value, quantity.unit
    if unit == "1":
        return f"{value:.3g}"
    if unit == "s":
        scale, prefix = next(((s, p) for s, p in _SMALL if value >= s), _SMALL[-1])
        return f"{value / scale:.3g} {prefix}{unit}"
    if unit in ("B/s", "FLOP/s", "B"):
        scale, prefix = next(((s, p) for s, p in _SCALES if value >= s), (1.0, ""))
        return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def _compared(compared: Sequence[Compared]) -> Iterator[Line]:
    worse = [entry for entry in compared if entry.worse]
    against = sum(entry.against == "baseline" for entry in compared)
    if not compared:
        return
    yield Line()
    yield Line("Compared", Style.HEADING)
    if against:
        yield Line(f"  {against} numbers beside the baseline")
    for entry in worse:
        beside = "its sisters'" if entry.against == "sisters" else "the baseline's"
        yield Line(
            f"  {entry.name}: {_quantity(Quantity(entry.value, entry.unit))}, {entry.ratio:.0%} of {beside}"
            f" {_quantity(Quantity(entry.baseline, entry.unit))} ({entry.gpu or 'UUID unknown'})",
            Style.WARNING,
            4,
        )
    if not worse:
        yield Line("  none worse by more than the tolerance", Style.GOOD)


def _closing(result: SmokeResult) -> str:
    counts = {status: sum(test.status is status for test in result.tests) for status in TestStatus}
    told = ", ".join(f"{count} {status.value}" for status, count in counts.items() if count) or "no tests"
    over = (
        "" if result.duration <= result.budget else f", more than the {result.budget:g} s that this level should take"
    )
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    tail = f"; {versions}" if versions else ""
    return (
        f"{told}; level {result.level.value}, seed {result.seed}, {result.duration:.1f} s{over}{tail};"
        f" exit code {result.exit_code}."
    )
