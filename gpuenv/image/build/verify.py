"""Verifies a built image: runs the payload of the smoke tests in a container of it, as the image's own user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuenv.image.build.plan import Choice
from gpuenv.image.build.render import pack
from gpuenv.image.engine.container_engine import Engine
from gpuenv.image.engine.engine_answers import ContainerEnd
from gpuenv.image.engine.errors import EngineError, tidy_text
from gpuenv.install.plan import Verification
from gpuenv.model.redaction import cut_text
from gpuenv.model.smoke import TestStatus, Trouble
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.probe.protocol import numbered, parse_facts
from gpuenv.smoke.tasks import DEADLINE, DEFAULT_SEED, PAYLOAD, SmokeOptions, derive_seed, select_tests

_PYTHON = "/opt/cupy/bin/python"
_FOLDER = "gpuenv-verify"
_LONGEST = 500  # characters shown of an error
_SECONDS = 300.0  # for what needs no GPU: the first import reads gigabytes from a cold disk


@dataclass(frozen=True, slots=True)
class ImageVerification:
    """The verifications of an image, the names of the GPUs on which a test passed, and why others have none."""

    verifications: tuple[Verification, ...]
    gpus: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether there are verifications, and none failed."""
        return bool(self.verifications) and all(entry.passed is not False for entry in self.verifications)

    @property
    def label(self) -> str:
        """The result in one line, without a time, so that the same image gets the same label."""
        done = sum(entry.passed is True for entry in self.verifications)
        where = f"on {len(self.gpus)} GPU(s): {', '.join(dict.fromkeys(self.gpus))}" if self.gpus else "without a GPU"
        return f"{'passed' if self.passed else 'failed'}: {done} of {len(self.verifications)}, {where}"


def verify_image(engine: Engine, image: str, choice: Choice, ways: Sequence[str]) -> ImageVerification:
    """Runs the payload in an image: without a GPU, then with GPUs in the first of the engine's ways that works.

    Raises:
        EngineError: if no container can be run, even without a GPU.
    """
    payload = _payload()

    def run(command: str, order: Mapping[str, object], way: str | None, seconds: float = _SECONDS) -> ContainerEnd:
        argv = [_PYTHON, "-B", f"/tmp/{_FOLDER}/main.py", command, json.dumps(order)]  # noqa: S108 - the container's own
        return engine.run(image, argv, payload, way, seconds)

    order = {
        "capabilities": [str(entry) for entry in choice.stated or choice.capabilities],
        "libraries": list(choice.libraries),
    }
    end = run("--groundwork", order, None)
    verifications = groundwork_verifications(parse_facts(end.stdout), end, choice)
    notes: list[str] = []
    for way in ways:
        try:
            census = parse_facts(run("--census", {}, way).stdout)
        except EngineError as error:
            notes.append(f"no GPU by {way}: {error.message.splitlines()[0]}")
            continue
        devices = [entry for entry in numbered(census, "device") if isinstance(entry, dict)]
        if devices:
            tests = _smoke_tests(len(devices))
            seconds = DEADLINE[SmokeLevel.QUICK] * len(tests)
            facts = parse_facts(run("--several", {"tests": tests}, way, seconds).stdout)
            found = verify_gpus([str(entry.get("name")) for entry in devices], tests, facts)
            return ImageVerification((*verifications, *found.verifications), found.gpus, (*notes, *found.notes))
        notes.append(f"no GPU by {way}: {_short(census.get('error') or 'the container shows none')}")
    return ImageVerification(verifications, (), tuple(notes))


