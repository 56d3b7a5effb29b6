"""What README shows is what the program says, and the folders that it names are those that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gpuenv
from tests.cli.program import MINIMAL, run_gpuenv

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")


def shown(command: str) -> str:
    """What README shows below a command, as one line."""
    block = next(block for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL) if command in block)
    behind = block.partition(command)[2].partition("\n")[2]
    return one_line(re.split(r"^\$ (?=gpuenv|make|python)", behind, maxsplit=1, flags=re.MULTILINE)[0])


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_folders_of_the_package_are_those_that_it_names() -> None:
    section = TEXT.partition("\n## The code\n")[2].partition("\n## ")[0]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    package = Path(gpuenv.__file__).parent
    folders = {path.name for path in package.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert named == folders
    assert [text for text in re.findall(r"`(\w+/\w+)`", section) if not (package / text).is_dir()] == []


def test_every_page_of_the_package_is_linked() -> None:
    pages = {path.name for path in (Path(gpuenv.__file__).parent / "docs").glob("*.md")}
    assert {Path(link).name for link in re.findall(r"\]\((gpuenv/docs/[\w.]+)\)", TEXT)} == pages


def test_what_make_examines_is_what_its_exit_code_is_told_of() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^doctor:.*\n\t@(.+?) \|\| true$", makefile, re.MULTILINE)
    assert recipe is not None
    command = recipe[1].replace("$(BIN)", ".venv/bin").replace("$(VENV)", ".venv")
    assert f"`{command}` has the real exit code" in one_line(TEXT)


def test_every_target_of_make_that_it_names_is_there() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", TEXT)) <= targets


def test_the_options_that_several_commands_share_are_shared() -> None:
    paragraph = one_line(TEXT).partition("Options that several share: ")[2].partition(" Keys of `--assume`")[0]
    named = re.findall(r"`(--?[a-z-]+)", paragraph)
    assert len(named) > 10
    commands = ("doctor", "resolve", "install", "rollback", "lock", "probe")
    helps = [run_gpuenv([command, "--help"], MINIMAL, 60).stdout for command in commands]
    having = {
        name: sum(bool(re.search(rf"^  .*(?<![\w-]){name}(?![\w-])", text, re.MULTILINE)) for text in helps)
        for name in named
    }
    assert [name for name, count in having.items() if count < 2] == []


def test_the_number_of_texts_that_were_written_is_that_of_the_file() -> None:
    told = json.loads((README.parent / "tests/eval/told.json").read_text(encoding="utf-8"))
    (thousands,) = re.findall(r"some (\d+)000 that were written", one_line(TEXT))
    assert round(sum(map(len, told.values())) / 1000) == int(thousands)


def test_what_it_shows_of_resolve_is_what_resolve_says() -> None:
    asked = ["driver=580.95.05", "gpu=V100", "python=3.12", "os=linux", "arch=x86_64", "libc=glibc-2.36"]
    options = [word for fact in asked for word in ("--assume", fact)]
    done = run_gpuenv(["resolve", "--no-probe", *options], MINIMAL, 60)
    assert one_line(done.stdout) == shown("--assume python=3.12 --assume os=linux")


def test_what_it_shows_of_explain_is_what_explain_says(tmp_path: Path) -> None:
    """All but the confidence, which moves with every message that is learnt."""
    (command,) = re.findall(r"gpuenv explain (--assume .*) -$", TEXT, re.MULTILINE)
    error = tmp_path / "error.txt"
    error.write_text("nvrtc: error: invalid value for --gpu-architecture (-arch)\n", encoding="utf-8")
    said = one_line(run_gpuenv(["explain", *command.split(), error], MINIMAL, 60).stdout)
    example = shown("gpuenv explain --assume gpu=V100").partition(" ...")[0]
    number = re.compile(r"\([a-z ]+, \d+%\)")
    assert number.search(example)
    assert number.sub("", said).startswith(number.sub("", example))


@pytest.mark.parametrize("profile", sorted(set(re.findall(r"gpuenv simulate ([a-z][\w-]+) --", TEXT))))
def test_every_machine_that_it_names_is_there(profile: str) -> None:
    assert (README.parent / f"tests/machines/{profile}.yaml").is_file()
