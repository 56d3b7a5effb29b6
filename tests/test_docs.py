"""The README and the documentation site: their console examples run, and their tables are complete."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from markdown_it import MarkdownIt

import gpuenv
from gpuenv.doctor.checks import all_checks
from gpuenv.explain.messages import all_messages
from gpuenv.image.rule_registry import all_rules
from gpuenv.matrix.assume import assume
from gpuenv.model.causes import Cause
from gpuenv.model.snapshot import Snapshot
from gpuenv.simulate.profile import TargetSpec
from tests.cli.program import MINIMAL, run_gpuenv
from tests.support.matrix import MATRIX
from tools import doctor_picture, reference_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.target import Targets

PROJECT = Path(__file__).parents[1]
GENERATED = PROJECT / "docs/reference/generated"
README = PROJECT / "README.md"
CONTRIBUTING = PROJECT / "CONTRIBUTING.md"
PAGES = (
    README,
    CONTRIBUTING,
    *(path for path in sorted((PROJECT / "docs").rglob("*.md")) if not path.is_relative_to(GENERATED)),
)
NOT_RUN = re.compile(r"<!-- not run: .+ -->")
# Usage errors, internal errors, and programs that do not exist.
NEVER = {2, 70, 126, 127}
# Of a link to a file, the path.
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


class Example(NamedTuple):
    """A console example: each command with the output that is shown for it."""

    line: int
    steps: tuple[tuple[str, str], ...]


def examples(page: Path) -> tuple[list[Example], list[Example]]:
    """The examples of a page that run, and those that the page excludes."""
    run: list[Example] = []
    excluded: list[Example] = []
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "fence" and token.info == "console" and token.map:
            marked = after is not None and NOT_RUN.fullmatch(after.content.strip())
            (excluded if marked else run).append(Example(token.map[0] + 1, tuple(steps(token.content))))
    return run, excluded


def steps(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with the lines below it. An indented ``$`` is output."""
    parts = re.split(r"^[$#] ", block.replace("\\\n", " "), flags=re.MULTILINE)
    assert not parts[0], "a console example begins with a command"
    for part in parts[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def one_line(text: str) -> str:
    return " ".join(text.split())


def matches(shown: str, printed: str) -> bool:
    """Whether the output is the shown one, where ``...`` stands for any text, apart from line breaks."""
    parts = (re.escape(part.strip()) for part in one_line(shown).split("..."))
    return re.fullmatch(".*?".join(parts), one_line(printed)) is not None


def pages_with_examples() -> list[Path]:
    return [page for page in PAGES if examples(page)[0]]


@cache
def generated_pages() -> dict[str, str]:
    return reference_pages.pages()


@pytest.fixture
def workplace(tmp_path: Path, targets: Targets) -> Path:
    """A folder with an environment that has CuPy for CUDA 13, by its metadata alone."""
    python = targets.interpreter(TargetSpec(packages=doctor_picture.PACKAGES))
    (tmp_path / "env").symlink_to(python.parents[1])
    return tmp_path


@pytest.mark.parametrize("page", pages_with_examples(), ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_the_examples_of_a_page_print_what_it_shows(page: Path, workplace: Path) -> None:
    programs = Path(sys.executable).parent
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    environment = {**MINIMAL, "PATH": f"{programs}{os.pathsep}{os.defpath}", "XDG_CACHE_HOME": cache}
    for example in examples(page)[0]:
        for command, shown in example.steps:
            result = subprocess.run(
                ["bash", "-c", command],
                cwd=workplace,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            place = f"{page.name}, line {example.line}: {command}\n{result.stdout}{result.stderr}"
            assert result.returncode not in NEVER, place
            assert not shown or matches(shown, result.stdout), place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_every_command_in_an_example_has_the_options_that_it_is_shown_with(page: Path) -> None:
    """Also of the examples that are not run."""
    run, excluded = examples(page)
    for example in (*run, *excluded):
        for command, _ in example.steps:
            words = shlex.split(command, comments=True)
            if words[:1] != ["gpuenv"]:
                continue
            words = words[1 : words.index("--") if "--" in words else None]
            name = words[:2] if words[0] in ("matrix", "fleet") else words[:1]
            options = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert options - help_options(tuple(name)) == set(), f"line {example.line}: {command}"


@cache
def help_options(command: tuple[str, ...]) -> set[str]:
    return set(re.findall(r"--[a-z][\w-]*", run_gpuenv([*command, "--help"], MINIMAL, 60).stdout))


def test_a_shown_output_matches_with_omissions_and_line_breaks() -> None:
    assert matches("UNFIT: a\n  b\n...\nlast", "UNFIT: a b\nand more\nlast\n")
    assert matches("one...", "one and two")
    assert not matches("UNFIT: a", "UNFIT: a and more")
    assert not matches("one...three", "one two")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_every_link_to_a_file_exists(page: Path) -> None:
    targets = {page.parent / link for link in LINK.findall(page.read_text(encoding="utf-8"))}
    generated = {GENERATED / name for name in generated_pages()}
    assert [target for target in targets if target.resolve() not in generated and not target.exists()] == []


def test_the_readme_is_one_page() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_the_readme_lists_every_command() -> None:
    table = README.read_text(encoding="utf-8").partition("\n## Commands\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`gpuenv ([a-z][a-z-]*)", table))
    help_text = run_gpuenv(["--help"], MINIMAL, 60).stdout.partition("Commands:")[2]
    assert set(re.findall(r"^  ([a-z][a-z-]*)", help_text, re.MULTILINE)) <= listed


def test_the_readme_names_the_command_of_make_doctor() -> None:
    recipe = re.search(r"^doctor:.*\n\t@(.+?) \|\| true$", makefile(), re.MULTILINE)
    assert recipe is not None
    command = recipe[1].replace("$(BIN)", ".venv/bin").replace("$(VENV)", ".venv")
    assert f"`{command}` has the real exit code" in one_line(README.read_text(encoding="utf-8"))


def test_contributing_names_the_folders_of_the_package() -> None:
    section = CONTRIBUTING.read_text(encoding="utf-8").partition("\n## The code\n")[2].partition("\n## ")[0]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    package = Path(gpuenv.__file__).parent
    folders = {path.name for path in package.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert named == folders
    assert [text for text in re.findall(r"`(\w+/\w+)`", section) if not (package / text).is_dir()] == []


def test_every_make_target_in_the_texts_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))) <= targets, page


