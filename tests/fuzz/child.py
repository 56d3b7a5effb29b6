"""Runs one target with one engine for some seconds; the last line on standard output is the result as JSON."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tests.fuzz.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.targets import Target

_SLOW = 10.0  # seconds of processor time for one input
_BATCH = 500
_LONGEST = 65536  # bytes


def main(name: str, engine: str, seconds: float, folder: Path) -> NoReturn:
    """Runs for some seconds after the imports."""
    if engine == "atheris":
        _by_coverage(name, seconds, folder)
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - atheris must come first

    target = TARGETS[name]
    findings = Findings(target.check, _SLOW, time.process_time, folder)
    until = time.monotonic() + seconds

    def run_one(value: object) -> None:
        if time.monotonic() >= until:
            _end(findings)
        findings.run(value)

    while True:
        _test_of(target, run_one)()


def _test_of(target: Target, run: Callable[[object], None]) -> Callable[[], None]:
    """A hypothesis test with a new seed and without shrinking, which takes longer than finding."""
    from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: PLC0415 - after atheris

    @seed(random.randrange(2**32))  # noqa: S311 - no secret
    @settings(
        max_examples=_BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def test(value: object) -> None:
        run(value)

    return test


def _by_coverage(name: str, seconds: float, folder: Path) -> NoReturn:
    """libFuzzer chooses bytes by the branches of gpuenv that they reach."""
    import atheris  # noqa: PLC0415 - an extra
    import hypothesis  # noqa: F401, PLC0415 - imported first, so that it is not instrumented
    import packaging.version  # noqa: F401, PLC0415 - as hypothesis

    with atheris.instrument_imports(include=["gpuenv"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415

    target = TARGETS[name]
    findings = Findings(target.check, _SLOW, time.process_time, folder)
    of_bytes = target.of_bytes
    if of_bytes is None:
        run_bytes = _test_of(target, findings.run).hypothesis.fuzz_one_input  # type: ignore[attr-defined]
    else:
        run_bytes = lambda data: findings.run(of_bytes(data))  # noqa: E731

    until = time.monotonic() + seconds

    def run_one(data: bytes) -> None:
        if time.monotonic() >= until:
            _end(findings)
        run_bytes(data)

    corpus = folder.with_name(f"{folder.name}-corpus")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed[:_LONGEST])
    quiet = ["-verbosity=0", "-print_final_stats=0", f"-max_len={_LONGEST}", "-len_control=20"]
    atheris.Setup(["fuzz", *quiet, str(corpus)], run_one)
    atheris.Fuzz()
    raise SystemExit(1)


def _end(findings: Findings) -> NoReturn:
    """Ends the process, since libFuzzer cannot be stopped."""
    sys.stdout.write("\n" + json.dumps({"runs": findings.runs, "found": sorted(findings.found)}) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