def groundwork_verifications(facts: Mapping[str, Any], end: ContainerEnd, choice: Choice) -> tuple[Verification, ...]:
    """The payload's results without a GPU, compared with the choice."""
    verifications = [_payload_verification(facts, end)]
    versions = facts["versions"] if isinstance(facts.get("versions"), dict) else {}
    for name, wanted in (("cupy", choice.cupy), ("python", choice.python)):
        found = str(versions.get(name))
        verifications.append(Verification(f"version.{name}", found == wanted or found.startswith(f"{wanted}."), found))
    verifications.append(Verification("user", facts.get("uid") not in (0, None), f"runs as {facts.get('uid')}"))
    for key, value in facts.items():
        kind = key.partition(".")[0]
        if kind in ("import", "compiled"):
            verifications.append(Verification(key, value is None, "" if value is None else _short(value)))
        elif kind in ("library", "cache") and isinstance(value, dict):
            verifications.append(
                Verification(key, value.get("error") is None, _short(value.get("error") or _where(value)))
            )
    nvrtc = facts.get("library.nvrtc")
    found = str(nvrtc.get("version")) if isinstance(nvrtc, dict) else "none"
    return (*verifications, Verification("version.nvrtc", found == str(choice.cuda), found))


def _payload_verification(facts: Mapping[str, Any], end: ContainerEnd) -> Verification:
    if facts.get("done") is True:
        return Verification("payload", passed=True, detail="ran to its end")
    how = "was killed at its deadline" if end.exit_code is None else f"ended with exit code {end.exit_code}"
    return Verification("payload", passed=False, detail=f"{how}: {tidy_text(end.stderr)[-300:]}")


def _short(value: object) -> str:
    return cut_text(str(value), _LONGEST)


def _where(value: Mapping[str, Any]) -> str:
    return " ".join(str(value[key]) for key in ("version", "path", "folder") if value.get(key))


def _smoke_tests(count: int) -> list[dict[str, object]]:
    """The smoke tests of the quick level on each of some GPUs, for the payload."""
    return [
        {
            "name": test.name,
            "visible": str(device),
            "deadline": DEADLINE[SmokeLevel.QUICK],
            "request": {
                "level": SmokeLevel.QUICK.value,
                "seed": derive_seed(DEFAULT_SEED, test.name, 0),
                "size": dict(test.size(SmokeLevel.QUICK) or {}),
                "fault": None,
                "uuid": None,
            },
        }
        for test in select_tests(SmokeOptions(level=SmokeLevel.QUICK))
        if test.gpus == 1
        for device in range(count)
    ]


def verify_gpus(
    gpus: Sequence[str], tests: Sequence[Mapping[str, object]], facts: Mapping[str, Any]
) -> ImageVerification:
    """The payload's results of the smoke tests on these GPUs, which the container lists."""
    results = [_test_verification(test, facts.get(f"test.{number}")) for number, test in enumerate(tests)]
    passed, notes = [], []
    for device, gpu in enumerate(gpus):
        own = [entry for test, entry in zip(tests, results, strict=True) if test["visible"] == str(device)]
        if any(entry.passed for entry in own):
            passed.append(gpu)
        else:
            notes.append(f"no test passed on {gpu}: {own[0].detail}")
    return ImageVerification(tuple(results), tuple(passed), tuple(notes))


def _test_verification(test: Mapping[str, object], result: object) -> Verification:
    """The result of a test on a listed GPU; a busy GPU, or a test that does not apply, is undetermined."""
    entry = result if isinstance(result, dict) else {"detail": "no verdict"}
    status, seconds = entry.get("status"), entry.get("duration")
    is_skipped = status == TestStatus.SKIPPED and entry.get("trouble") != Trouble.NO_DEVICE
    passed = None if is_skipped or status == TestStatus.BUSY else status == TestStatus.PASSED
    duration = float(seconds) if isinstance(seconds, int | float) else 0.0
    return Verification(f"smoke.{test['name']}", passed, _short(entry.get("detail") or status), duration)


def _payload() -> bytes:
    """A tar file of the payload, for a container without access to this machine's files."""
    files = {
        f"{_FOLDER}/{path.relative_to(PAYLOAD).as_posix()}": path.read_text(encoding="utf-8")
        for path in sorted(PAYLOAD.rglob("*.py"))
    }
    return pack(files, 0)