def makefile() -> str:
    return (PROJECT / "Makefile").read_text(encoding="utf-8")


def test_every_shared_option_belongs_to_several_commands() -> None:
    text = (PROJECT / "docs/reference/options.md").read_text(encoding="utf-8").partition("\n## ")[0]
    named = [
        name for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(-[\w-]+)", cell)
    ]
    assert len(named) > 10
    commands = ("doctor", "resolve", "install", "rollback", "lock", "probe")
    helps = [run_gpuenv([command, "--help"], MINIMAL, 60).stdout for command in commands]
    counts = {
        name: sum(bool(re.search(rf"^  .*(?<![\w-]){name}(?![\w-])", text, re.MULTILINE)) for text in helps)
        for name in named
    }
    assert [name for name, count in counts.items() if count < 2] == []


def test_every_key_of_assume_in_the_texts_is_accepted() -> None:
    text = (PROJECT / "docs/reference/options.md").read_text(encoding="utf-8").partition("## Keys")[2]
    assumptions = [fact for fact in re.findall(r"`([a-z][\w.-]*=\S+?)`", text, re.IGNORECASE) if "NAME" not in fact]
    assert len(assumptions) > 15
    for fact in assumptions:
        assert assume(Snapshot(), [fact], MATRIX) != Snapshot(), fact


def test_the_number_of_written_texts_is_right() -> None:
    texts = json.loads((PROJECT / "tests/eval/written_texts.json").read_text(encoding="utf-8"))
    (thousands,) = re.findall(r"some (\d+)000 texts that were", one_line(CONTRIBUTING.read_text(encoding="utf-8")))
    assert round(sum(map(len, texts.values())) / 1000) == int(thousands)


def test_every_machine_in_the_texts_exists() -> None:
    for page in PAGES:
        for profile in re.findall(r"gpuenv simulate ([a-z][\w-]+) --", page.read_text(encoding="utf-8")):
            assert (PROJECT / f"tests/machines/{profile}.yaml").is_file(), page


def test_the_picture_shows_what_the_doctor_prints() -> None:
    """Except for what depends on the host: its C library and its Python."""
    host = re.compile(r"glibc-[\d.]+|Python [\d.]+")
    printed = doctor_picture.picture(doctor_picture.report())
    assert "gpu-removed-from-toolkit" in printed
    drawn = doctor_picture.PICTURE.read_text(encoding="utf-8")
    assert host.sub("", texts_of(drawn)) == host.sub("", texts_of(printed)), "run make picture"


def texts_of(svg: str) -> str:
    return one_line(re.sub(r"<[^>]+>", " ", svg.partition("</style>")[2]).replace("&#160;", " "))


def test_the_generated_reference_has_every_code_cause_and_message() -> None:
    pages = generated_pages()
    codes = [*(check.code for check in all_checks()), *(rule.code for rule in all_rules())]
    checks = "".join(text for name, text in pages.items() if name.startswith("checks-"))
    assert sorted(re.findall(r"^## (\w+):", checks, re.MULTILINE)) == sorted(codes)
    assert re.findall(r"^## (\S+)$", pages["causes.md"], re.MULTILINE) == [str(cause.value) for cause in Cause]
    messages = "".join(text for name, text in pages.items() if name.startswith("messages-"))
    assert sorted(re.findall(r"^## (\S+)$", messages, re.MULTILINE)) == sorted(entry.id for entry in all_messages())
    for name in ("doctor", "matrix refresh"):
        assert f"# gpuenv {name}\n" in pages["commands.md"]
