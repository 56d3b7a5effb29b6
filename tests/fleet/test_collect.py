"""``gpuenv fleet collect``: what becomes of the answers, and the commands of each engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpuenv.fleet.collect import Collection, Start, collect, run_name
from gpuenv.fleet.node_report import answer, parse_node_report
from gpuenv.fleet.runners import dask, kubernetes, slurm, ssh
from gpuenv.fleet.runners.task import Answer, Nodes, RunnerError, Task, ask_each
from gpuenv.matrix.resolve import resolve
from gpuenv.model.codec import encode
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.report import Report, Status
from tests.cli.program import gpuenv
from tests.support.matrix import MATRIX
from tests.support.planted_secrets import LONG_URL, shown_parts
from tests.support.processes import is_running

if TYPE_CHECKING:
    from collections.abc import Iterable

COMMAND = ("/opt/gpu env/bin/gpuenv", "fleet", "node", "-o", "-", "--python", "$(touch hacked); `x`")
TASK = Task(COMMAND, "20261123-112039-1f0c", 10.0, 5.0, 8, {"PATH": os.defpath}, image="registry.example/gpuenv:1")
NOW = time.time()


def report(code: int = 0, name: str = "someone") -> bytes:
    status = {0: Status.FIT, 1: Status.UNFIT, 8: Status.UNKNOWN}[code]
    resolution = resolve(Snapshot(), MATRIX)
    of_doctor = Report(status, code, (), (), resolution, None, Snapshot(), 1.0, "1", "2026-11-23", host_only=True)
    return json.dumps(encode(answer(of_doctor, name, None, NOW)), separators=(",", ":")).encode()


FIT, UNFIT, UNDETERMINED = map(report, (0, 1, 8))


def collected(folder: Path, answers: Iterable[Answer], nodes: Nodes | None = None, quorum: float = 0.95) -> Collection:
    answers = tuple(answers)
    nodes = nodes or Nodes(tuple(answer.node for answer in answers), {})
    return collect(nodes, answers, folder, Start("run-1", "slurm", NOW, quorum), lambda _: None)


@pytest.mark.parametrize(
    ("outputs", "quorum", "code"),
    [
        ([FIT] * 20, 1.0, 0),
        ([FIT] * 19 + [b""], 0.95, 0),
        ([FIT] * 18 + [b""] * 2, 0.95, 8),
        ([FIT] * 10 + [b""] * 10, 0.5, 0),
        ([FIT] * 19 + [UNFIT], 0.95, 1),
        ([UNFIT] + [b""] * 19, 0.95, 1),
        ([UNDETERMINED] * 20, 0.95, 8),
        ([b""] * 20, 0.0, 8),
    ],
)
def test_the_exit_code_says_whether_all_are_fit_and_enough_answered(
    tmp_path: Path, outputs: list[bytes], quorum: float, code: int
) -> None:
    answers = [Answer(f"n{number}", output) for number, output in enumerate(outputs)]
    assert collected(tmp_path, answers, quorum=quorum).exit_code == code


HOSTILE = {
    "path": (json.dumps(json.loads(FIT) | {"node": "../../../tmp/hacked"}).encode(), "is no name of a node"),
    "command": (json.dumps(json.loads(FIT) | {"node": "x; reboot"}).encode(), "is no name of a node"),
    "deep": (b'{"schema":"gpuenv.node/1","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "no JSON"),
    "large": (FIT[:-1] + b',"x":"' + b"x" * 2_000_000 + b'"}', "are more than"),
    "newer": (FIT.replace(b"gpuenv.node/1", b"gpuenv.node/2"), "found 'gpuenv.node/2'"),
    "cut": (FIT[:-20], "no JSON"),
    "pickle": (b"cos\nsystem\n(S'touch hacked'\ntR.", "no JSON"),
    "nothing": (b"", "no JSON"),
}


def test_a_hostile_answer_is_named_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    found = collected(folder, [Answer(name, output) for name, (output, _) in HOSTILE.items()])
    reasons = {entry.node: entry.reason for entry in found.silent}
    assert reasons.keys() == HOSTILE.keys()
    for name, (_, expected) in HOSTILE.items():
        assert expected in reasons[name]
    assert [path.name for path in folder.iterdir()] == ["_collection.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


def test_a_report_is_named_for_the_node_that_was_asked(tmp_path: Path) -> None:
    """A node that calls itself another one does not get at its report; lines before the report are skipped."""
    collected(
        tmp_path, [Answer("n1", b"Welcome to n1!\n{}\n" + FIT.replace(b"someone", b"n2") + b"\n"), Answer("n2", UNFIT)]
    )
    reports = {name: parse_node_report((tmp_path / f"{name}.json").read_bytes()) for name in ("n1", "n2")}
    assert [(entry.node, entry.run, entry.exit_code) for entry in reports.values()] == [
        ("n1", "run-1", 0),
        ("n2", "run-1", 1),
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_the_record_names_every_node_and_conforms_to_its_schema(tmp_path: Path) -> None:
    found = collected(
        tmp_path, [Answer("n1", FIT), Answer("n2", b"", "no answer within 40 s")], Nodes(("n1", "n2"), {"n3": "down"})
    )
    assert (found.nodes, found.fit) == (("n1", "n2", "n3"), ("n1",))
    written = json.loads((tmp_path / "_collection.json").read_text(encoding="utf-8"))
    assert written == encode(found) | {"duration": written["duration"]}
    Draft202012Validator(json.loads(gpuenv("schema", "collection").stdout)).validate(written)
    Draft202012Validator(json.loads(gpuenv("schema", "node").stdout)).validate(json.loads(FIT))


@pytest.mark.parametrize(
    ("kept", "fit", "silent"),
    [
        ("recent", ("n1",), ()),
        ("old", (), ("n1",)),
        ("none", (), ("n1",)),
        ("link", (), ("n1",)),
        ("broken", (), ("n1",)),
    ],
)
def test_a_drained_node_answers_by_its_recent_report_in_the_folder(
    tmp_path: Path, kept: str, fit: tuple[str, ...], silent: tuple[str, ...]
) -> None:
    text = {"broken": "{", "old": json.dumps(json.loads(FIT) | {"taken_at": NOW - 90_000})}.get(kept, FIT.decode())
    if kept == "link":
        (tmp_path / "elsewhere").write_text(text, encoding="utf-8")
        (tmp_path / "n1.json").symlink_to("elsewhere")
    elif kept != "none":
        (tmp_path / "n1.json").write_text(text, encoding="utf-8")
    found = collected(tmp_path, [], Nodes((), {"n1": "its state in Slurm is drained"}))
    assert (found.fit, tuple(entry.node for entry in found.silent)) == (fit, silent)
    assert [entry.node for entry in found.unavailable] == ["n1"]


def test_a_silent_node_keeps_its_former_report(tmp_path: Path) -> None:
    collected(tmp_path, [Answer("n1", FIT)])
    before = (tmp_path / "n1.json").read_bytes()
    collected(tmp_path, [Answer("n1", b"", "no answer")])
    assert (tmp_path / "n1.json").read_bytes() == before


def test_clients_that_hang_die_or_flood_are_named_within_the_time_limit(tmp_path: Path) -> None:
    programs = {
        "fit": f"print({FIT.decode()!r})",
        "hung": "import time; time.sleep(60)",
        "dead": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "failed": "import sys; sys.exit('ssh: connect to host failed: No route to host')",
        "flood": "while True: print('x' * 9999)",
    }
    commands = {name: (sys.executable, "-c", program) for name, program in programs.items()}
    missing = {"missing": (str(tmp_path / "srun"),)}
    started = time.monotonic()
    answers = ask_each({**commands, **missing}, TASK._replace(seconds=2.0, wait=1.0))
    found = collected(tmp_path, answers, Nodes((*commands, "missing"), {}))
    assert time.monotonic() - started < 3.0 + 3.0
    assert found.fit == ("fit",)
    reasons = {entry.node: entry.reason for entry in found.silent}
    assert reasons.pop("flood").startswith("its answer is no report")
    assert reasons == {
        "hung": "no answer within 3 s",
        "dead": "SIGKILL",
        "failed": "ssh: connect to host failed: No route to host",
        "missing": "No such file or directory",
    }


def test_the_reason_of_a_silent_node_is_not_cut_within_a_secret() -> None:
    commands = {"n1": (sys.executable, "-c", f"import sys; sys.exit('error: cannot open {LONG_URL.line}')")}
    (found,) = ask_each(commands, TASK)
    assert found.reason is not None
    assert found.reason.startswith("error: cannot open")
    assert shown_parts(LONG_URL, hide_secrets(found.reason)) == []


def test_no_result_shows_a_secret_of_a_client_or_a_node(tmp_path: Path) -> None:
    folder, line = tmp_path / "reports", LONG_URL.line
    odd = json.dumps({"schema": line}).encode()
    answers = [Answer("n1", b"", f"cannot open {line}"), Answer("n2", odd), Answer("n3", FIT)]
    nodes = Nodes(("n1", "n2", "n3"), {"n4": f"drained: see {line}"})
    found = collected(folder, answers, nodes)
    (folder / "n5.json").write_bytes(odd)
    (folder / "n6.json").write_bytes(FIT.replace(b"someone", line.encode()))
    shown = [str(found), (folder / "_collection.json").read_text(encoding="utf-8")]
    for form in ("text", "json", "html", "junit", "prometheus"):
        gpuenv("fleet", "report", folder, "--format", f"{form}={tmp_path / form}")
        shown.append((tmp_path / form).read_text(encoding="utf-8"))
    assert "cannot open" in shown[0]
    assert [shown_parts(LONG_URL, text) for text in shown] == [[]] * len(shown)


def test_an_interrupt_ends_every_client_and_keeps_the_reports(tmp_path: Path) -> None:
    client, text = tmp_path / "ssh", tmp_path / "report"
    text.write_bytes(FIT)
    client.write_text(
        f'#!/bin/sh\ncase "$*" in *" n1 "*) cat {text} ;; *) echo $$ >> {tmp_path}/hung; exec sleep 60 ;; esac\n',
        encoding="utf-8",
    )
    client.chmod(0o755)
    options = ["--via", "ssh", "--nodes", "n[1-3]", "-o", str(tmp_path / "reports")]
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuenv", "fleet", "collect", *options],
        env={"PATH": f"{tmp_path}:{os.defpath}"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    hung, until = tmp_path / "hung", time.monotonic() + 20
    while not ((tmp_path / "reports/n1.json").exists() and hung.exists() and hung.read_text().count("\n") == 2):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=10)[1].endswith("gpuenv: interrupted\n")
    assert process.returncode == ExitCode.INTERRUPTED
    assert [pid for pid in hung.read_text(encoding="utf-8").split() if is_running(int(pid))] == []
    assert parse_node_report((tmp_path / "reports/n1.json").read_bytes()).node == "n1"


def test_the_command_of_ssh_reaches_the_node_as_it_is() -> None:
    *_, separator, host, remote = ssh.command("n1", TASK)
    assert (separator, host) == ("--", "n1")
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    script = f"{shlex.join([sys.executable, '-c', program])} {remote}"
    shown = subprocess.run(["sh", "-c", script], capture_output=True, check=True, text=True).stdout
    assert tuple(json.loads(shown)) == COMMAND


def test_slurm_gets_a_job_of_one_task_for_each_node() -> None:
    commands = [tuple(shlex.split(line)) for line in slurm.dry_run(Nodes(("n1", "n2"), {}), TASK).splitlines()]
    assert [command[-len(COMMAND) :] for command in commands] == [COMMAND] * 2
    assert [[word for word in command if "nodelist" in word] for command in commands] == [
        ["--nodelist=n1"],
        ["--nodelist=n2"],
    ]
    assert {"--nodes=1", "--ntasks=1"} <= set(commands[0])


def kubernetes_schema() -> Draft202012Validator:
    path = Path(__file__).parents[1] / "recipes/schemas/kubernetes-1.37-pod-job.json"
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("runtime_class", [None, "nvidia"])
def test_the_jobs_for_kubernetes_conform_to_its_schema(runtime_class: str | None) -> None:
    task = TASK._replace(run=run_name(NOW), runtime_class=runtime_class)
    first, second = kubernetes.manifest(Nodes(("n1", "n2.example"), {}), task)["items"]
    kubernetes_schema().validate(first)
    pod: dict[str, Any] = first["spec"]["template"]["spec"]
    assert (pod["nodeName"], pod.get("runtimeClassName")) == ("n1", runtime_class)
    assert (first["spec"]["backoffLimit"], first["spec"]["activeDeadlineSeconds"]) == (0, 15)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", first["metadata"]["name"])
    pod["nodeNam"] = "n1"
    assert not kubernetes_schema().is_valid(first), "a misspelled key is refused"


def test_kubernetes_needs_an_image() -> None:
    with pytest.raises(RunnerError, match="needs --image"):
        kubernetes.manifest(Nodes(("n1",), {}), TASK._replace(image=None))


def test_a_dry_run_prints_the_commands_of_a_node_set() -> None:
    result = gpuenv("fleet", "collect", "--via", "ssh", "--nodes", "gpu[08-10,20]", "--dry-run")
    assert result.returncode == 0, result.stderr
    commands = [shlex.split(line) for line in result.stdout.splitlines()]
    assert [command[-2] for command in commands] == ["gpu08", "gpu09", "gpu10", "gpu20"]
    assert all("BatchMode=yes" in command for command in commands)


@pytest.mark.parametrize(
    ("runner", "nodes", "message"),
    [
        (ssh, "-oProxyCommand=reboot", "cannot be the name of a node"),
        (ssh, "n[1-", "--nodes n[1-"),
        (ssh, None, "--via ssh needs --nodes"),
        (slurm, "n1", "sinfo -h -N: "),
        (dask, None, "--via dask needs --scheduler"),
        (kubernetes, None, "kubectl get nodes"),
    ],
)
def test_nodes_that_no_engine_has_are_refused(tmp_path: Path, runner: Any, nodes: str | None, message: str) -> None:  # noqa: ANN401 - a module
    task = TASK._replace(environment={"PATH": str(tmp_path)})  # no engine has its client there
    with pytest.raises(RunnerError, match=re.escape(message)):
        runner.find_nodes(nodes, task)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nodes", "n[1-"], "--nodes n[1-"),
        (["--nodes", ""], "there are no nodes"),
        (["--nodes", "n1", "--host-only", "--python", "x"], "exclude each other"),
    ],
)
def test_a_collection_without_nodes_is_a_usage_error(tmp_path: Path, options: list[str], message: str) -> None:
    result = gpuenv("fleet", "collect", "--via", "ssh", "-o", tmp_path / "reports", *options)
    assert (result.returncode, message in result.stderr) == (ExitCode.USAGE, True), result.stderr
    assert not (tmp_path / "reports").exists()


def test_without_a_folder_nothing_runs() -> None:
    result = gpuenv("fleet", "collect", "--via", "ssh", "--nodes", "n1")
    assert result.returncode == ExitCode.USAGE
    assert "-o FOLDER is missing" in result.stderr
