"""No value that a command prints becomes a line of its own, a command in a log of CI, or a control character."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.cli.command_errors import complain
from gpuenv.cli.main import run
from gpuenv.cli.output import FORMATS, write_stdout
from gpuenv.image.engine.errors import error_from_text
from gpuenv.model.reading import known
from gpuenv.model.strings import Lines, sanitize_line
from gpuenv.preflight.requirements import parse_requirement
from gpuenv.pytest_plugin import RunState
from gpuenv.pytest_plugin.mark_requirements import report_text, skip_reason
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, UNFIT, UUID, replace_facts, write_snapshot
from tests.cli.test_terminal import ESCAPE_SEQUENCE, run_on_terminal
from tests.image.layouts import Made
from tests.image.registry_server import Handler, serving
from tests.support.forged_lines import BREAKS, COMMANDS, FORGED, ONE_LINE, SHORT, forged_lines

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot

MACHINES = Path(__file__).parents[1] / "machines"
HOSTILE_DOCKERFILE = (
    f"FROM python:3.12\nENV CUDA_PATH='{ONE_LINE}'\nRUN pip install 'cupy-cuda12x=={ONE_LINE}'\n"
    f"RUN apt-get install -y '{ONE_LINE}'\n{ONE_LINE}\n"
)


def forge(snapshot: Snapshot, value: str) -> Snapshot:
    """The machine with this text in names, paths and variables."""
    gpu = snapshot.gpus[0]._replace(name=known(f"H100{value}", "nvml"))
    host = snapshot.host._replace(distribution=known(value, "/etc/os-release"), kernel=known(f"6.1{value}", "uname"))
    target = snapshot.target._replace(
        executable=known(f"/opt/{value}/bin/python3", "the target's interpreter"),
        prefix=known(f"/opt/{value}", "the target's interpreter"),
    )
    variables = {"CUDA_PATH": f"/opt/cuda{value}", "LD_LIBRARY_PATH": value, "CUDA_VISIBLE_DEVICES": value}
    return replace_facts(snapshot, gpus=(gpu,), host=host, target=target, environment=variables)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with hostile files, whose name is hostile too."""
    folder = tmp_path / f"folder{SHORT}".replace("/", "")
    folder.mkdir()
    for name, snapshot in (("fit", FIT), ("unfit", UNFIT)):
        write_snapshot(forge(snapshot, FORGED), folder / f"{name}.json")
    texts = {
        "Dockerfile": HOSTILE_DOCKERFILE,
        f"Dockerfile{SHORT}": HOSTILE_DOCKERFILE,
        "compose.yaml": f"services:\n  a:\n    image: {json.dumps(SHORT)}\n    environment: [{json.dumps(SHORT)}]\n",
        "requirements.txt": f"cupy-cuda12x=={ONE_LINE} {SHORT}\n-r {ONE_LINE}.txt\n",
        "log.txt": f"{FORGED}\ncudaErrorInsufficientDriver: CUDA driver version is insufficient{FORGED}\n",
        "forged.toml": f"allow = [{{code = {json.dumps(SHORT)}, reason = 'x', expires = 2027-05-31}}]\n",
        "keys.toml": f"{json.dumps(SHORT)} = 1\nrequire = [{json.dumps(SHORT)}]\n",
        "machine.yaml": f"{json.dumps(SHORT)}: 1\n",
        "matrix.yaml": f"revision: {json.dumps(SHORT)}\n{json.dumps(SHORT)}: 1\n",
        "paste.txt": f"$ nvidia-smi -L\nGPU 0: NVIDIA H100 PCIe ##[add-mask]forged (UUID: {UUID})\n",
    }  # fmt: skip
    shipped = (MACHINES / "no-gpu.yaml").read_text(encoding="utf-8")
    texts["printed.yaml"] = f"{shipped}# ##[add-mask]forged ##vso[x]\u200b\n"
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    for name in ("GITHUB_STEP_SUMMARY", "GPUENV_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


SNAPSHOT = ("--snapshot", "unfit.json", "--no-redact")
COMMAND_LINES = (
    ("resolve", *SNAPSHOT[:2]),
    ("resolve", "-v", *SNAPSHOT[:2]),
    ("resolve", "--why-not", SHORT, *SNAPSHOT[:2]),
    ("resolve", "--assume", f"gpu={SHORT}", "--no-probe"),
    ("doctor", "-v", *SNAPSHOT),
    ("doctor", SHORT),
    ("doctor", f"--{SHORT}"),
    ("doctor", "--format", SHORT),
    ("doctor", "--timeout", SHORT),
    ("doctor", "--snapshot", SHORT),
    ("doctor", "--python", f"/nonexistent/{SHORT}"),
    ("doctor", "--matrix", "matrix.yaml", *SNAPSHOT),
    ("doctor", "-o", f"/nonexistent/{SHORT}/x", *SNAPSHOT),
    ("doctor", "-v", "--paste", "paste.txt"),
    (SHORT,),
    ("matrix", SHORT),
    ("matrix", "show", "--row", SHORT),
    ("matrix", "check", "--matrix", "matrix.yaml"),
    ("schema", SHORT),
    ("preflight", "--no-config", "--require", f"name~={SHORT}", *SNAPSHOT),
    ("preflight", "--no-config", "--require", SHORT, *SNAPSHOT),
    ("preflight", *SNAPSHOT),
    ("preflight", "--config", "forged.toml", *SNAPSHOT),
    ("preflight", "--config", "keys.toml", *SNAPSHOT),
    ("diff", "fit.json", "unfit.json"),
    ("diff", SHORT, "unfit.json"),
    ("explain", "log.txt", "-v"),
    ("explain", SHORT),
    ("explain", f"cudaErrorNoDevice{SHORT}", *SNAPSHOT[:2]),
    ("check-image", "--dockerfile", "Dockerfile", "--assume", "driver=580.95.05"),
    ("check-image", "--dockerfile", f"Dockerfile{SHORT}", "-v"),
    ("check-image", "--dockerfile", "compose.yaml"),
    ("check-image", "--dockerfile", SHORT),
    ("check-image", SHORT),
    ("simulate", SHORT, "--", "true"),
    ("simulate", "machine.yaml", "--print"),
    ("simulate", "printed.yaml", "--print"),
    ("lock", "--python", SHORT),
    ("install", "--dry-run", "--locked", "requirements.txt"),
    ("install", "--bundle", SHORT),
    ("rollback", SHORT),
    ("run", "--", f"/nonexistent/{SHORT}"),
    ("build-image", "--print", "--base", SHORT),
    ("build-image", "--print", "--label", f"a={SHORT}"),
    ("smoke", "--list", SHORT),
)  # fmt: skip


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "arguments", COMMAND_LINES, ids=lambda words: " ".join(words)[:40].encode("unicode_escape").decode()
)
def test_no_input_forges_a_line(capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    run(list(arguments))
    printed = capfd.readouterr()
    assert printed.out + printed.err
    assert forged_lines(printed.out) == []
    assert forged_lines(printed.err) == []


def test_no_format_forges_a_line(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    formats = [part for name in FORMATS for part in ("--format", f"{name}=result.{name}")]
    requirements = ("--require", f"name~={SHORT}", "--require", "gpu>=8")
    assert run(["preflight", "--no-config", *requirements, *formats, *SNAPSHOT]) == 1
    printed = capfd.readouterr()
    assert forged_lines(printed.out) == []
    assert printed.err == ""
    results = {name: (here / f"result.{name}").read_text(encoding="utf-8") for name in FORMATS}
    commands = results["github"].splitlines()
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in commands)
    results["github"] = "\n".join(line[2:] for line in commands)
    assert {name: lines for name, text in results.items() if (lines := forged_lines(text))} == {}
    report = json.loads(results["json"])
    assert report["snapshot"]["gpus"][0]["name"]["value"] == f"H100{FORGED}"


@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_a_command_is_broken_visibly_in_a_line(command: str) -> None:
    line = sanitize_line(command)
    assert forged_lines(line) == []
    assert command.strip().lstrip(":#s")[:12] in line
    assert json.loads(sanitize_line(json.dumps(f"a {command}"))) == f"a {command}"


@pytest.mark.parametrize("pause", BREAKS)
def test_only_lines_of_gpuenv_are_lines_of_a_message(capsys: pytest.CaptureFixture[str], pause: str) -> None:
    complain(f"one{pause}forged")
    complain(Lines(("one", f"two{pause}forged", "::error::three")))
    with pytest.raises(ValueError, match="one") as caught:
        raise ValueError(Lines(("one", f"two{pause}forged")))
    complain(str(caught.value))
    printed = capsys.readouterr().err
    assert forged_lines(printed) == []
    assert [line[:3] for line in printed.splitlines()] == ["one", "one", "two", "\\u0", "one", "two"]


def test_text_that_is_copied_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "## heading\n  $ pip install 'cupy-cuda12x[ctk]' --index-url https://[::1]/a#b\nstd::vector [##] #[x]\n\n"
    write_stdout(text)
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("status", [404, 401, 500])
def test_the_message_of_a_registry_forges_no_line(here: Path, status: int) -> None:
    def respond(handler: Handler) -> bool:
        body = json.dumps({"errors": [{"code": SHORT, "message": FORGED}]}).encode("utf-8", "replace")
        handler.answer(
            status, body, {"Content-Type": "application/json", "WWW-Authenticate": f"Bearer realm={ONE_LINE!a}"}
        )
        return True

    with serving(Made()) as served:
        served.respond = respond
        result = gpuenv("check-image", served.name, "--from", "registry", cwd=here)
    assert "registry" in result.stderr
    assert forged_lines(result.stdout + result.stderr) == []


def test_the_output_of_an_engine_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_from_text(
        f"step 1\n{SHORT}\n::error::forged\n##[error]x\nno space left on device", "the build failed"
    )
    complain(error.message)
    printed = capsys.readouterr().err
    assert [line for line in forged_lines(printed) if "forged: FIT" not in line] == []
    assert "no space left on device" in printed.splitlines()


def test_the_explanation_after_a_run_forges_no_line(here: Path) -> None:
    result = gpuenv("run", "--no-probe", "--", "sh", "-c", "cat log.txt >&2; exit 3", cwd=here)
    assert result.returncode == 3
    _, explanation = result.stderr.split("gpuenv: what this failure means\n")
    assert forged_lines(explanation) == []


def test_a_line_that_a_terminal_wraps_becomes_no_command(tmp_path: Path) -> None:
    words = " ".join(f"{'x' * length} ::error::forged ##[add-mask]x" for length in range(10, 70))
    snapshot = write_snapshot(forge(FIT, f" {words}"), tmp_path / "machine.json")
    output = run_on_terminal("doctor", "-v", "--snapshot", snapshot)
    lines = [ESCAPE_SEQUENCE.sub("", line) for line in output.text.split("\n")]
    assert sum(line.lstrip().startswith("\\u003a:error::") for line in lines) > 3
    assert forged_lines("\n".join(lines)) == []


@pytest.mark.parametrize("answer", ["report", "message"])
def test_the_plugin_of_pytest_forges_no_line(
    tmp_path: Path, here: Path, capfd: pytest.CaptureFixture[str], answer: str
) -> None:
    run(["doctor", "--snapshot", str(here / "fit.json"), "--no-redact", "--format", "json"])
    report = capfd.readouterr().out if answer == "report" else f"first{SHORT.replace('forged: FIT', '')}"
    (tmp_path / "started").touch()  # another worker runs the doctor, and this is its answer
    (tmp_path / "report.json").write_text(report, encoding="utf-8")
    state = RunState("gpuenv", 30.0, shared=tmp_path)
    reason = skip_reason(state, (parse_requirement("name~=B200"),))
    assert (state.report is not None) is (answer == "report")
    assert reason is not None
    assert forged_lines(f"{reason}\n{report_text(state, 'test_it')}\n{state.line}") == []


def test_the_variable_of_shell_completion_forges_no_line() -> None:
    for value in ("complete_x\n::error::hi", "source_##[error]hi", "x"):
        result = gpuenv(environment={"_GPUENV_COMPLETE": value})
        assert forged_lines(f"{result.stdout}\n{result.stderr}") == []
        assert "::error" not in result.stdout + result.stderr
