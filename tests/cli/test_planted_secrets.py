"""No output of any command shows a secret that its input quotes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.cli.command_errors import complain
from gpuenv.cli.output import Output
from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import scan
from gpuenv.model.strings import Lines
from gpuenv.report.explanation import explanation_text
from tests.cli.program import gpuenv
from tests.cli.snapshots import UNFIT, replace_facts, write_snapshot
from tests.support.planted_secrets import HARMLESS, LONG_URL, PLANTED, PRIVATE_KEY, shown_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each with a known cause.
MESSAGES = (
    "Failed to initialize NVML: Driver/library version mismatch",
    "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
)
# Forms that fill a line have no room for a message.
IN_LINES = tuple(planted for planted in PLANTED if planted.form not in ("a line of .netrc", "a line of a private key"))
REPORTS = ("text", "json", "junit", "github", "gitlab", "sarif", "prometheus", "markdown", "html")


def leaks(text: str) -> dict[str, list[str]]:
    return {planted.form: shown for planted in PLANTED if (shown := shown_parts(planted, text))}


def explained(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """An explanation in each form in which it is written."""
    found = explanation(scan(text.encode()))
    assert found.causes, text
    outputs = {}
    for file in (None, folder / "answer"):
        for as_json in (False, True):
            Output(file, as_json, color=False, redacted=True).emit(found, lambda: explanation_text(found, verbose=True))
            outputs[f"{file and file.name} {as_json}"] = file.read_text("utf-8") if file else capsys.readouterr().out
    return outputs


@pytest.mark.parametrize(
    "text",
    [
        "{message} {line}",
        pytest.param("{line} {message}", marks=pytest.mark.long),
        pytest.param("{line} {filler} {message}", marks=pytest.mark.long),
        pytest.param("{filler} {message} {line}", marks=pytest.mark.long),
    ],
)
def test_explain_hides_a_secret_in_a_line_that_it_quotes(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filler = "loss=0.25 step " * (9000 // 15)
    for planted in IN_LINES:
        if "with spaces" in planted.form and (not text.endswith("{line}") or "setting" in planted.form):
            continue  # without quotation marks a value with spaces and the message are one text
        log = text.format(line=planted.line, message=MESSAGES[0], filler=filler)
        for name, output in explained(log, tmp_path, capsys).items():
            assert shown_parts(planted, output) == [], (planted.form, name)


@pytest.mark.long
@pytest.mark.parametrize("place", [80, 110, 140, 450, 480])
def test_a_line_is_not_shortened_within_a_secret(
    place: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = f"{MESSAGES[0]} ".ljust(place, ".")
    for planted in IN_LINES:
        if "with spaces" not in planted.form:
            for name, output in explained(f"{start} {planted.line} {'.' * 600}", tmp_path, capsys).items():
                assert shown_parts(planted, output) == [], (planted.form, name)


def test_messages_on_standard_error_hide_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    for planted in PLANTED:
        complain(planted.line)
        assert shown_parts(planted, capsys.readouterr().err) == [], planted.form
    complain("\n".join(planted.line for planted in PLANTED) + "\n" + PRIVATE_KEY)
    assert leaks(capsys.readouterr().err) == {}
    complain(Lines(HARMLESS))
    assert capsys.readouterr().err.splitlines() == list(HARMLESS)


def test_no_complaint_about_an_input_is_cut_within_a_secret(tmp_path: Path) -> None:
    url = LONG_URL.line
    files = {
        "image": f"FROM {url} a word\n",
        "word": f"FROM ubuntu\n{url} x\n",
        "escape": f"# escape={url}\nFROM ubuntu\n",
        "snapshot": json.dumps({"schema": "gpuenv.snapshot/1", "gpus": url}),
        "config": f'[doctor]\n"{url}" = 1\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    dockerfile = ("check-image", "--no-probe", "--dockerfile")
    for arguments in (
        ("check-image", url),
        ("check-image", f"docker://{url}"),
        *((*dockerfile, tmp_path / name) for name in ("image", "word", "escape")),
        ("doctor", "--snapshot", tmp_path / "snapshot"),
        ("preflight", "--no-config", "--require", url),
        ("preflight", "--config", tmp_path / "config"),
        ("fleet", "collect", "--via", "ssh", "--nodes", f"{url}x"),
    ):
        result = gpuenv(*arguments)
        assert result.returncode != 0, arguments
        assert shown_parts(LONG_URL, result.stdout + result.stderr) == [], arguments


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """A snapshot with all secrets in its variables."""
    environment: Mapping[str, str] = {f"CUPY_{n}": planted.line for n, planted in enumerate(PLANTED)}
    by_name = {"CUDA_DB_PASS": "hunter2-Zq7", "CUPY_GH_PAT": "hunter2-Zq7", "NVIDIA_SESSION": "hunter2-Zq7"}
    harmless = {f"CUPY_KEPT_{n}": line for n, line in enumerate(HARMLESS) if "/home" not in line and "://" not in line}
    return write_snapshot(
        replace_facts(UNFIT, environment={**environment, **by_name, **harmless}), tmp_path / "facts.json"
    )


def test_no_report_shows_a_secret_of_the_environment(facts: Path, tmp_path: Path) -> None:
    files = {form: tmp_path / f"report.{form}" for form in REPORTS}
    arguments = [f"--format={form}={file}" for form, file in files.items()]
    for command in ("doctor", "preflight"):
        result = gpuenv(command, "--snapshot", facts, "-v", *arguments)
        assert {form: leaks(file.read_text(encoding="utf-8")) for form, file in files.items()} == {
            form: {} for form in files
        }
        assert leaks(result.stdout + result.stderr) == {}
    report = json.loads(files["json"].read_text(encoding="utf-8"))
    kept = {name: value for name, value in report["snapshot"]["environment"].items() if name.startswith("CUPY_KEPT_")}
    assert set(kept.values()) <= set(HARMLESS)


def test_no_output_of_probe_shows_a_secret_of_the_environment(facts: Path, tmp_path: Path) -> None:
    written = tmp_path / "written.json"
    gpuenv("probe", "--snapshot", facts, "-o", written)
    printed = gpuenv("probe", "--snapshot", facts)
    assert leaks(written.read_text(encoding="utf-8")) == {}
    assert leaks(printed.stdout + printed.stderr) == {}
    environment = json.loads(written.read_text(encoding="utf-8"))["environment"]
    assert {environment[name] for name in ("CUDA_DB_PASS", "CUPY_GH_PAT", "NVIDIA_SESSION")} == {"(redacted)"}


@pytest.mark.long
def test_no_program_shows_a_secret_of_a_text(tmp_path: Path) -> None:
    """The commands themselves: explain, run and doctor --paste."""
    lines = [f"{MESSAGES[n % 4]} {planted.line}" for n, planted in enumerate(IN_LINES)]
    for start in range(0, len(lines), 30):
        log = tmp_path / "log.txt"
        log.write_text("\n".join(lines[start : start + 30]), encoding="utf-8")
        for arguments in (("explain", log), ("explain", log, "--format", "json"), ("doctor", "--paste", log, "-v")):
            result = gpuenv(*arguments)
            assert leaks(result.stdout + result.stderr) == {}, arguments
        ran = gpuenv("run", "--no-probe", "--", "sh", "-c", f"cat {log} >/dev/stderr; exit 3")
        assert "gpuenv: what this failure means" in ran.stderr
        assert leaks(ran.stderr.partition("gpuenv: what this failure means")[2]) == {}
