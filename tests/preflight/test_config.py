"""Configuration files, and that every fault is reported with file, line and expectation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuenv.preflight.config import Config, ConfigError, find_config, load_config
from gpuenv.preflight.requirements import KEYS, RequirementError, parse_requirement


def write_config(folder: Path, text: str, name: str = "gpuenv.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def find(folder: Path) -> Path | None:
    found = find_config(folder, print)
    return found and found.path


PROJECT = """[project]
name = "x"

[tool.gpuenv]
require = [
    "gpu>=1",
    "cc>=8.0",  # Ampere
]
timeout = 20
wait = 600.5
retry-elsewhere = true
"""


def test_a_table_of_pyproject_is_read(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path, PROJECT, "pyproject.toml"), "pyproject.toml")
    assert [(r.text, r.origin.text) for r in config.requirements] == [
        ("gpu>=1", "pyproject.toml: line 6"),
        ("cc>=8.0", "pyproject.toml: line 7"),
    ]
    assert (config.timeout, config.wait, config.retry_elsewhere) == (20.0, 600.5, True)


def test_gpuenv_toml_has_the_keys_at_its_top_level(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path, PROJECT.split("[tool.gpuenv]\n")[1]))
    assert [r.origin.line for r in config.requirements] == [2, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[tool.gpuenv]\nrequire = ["gpu>=1"]\n', "line 1: tool: the keys of this file are not in a table"),
        ('\n[gpuenv]\nrequire = ["gpu>=1"]\n', "line 2: gpuenv: the keys of this file are not in a table"),
        ("smoke = true\n", "line 1: smoke: expected one of quick, normal, deep, found true; did you mean quick?"),
        ("smoke = false\n", "line 1: smoke: expected one of quick, normal, deep, found false"),
    ],
)
def test_a_common_mistake_is_reported_with_its_correction(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write_config(tmp_path, text), "gpuenv.toml")
    assert caught.value.faults == (f"gpuenv.toml: {expected}",)


def test_the_nearest_file_is_used_and_gpuenv_toml_goes_first(tmp_path: Path) -> None:
    inner = tmp_path / "a/b/c"
    inner.mkdir(parents=True)
    outer = write_config(tmp_path, PROJECT, "pyproject.toml")
    assert find(inner) == outer
    write_config(tmp_path / "a/b", '[project]\nname = "gpuenv-user"\n', "pyproject.toml")
    assert find(inner) == outer, "a project without the table is ignored"
    middle = write_config(tmp_path / "a/b", PROJECT, "pyproject.toml")
    assert find(inner) == middle
    gpuenv_toml = write_config(tmp_path / "a/b", "")
    assert find(inner) == gpuenv_toml
    assert load_config(gpuenv_toml) == Config(file=str(gpuenv_toml))


def test_a_project_file_without_gpuenv_may_have_any_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    project = tmp_path / "a/pyproject.toml"
    project.write_bytes(b'[project]\ndescription = "caf\xe9"\n')
    outer = write_config(tmp_path, PROJECT, "pyproject.toml")
    assert find(tmp_path / "a") == outer
    project.write_bytes(b'[project]\ndescription = "caf\xe9"\n[tool.gpuenv]\n')
    with pytest.raises(ConfigError, match=r"a/pyproject.toml: not a text in UTF-8"):
        find(tmp_path / "a")


def test_an_unreadable_parent_folder_has_no_configuration(tmp_path: Path) -> None:
    inner = tmp_path / "closed/open"
    inner.mkdir(parents=True)
    inner.parent.chmod(0o600)  # its owner may list it, and reach nothing in it
    program = (
        "import os, pathlib, sys\nfrom gpuenv.preflight.config import find_config\n"
        "os.geteuid() or os.setreuid(65534, 65534)\nprint(find_config(pathlib.Path(sys.argv[1]), print))"
    )
    try:
        result = subprocess.run(
            [sys.executable, "-c", program, inner], capture_output=True, text=True, check=False, timeout=60
        )
    finally:
        inner.parent.chmod(0o700)
    assert (result.returncode, result.stdout, result.stderr) == (0, "None\n", "")


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ('require = ["gpu>=1"', 1, "expected TOML"),
        ("\n\nrequire = [\n", 3, "expected TOML"),
        ('x = 1\nx = 2\nrequire = ["gpu>=1"]\n', 2, "expected TOML"),
        ('requires = ["gpu>=1"]', 1, "requires: unknown key; did you mean require?"),
        ("\ntimeuot = 3", 2, "did you mean timeout?"),
        ("\nretry_elsewhere = true", 2, "did you mean retry-elsewhere?"),
        ("\nzzz = 1", 2, "one of require, timeout"),
        ('require = "gpu>=1"', 1, "require: expected a list of texts"),
        ("\nrequire = [1, 2]", 2, "require: expected a list of texts"),
        ("require = {gpu = 1}", 1, "require: expected a list of texts"),
        ('require = [\n  "gpu>=1",\n  "gpus>=2",\n]', 3, "did you mean gpu, as in gpu>=1?"),
        ("require = [\n  'gpu>=1',\n\n  'memroy>=2G',\n]", 4, "did you mean memory"),
        ("timeout = -1", 1, "timeout: expected seconds"),
        ("timeout = nan", 1, "timeout: expected seconds"),
        ("\nwait = true", 2, "wait: expected seconds"),
        ("retry-elsewhere = 1", 1, "retry-elsewhere: expected true or false, found 1"),
    ],
)
def test_a_fault_is_reported_with_its_line(tmp_path: Path, text: str, line: int, expected: str) -> None:
    path = write_config(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load_config(path, "gpuenv.toml")
    assert error.value.faults[0].startswith(f"gpuenv.toml: line {line}: "), error.value.faults
    assert expected in error.value.faults[0]


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    path = write_config(tmp_path, 'require = ["gpus>=1", "cc>=x", "gpu>=1"]\ntimeout = "soon"\nwiat = 3\n')
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert len(error.value.faults) == 4


def test_a_value_instead_of_the_table_is_reported(tmp_path: Path) -> None:
    path = write_config(tmp_path, "[tool]\ngpuenv = 3\n", "pyproject.toml")
    with pytest.raises(ConfigError, match="expected a table"):
        load_config(path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"x = " + b"[" * 50_000])
def test_a_binary_file_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gpuenv.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"gpuenv\.toml: "):
        load_config(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "gpuenv.toml")


# Hostile input is read, or refused with a printable message.

_WORDS = st.sampled_from(
    [*KEYS, "gpus", "mem", ">=", "==", "~=", ",", "|", "=", "1", "8.0", "40GiB", "none", " ", "\n"]
)


@given(st.one_of(st.text(max_size=300), st.lists(_WORDS, max_size=8).map("".join)))
def test_every_text_is_a_requirement_or_is_rejected(text: str) -> None:
    message = error_message(text)
    if message is None:
        requirement = parse_requirement(text)
        assert parse_requirement(requirement.text).clauses == requirement.clauses
    else:
        assert message.startswith("--require: ")
        assert message.isprintable()


def error_message(text: str) -> str | None:
    try:
        parse_requirement(text)
    except RequirementError as error:
        return str(error)
    return None


def faults(path: Path) -> tuple[str, ...]:
    try:
        load_config(path, path.name)
    except ConfigError as error:
        return error.faults
    return ()


@given(st.sampled_from(list(KEYS)), st.data())
def test_a_misspelled_key_is_reported_with_the_right_one(key: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(key) - 1))
    misspelling = data.draw(
        st.sampled_from(
            [key[:position] + "x" + key[position:], key[:position] + key[position] * 2 + key[position + 1 :]]
        )
    )
    if misspelling in KEYS or len(key) < 4:
        return
    with pytest.raises(RequirementError) as error:
        parse_requirement(f"{misspelling}>=1")
    assert f"did you mean {key}," in str(error.value)


@given(
    st.one_of(st.text(max_size=400), st.lists(_WORDS, max_size=6).map(lambda words: f"require = ['{''.join(words)}']"))
)
def test_every_file_is_read_or_rejected(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "gpuenv.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    reported = faults(path)
    assert all(fault.startswith("gpuenv.toml: ") for fault in reported)
    assert all(fault.isprintable() for fault in reported)
