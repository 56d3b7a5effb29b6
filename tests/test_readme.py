"""The README's examples match the program's output, and the folders and targets that it names exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gpuenv
from tests.cli.program import MINIMAL, run_gpuenv

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")


def shown_output(command: str) -> str:
    """The output that the README shows below a command, as one line."""
    block = next(block for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL) if command in block)
    output = block.partition(command)[2].partition("\n")[2]
    return one_line(re.split(r"^\$ (?=gpuenv|make|python)", output, maxsplit=1, flags=re.MULTILINE)[0])


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_readme_names_the_folders_of_the_package() -> None:
    section = TEXT.partition("\n## The code\n")[2].partition("\n## ")[0]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    package = Path(gpuenv.__file__).parent
    folders = {path.name for path in package.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert named == folders
    assert [text for text in re.findall(r"`(\w+/\w+)`", section) if not (package / text).is_dir()] == []


def test_the_readme_links_every_page_of_the_package() -> None:
    pages = {path.name for path in (Path(gpuenv.__file__).parent / "docs").glob("*.md")}
    assert {Path(link).name for link in re.findall(r"\]\((gpuenv/docs/[\w.]+)\)", TEXT)} == pages


def test_the_readme_names_the_command_of_make_doctor() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^doctor:.*\n\t@(.+?) \|\| true$", makefile, re.MULTILINE)
    assert recipe is not None
    command = recipe[1].replace("$(BIN)", ".venv/bin").replace("$(VENV)", ".venv")
    assert f"`{command}` has the real exit code" in one_line(TEXT)


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", TEXT)) <= targets


def test_every_shared_option_in_the_readme_belongs_to_several_commands() -> None:
    paragraph = one_line(TEXT).partition("Options that several share: ")[2].partition(" Keys of `--assume`")[0]
    named = re.findall(r"`(--?[a-z-]+)", paragraph)
    assert len(named) > 10
    commands = ("doctor", "resolve", "install", "rollback", "lock", "probe")
    helps = [run_gpuenv([command, "--help"], MINIMAL, 60).stdout for command in commands]
    counts = {
        name: sum(bool(re.search(rf"^  .*(?<![\w-]){name}(?![\w-])", text, re.MULTILINE)) for text in helps)
        for name in named
    }
    assert [name for name, count in counts.items() if count < 2] == []


def test_the_number_of_written_texts_in_the_readme_is_right() -> None:
    texts = json.loads((README.parent / "tests/eval/written_texts.json").read_text(encoding="utf-8"))
    (thousands,) = re.findall(r"some (\d+)000 that were written for it", one_line(TEXT))
    assert round(sum(map(len, texts.values())) / 1000) == int(thousands)


def test_the_example_of_resolve_is_the_output_of_resolve() -> None:
    assumptions = ["driver=580.95.05", "gpu=V100", "python=3.12", "os=linux", "arch=x86_64", "libc=glibc-2.36"]
    options = [word for fact in assumptions for word in ("--assume", fact)]
    result = run_gpuenv(["resolve", "--no-probe", *options], MINIMAL, 60)
    matrix = re.compile(r"(?<=Matrix revision )[\d-]+, \d+ days?(?= old\.$)")  # differs from day to day
    assert matrix.search(one_line(result.stdout))
    example = shown_output("--assume python=3.12 --assume os=linux")
    assert matrix.sub("", one_line(result.stdout)) == matrix.sub("", example)


def test_the_example_of_explain_is_the_output_of_explain(tmp_path: Path) -> None:
    """Except for the confidence, which changes with every new training text."""
    (command,) = re.findall(r"gpuenv explain (--assume .*) -$", TEXT, re.MULTILINE)
    error = tmp_path / "error.txt"
    error.write_text("nvrtc: error: invalid value for --gpu-architecture (-arch)\n", encoding="utf-8")
    output = one_line(run_gpuenv(["explain", *command.split(), error], MINIMAL, 60).stdout)
    example = shown_output("gpuenv explain --assume gpu=V100").partition(" ...")[0]
    number = re.compile(r"\([a-z ]+, \d+%\)")
    assert number.search(example)
    assert number.sub("", output).startswith(number.sub("", example))


@pytest.mark.parametrize("profile", sorted(set(re.findall(r"gpuenv simulate ([a-z][\w-]+) --", TEXT))))
def test_every_machine_in_the_readme_exists(profile: str) -> None:
    assert (README.parent / f"tests/machines/{profile}.yaml").is_file()
