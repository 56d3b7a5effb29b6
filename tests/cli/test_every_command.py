"""What the threat model promises of the whole program, tested for every command that the application registers."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from gpuenv.cli.app import make_app
from gpuenv.model.codec import encode
from gpuenv.model.reading import known
from tests.cli.identities import HOME, MIG, SECRETS, USER, USER_ENVIRONMENT, without_commands
from tests.cli.program import MINIMAL
from tests.cli.published_matrix import publish, published, without_newest
from tests.cli.snapshots import UNFIT, UUID, replace_facts, write_snapshot
from tests.cli.test_working_folder import NAMES
from tests.fleet.node_reports import write_nodes
from tests.support.forged_lines import FORGED, SHORT, forged_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long
PROGRAM = Path(sysconfig.get_path("scripts")) / "gpuenv"
LIMIT = 120.0
NOWHERE = "http://127.0.0.1:9/simple"  # the discard port: nothing answers
OFFLINE = {"PIP_INDEX_URL": NOWHERE, "UV_DEFAULT_INDEX": NOWHERE, "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0"}
VARIABLES = (  # that some command reads
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUPY_CACHE_DIR"),
    *("GITHUB_STEP_SUMMARY", "SOURCE_DATE_EPOCH", "DOCKER_HOST", "UV_DEFAULT_INDEX", "PIP_INDEX_URL", "SSL_CERT_FILE"),
    "GPUENV_MATRIX_URL",
)
# What a command needs beyond its options; FOLDER is a folder of the test's own, SNAPSHOT the recorded machine.
ARGUMENTS = {
    "bundle": ("-o", "FOLDER/bundle"),
    "build-image": ("--print", "--assume", "driver=580.95.05"),
    "check-image": ("--dockerfile", "FOLDER/Dockerfile"),
    "diff": ("SNAPSHOT", "FOLDER/other.json"),
    "explain": ("FOLDER/log.txt",),
    "fleet collect": ("--via", "ssh", "--nodes", "n1", "--dry-run"),
    **dict.fromkeys(("fleet report", "fleet resolve", "fleet drain"), ("FOLDER/nodes",)),
    "fleet diff": ("FOLDER/nodes", "FOLDER/nodes"),
    "lock": ("--timeout", "20"),
    "matrix update": ("FOLDER", "--dry-run"),
    "rollback": ("--list",),
    "run": ("--", "sh", "-c", "cat FOLDER/log.txt >&2; exit 1"),
    "smoke": ("--list",),
}
# Their files are meant for others, who need to read them: a lock file is committed, a page is served.
PUBLIC_FILES = {"lock", "matrix show", "bundle"}


def options_of_commands() -> dict[str, set[str]]:
    """The options of every command and subcommand."""

    def walk(command: Any, name: tuple[str, ...]) -> Iterator[tuple[str, set[str]]]:  # noqa: ANN401 - of click or Typer
        if subcommands := getattr(command, "commands", None):
            for part, subcommand in subcommands.items():
                yield from walk(subcommand, (*name, part))
        else:
            yield " ".join(name), {option for parameter in command.params for option in parameter.opts}

    return dict(walk(typer.main.get_command(make_app([])), ()))


# They write a folder: tests/fleet.
FOLDERS = {"fleet node", "fleet collect"}


OPTIONS = options_of_commands()
WITH_SNAPSHOT = sorted({name for name, options in OPTIONS.items() if "--snapshot" in options} | {"diff"})
WITH_OUTPUT = sorted(
    name for name, options in OPTIONS.items() if "--output" in options and name not in PUBLIC_FILES | FOLDERS
)


def run(
    command: str, folder: Path, *options: str, snapshot: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command, on a recorded machine if it takes one."""
    if command == "matrix update":
        publish(folder, published(change=without_newest))
    if command.startswith("fleet"):
        write_nodes(folder / "nodes", ["node1"], "no-driver-h100")
    (folder / "Dockerfile").write_text("FROM python:3.12\nRUN pip install cupy-cuda12x==14.2.0\n", encoding="utf-8")
    arguments = [*command.split(), *options]
    if snapshot and "--snapshot" in OPTIONS[command]:
        arguments += ["--snapshot", str(snapshot)]
    arguments += [
        word.replace("FOLDER", str(folder)).replace("SNAPSHOT", str(snapshot)) for word in ARGUMENTS.get(command, ())
    ]
    result = subprocess.run(
        [PROGRAM, *arguments],
        cwd=folder, env={**MINIMAL, **USER_ENVIRONMENT, **OFFLINE, **variables}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert "Traceback (most recent call last):\n  File" not in result.stderr, result.stderr
    assert "No such option" not in result.stderr, result.stderr
    return result


def hostile_texts(value: Any) -> Any:  # noqa: ANN401 - JSON
    """A JSON value with forged lines in every text that a machine reports freely."""
    if isinstance(value, dict):
        free = {"distribution", "name", "reason", "detail", "text", "error", "path", "executable", "prefix"}
        return {
            key: f"{entry}{FORGED}"
            if key in free and isinstance(entry, str)
            else {**entry, "value": f"{entry['value']}{FORGED}"}
            if key in free and isinstance(entry, dict) and isinstance(entry.get("value"), str)
            else hostile_texts(entry)
            for key, entry in value.items()
        }
    return [hostile_texts(entry) for entry in value] if isinstance(value, list) else value


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.txt"
    path.write_text("CUDA driver version is insufficient for CUDA runtime version\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("command", sorted(OPTIONS))
def test_every_command_has_the_common_options(command: str) -> None:
    assert {"--no-color", "--quiet", "-q"} - OPTIONS[command] == set()


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("command", WITH_SNAPSHOT)
def test_no_command_prints_control_characters_of_a_snapshot(tmp_path: Path, command: str) -> None:
    data = encode(UNFIT)
    for part in ("host", "gpus", "target", "environment", "toolkits", "kernel_log"):
        data[part] = hostile_texts(data[part])
    data["environment"] = {"CUDA_PATH": f"/opt/cuda{FORGED}", "LD_LIBRARY_PATH": f"/opt/lib{FORGED}"}
    for name in ("hostile.json", "other.json"):
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    for options in ((), ("-v",) if "-v" in OPTIONS[command] else (), ("--format", "json")):
        if options[:1] == ("--format",) and not {"--format", "--redact"} <= OPTIONS[command]:
            continue
        result = run(command, tmp_path, *options, snapshot=tmp_path / "hostile.json")
        assert result.stdout + result.stderr
        assert forged_lines(f"{result.stdout}\n{result.stderr}") == []


@pytest.mark.parametrize("command", sorted(OPTIONS.keys() - {"run"}))
def test_no_command_prints_a_line_that_its_folder_or_a_variable_forges(tmp_path: Path, command: str) -> None:
    """Except run, whose output is that of the program."""
    folder = tmp_path / f"folder{SHORT}"
    folder.mkdir()
    for name, text in (("log.txt", FORGED), ("other.json", SHORT), ("result.json", "")):
        (folder / name).write_text(text, encoding="utf-8")
    variables = dict.fromkeys(VARIABLES, f"/nonexistent/{SHORT}")
    for options in ((), ("-v",) if "-v" in OPTIONS[command] else (), ("--snapshot", str(folder / "other.json"))):
        if not OPTIONS[command].issuperset(options[:1]):
            continue
        snapshot = folder / "result.json" if command == "diff" else None
        result = run(command, folder, *options, snapshot=snapshot, **variables)
        assert result.stdout + result.stderr
        assert forged_lines(f"{result.stdout}\n{result.stderr}") == []


@pytest.mark.parametrize("command", WITH_SNAPSHOT)
def test_no_command_shows_a_secret_and_no_json_an_identity(
    tmp_path: Path, log: Path, snapshot_file: Path, command: str
) -> None:
    """Text on standard output shows real paths, which its reader copies."""
    log.write_text(
        f"{log.read_text(encoding='utf-8')}{HOME}/cupy https://me:p4ssw0rd@index.example/ token=t0k3n-abc\n",
        encoding="utf-8",
    )
    write_snapshot(
        replace_facts(UNFIT, host=UNFIT.host._replace(kernel=known("6.1.0", "uname"))), tmp_path / "other.json"
    )
    hidden = ("NVIDIA_API_KEY", "CUPY_TEST_TOKEN", "CUDA_SECRET", "NVIDIA_PASSWORD", "CUPY_INDEX", "CUPY_SIGNED")
    secrets = [secret for name, _, secret in SECRETS if name in hidden]
    result = run(command, tmp_path, snapshot=snapshot_file)
    # The program that run starts writes to the same standard error.
    printed = result.stdout + (
        result.stderr.replace(log.read_text(encoding="utf-8"), "") if command == "run" else result.stderr
    )
    assert [secret for secret in secrets if secret in printed] == []
    if {"--format", "--redact"} <= OPTIONS[command]:
        printed = run(command, tmp_path, "--format", "json", snapshot=snapshot_file).stdout
        assert [secret for secret in secrets if secret in printed] == []
        printed = json.dumps(without_commands(json.loads(printed)), ensure_ascii=False)
        assert [text for text in (*secrets, USER, HOME, UUID, UUID[4:], MIG, MIG[4:]) if text in printed] == []


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("command", WITH_OUTPUT)
def test_a_file_that_a_command_writes_is_readable_only_by_its_owner(
    tmp_path: Path, snapshot_file: Path, command: str
) -> None:
    (tmp_path / "other.json").write_bytes(snapshot_file.read_bytes())
    former = os.umask(0)
    try:
        result = run(command, tmp_path, "-o", str(tmp_path / "result"), snapshot=snapshot_file)
    finally:
        os.umask(former)
    if not (tmp_path / "result").exists():
        assert command in {"install", "matrix refresh"}, result.stderr  # without an index
        return
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == 0o600


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("command", sorted(OPTIONS))
def test_no_command_runs_code_in_the_working_folder(tmp_path: Path, snapshot_file: Path, command: str) -> None:
    """Modules of the standard library, of the dependencies, of pip and uv, and programs."""
    (tmp_path / "other.json").write_bytes(snapshot_file.read_bytes())
    for name in (*NAMES, "pip/__main__", "uv/__main__", "re", "venv"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'run')!r}, 'a').write({name!r} + ' ')\n", encoding="utf-8")
    for name in ("nvidia-smi", "git", "nvcc", "docker", "conda", "cc", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/run\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    more = {
        "install": ("--dry-run", "--python", sys.executable),
        "matrix refresh": ("--dry-run",),
        "schema": ("report",),
        "simulate": ("h200-580", "--", str(PROGRAM), "doctor", "--python", sys.executable),
    }
    target = ("--python", sys.executable) if command in {"doctor", "preflight", "probe", "resolve"} else ()
    result = run(command, tmp_path, *target, *more.get(command, ()), snapshot=None if target else snapshot_file)
    assert result.stdout or result.stderr
    assert not (tmp_path / "run").exists(), (tmp_path / "run").read_text(encoding="utf-8")
