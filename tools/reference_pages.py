"""The generated pages of the documentation's reference: ``docs/conf.py`` writes them before each build.

Every text is one that the program itself prints: help texts, docstrings of checks, causes, messages, requirement keys,
schemas and the matrix.
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import typer

from gpuenv.cli.app import make_app
from gpuenv.cli.commands.schema import NAMES, schema_of
from gpuenv.data import COMPILED_MATRIX, data_path
from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.registry import DocumentedCheck
from gpuenv.explain.messages import Message, all_messages
from gpuenv.image.rule_registry import all_rules
from gpuenv.matrix.grid import build_grid
from gpuenv.matrix.load import load
from gpuenv.model.causes import Cause, Fix
from gpuenv.preflight.requirements import KEYS
from gpuenv.report.catalogue import GRAMMAR
from gpuenv.report.matrix_page import page as matrix_page
from tools import facts_page

FAMILIES = {
    "DRV": "Driver",
    "GPU": "GPUs",
    "CTR": "Containers",
    "ENV": "Target environment",
    "WHL": "CuPy packages",
    "LIB": "CUDA libraries",
    "TEG": "Jetson",
    "CCH": "Kernel cache",
    "REQ": "Requirements",
    "SMK": "GPU tests",
    "IMG": "Images",
    "DKF": "Dockerfiles",
    "CMP": "Compose files, Kubernetes manifests and dev containers",
}
"""The families of codes, by prefix."""
NAMES_OF_PROGRAMS = {"conda", "cupy", "docker", "libcuda", "mamba", "nouveau", "nvcc", "pip", "pixi", "torch", "uv"}
SECTION_TITLES = {"What it means": "Means", "How it is seen": "Seen", "What to do": "Fix"}


def pages() -> dict[str, str]:
    """Every page and data file, by its path in the folder of generated files."""
    matrix = load(data_path("matrix.yaml"), compiled=COMPILED_MATRIX)
    return {
        "commands.md": commands_page(),
        "requirements.md": requirements_page(),
        "causes.md": causes_page(),
        "facts.md": facts_page.page(),
        "schemas.md": schemas_page(),
        **{f"checks-{family.lower()}.md": checks_page(family) for family in FAMILIES},
        **{f"messages-{program}.md": messages_page(program) for program in messages_by_program()},
        **{f"schemas/{name}.json": json.dumps(schema_of(name), indent=2) + "\n" for name in NAMES},
        "files/matrix.html": matrix_page(matrix, build_grid(matrix)),
    }


def write(folder: Path) -> None:
    """Writes the pages; a page that has not changed keeps its time, so that Sphinx does not read it again."""
    wanted = pages()
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


@cache
def documented_checks() -> tuple[DocumentedCheck, ...]:
    """The checks of the doctor, and the rules for images and Dockerfiles."""
    return (*all_checks(), *all_rules())


@cache
def messages_by_program() -> Mapping[str, list[Message]]:
    """The known messages, by the file that they are in."""
    found = defaultdict(list)
    for message in all_messages():
        found[message.program].append(message)
    return found


def commands_page() -> str:
    """Usage, description, arguments and options of every command, from its help."""
    app: Any = typer.main.get_command(make_app([]))
    parts = ["# Commands", "These are the texts of `gpuenv COMMAND --help`.", *_options(app, "gpuenv")]
    for name, command in app.commands.items():
        parts += _command(command, f"gpuenv {name}")
    return _joined(parts)


def _command(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - a class of click, which Typer may vendor
    yield f"## {path}"
    yield from _options(command, path)
    for name, inner in getattr(command, "commands", {}).items():
        yield f"### {path} {name}"
        yield from _options(inner, f"{path} {name}")


def _options(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - as above
    context = command.make_context(path, [], resilient_parsing=True)
    yield f"```text\n{command.get_usage(context)}\n```"
    yield from (_plain(paragraph) for paragraph in (command.help or "").split("\n\n"))
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record:
            yield f"`{record[0]}`\n: {_plain(record[1])}"


def checks_page(family: str) -> str:
    """The checks of a family: what a finding means, how it is seen and how to fix it."""
    parts = [f"# {FAMILIES[family]} ({family})"]
    for check in documented_checks():
        if check.code.startswith(family):
            causes = ", ".join(f"[`{cause}`](#{cause})" for cause in check.causes)
            parts += [
                f"({check.code.lower()})=\n## {check.code}: {_plain(check.title.rstrip('.'))}",
                f"Causes: {causes}",
            ]
            parts += [f"{SECTION_TITLES[name]}\n: {_sentence(text)}" for name, text in check.sections.items() if text]
    return _joined(parts)


def causes_page() -> str:
    """Every root cause: its sentence, its fixes, the checks that report it and the messages that name it."""
    parts = [
        "# Causes",
        "Every finding has one of these root causes. `gpuenv doctor` prints the fixes for your machine.",
    ]
    naming = defaultdict(set)
    for message in all_messages():
        for cause in message.causes:
            naming[cause].add(message.program)
    for cause in Cause:
        checks = [f"[{check.code}](#{check.code.lower()})" for check in documented_checks() if cause in check.causes]
        programs = [f"[{program}](messages-{program}.md)" for program in sorted(naming[cause])]
        parts += [f"({cause})=\n## {cause}", _sentence(cause.sentence)]
        parts += [f"Seen\n: {_capital('; '.join(_seen(checks, programs)))}."]
        parts += ["Fix\n: " + "\n\n  ".join(map(_fix, cause.fix))] if cause.fix else []
        if cause.other_host:
            parts.append(f"Another host\n: {_sentence(cause.other_host)}")
    return _joined(parts)


def _seen(checks: list[str], programs: list[str]) -> Iterator[str]:
    if checks:
        yield f"by {', '.join(checks)}"
    if programs:
        yield f"in messages of {', '.join(programs)}"
    if not checks and not programs:
        yield "by the text of an error message"


def _fix(fix: Fix) -> str:
    line = fix.shell_line or (shlex.join(fix.command) if fix.command else None)
    return _plain(fix.text) + (f"\n\n  ```console\n  $ {line}\n  ```" if line else "")


def messages_page(program: str) -> str:
    """The messages of a program: what each means, an example, and its causes."""
    parts = [f"# {program}"]
    for message in messages_by_program()[program]:
        causes = ", ".join(f"[`{cause}`](#{cause}) ({weight:.0%})" for cause, weight in message.causes.items())
        means = message.title or max(message.causes, key=lambda cause: message.causes[cause]).sentence
        parts += [f"## {message.id}", f"```text\n{message.example}\n```", f"Means\n: {_sentence(means)}"]
        parts += [f"Causes\n: {causes}"] if causes else []
        parts += [f"Decided by\n: {_plain(message.decided_by)}"] if message.decided_by else []
        parts += ["\n".join(("What to do:\n", *(f"- {_fix(fix)}" for fix in message.fix)))] if message.fix else []
        parts.append(f"Source\n: {_plain(message.source)}")
    return _joined(parts)


def requirements_page() -> str:
    """The grammar and the keys of requirements."""
    rows = [
        f"| `{_cell(key.example)}` | {_cell(key.meaning)} | {_cell(' '.join(key.value_type.operators))} |"
        for key in KEYS.values()
    ]
    table = "\n".join(["| for example | compares | operators |", "|---|---|---|", *rows])
    return _joined(
        [
            "# Requirements",
            "A requirement is a key with comparisons. `gpuenv preflight --list-requirements` prints this page.",
            "```text\n" + "\n".join(GRAMMAR) + "\n```",
            table,
        ]
    )


def schemas_page() -> str:
    """The JSON Schemas of the machine-readable outputs."""
    rows = [
        f"| `{name}` | `{schema_of(name)['title']}` | {{download}}`{name}.json <schemas/{name}.json>` |"
        for name in NAMES
    ]
    return _joined(
        [
            "# JSON schemas",
            "Every JSON document names its schema in the field `schema`. Within a version fields are only added.",
            "\n".join(["| name | schema | file |", "|---|---|---|", *rows]),
        ]
    )


def _plain(text: str) -> str:
    """A text of the program as Markdown that shows the same characters."""
    for character in "\\`*_<>[]{}$|#":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _sentence(text: str) -> str:
    """A text of the program as a sentence, in Markdown."""
    return _capital(_plain(text.rstrip("."))) + "."


def _capital(text: str) -> str:
    """The text with a capital letter, unless it begins with a program or a file."""
    first = text.partition(" ")[0].strip(",:;'")
    return text if not first.isalpha() or first in NAMES_OF_PROGRAMS else text[:1].upper() + text[1:]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"
