"""Demonstrations: a mistake and its cure, printed as they are written, run, and held side by side."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpuenv.model.causes import Cause
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.listing import Demonstration, DemonstrationPart
from gpuenv.smoke.catalogue import PAYLOAD
from gpuenv.smoke.run import Setting, ask
from gpuenv.smoke.verdict import how_it_ended

_FOLDER = PAYLOAD / "demos"
_DEADLINE = 60.0
_WIDTH = 78
_PARTS = ("mistake", "cure")

DEMOS = {path.stem.replace("_", "-"): path for path in sorted(_FOLDER.glob("*.py")) if path.stem != "__init__"}


def demonstrate(name: str, interpreter: str, environment: Mapping[str, str], folder: str) -> Demonstration:
    """Runs a demonstration.

    Its exit code is 0 where the mistake went wrong and the cure right; 5 where that could not be
    shown, for lack of a GPU, say.
    """
    setting = Setting(interpreter, environment, folder)
    return _told(name, tuple(_part(name, part, setting) for part in _PARTS), int(ExitCode.SMOKE_FAILED))


def undemonstrated(name: str, why: str, exit_code: int) -> Demonstration:
    """A demonstration that nothing can run."""
    known = sources(DEMOS[name])
    parts = tuple(DemonstrationPart(part, known[part], why, None) for part in _PARTS)
    return _told(name, parts, exit_code)


def _told(name: str, parts: tuple[DemonstrationPart, ...], otherwise: int) -> Demonstration:
    shown = [part.right for part in parts] == [False, True]
    known, cause = sources(DEMOS[name]), Cause[name.upper().replace("-", "_")]
    more = {key.replace("_", " ").capitalize(): text for key, text in known.items() if _is_more(key)}
    code = int(ExitCode.OK) if shown else otherwise
    return Demonstration(cause, cause.sentence, known["WHY"], more, parts, shown, code)


def _is_more(key: str) -> bool:
    return key.isupper() and key not in ("WHY", "GPUS", "ENVIRONMENT", "LOSES_CONTEXT")


def _part(name: str, part: str, setting: Setting) -> DemonstrationPart:
    child, facts = ask(setting, "--demo", {"name": name, "part": part}, _DEADLINE)
    source = sources(DEMOS[name])[part]
    if isinstance(facts.get("said"), str) and isinstance(facts.get("right"), bool):
        return DemonstrationPart(part, source, facts["said"], facts["right"])
    return DemonstrationPart(part, source, str(facts.get("error") or how_it_ended(child, _DEADLINE)), None)


def sources(path: Path) -> dict[str, str]:
    """Everything that a demonstration's file has, by name: the functions' bodies and the texts."""
    text = path.read_text(encoding="utf-8")
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            lines = text.splitlines()[node.body[0].lineno - 1 : node.end_lineno]
            found[node.name] = textwrap.dedent("\n".join(line.partition("  # noqa")[0] for line in lines))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = ast.literal_eval(node.value)
            found[node.targets[0].id] = value.strip("\n") if isinstance(value, str) else str(value)
    return found


def demonstration_text(told: Demonstration) -> str:
    """As it is read."""
    return "\n".join(_lines(told)) + "\n"


def _lines(told: Demonstration) -> Iterator[str]:
    yield f"{told.cause.value}: {told.sentence}"
    yield from textwrap.wrap(told.why, _WIDTH)
    for title, text in told.more.items():
        yield f"\n{title}\n{textwrap.indent(text, '    ')}"
    for part in told.parts:
        heading = f"The {part.name}"
        yield f"\n{heading}\n{textwrap.indent(part.source, '    ')}"
        word = {True: "right", False: "wrong", None: "not shown"}[part.right]
        yield "\n".join(textwrap.wrap(f"--> {word}: {part.said}", _WIDTH, subsequent_indent="    "))
    yield "\nThe mistake went wrong and the cure right." if told.shown else "\nThe difference could not be shown here."
