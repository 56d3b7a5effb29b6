"""Identities of persons and machines are planted everywhere, and must not appear in redacted output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.reading import known
from gpuenv.simulate.stub_driver import StubDriver
from tests.cli.planted import HOME, HOST, MIG, OTHER, PLANTED, USER, WHO, in_all
from tests.cli.program import answer, gpuenv
from tests.cli.recorded import FIT, UNFIT, UUID, changed, record

if TYPE_CHECKING:
    from collections.abc import Mapping

# What an index or a store calls its secrets.
IN_QUERIES = ["api_key", "apikey", "auth_token", "X-Amz-Signature", "X-Goog-Signature", "sig", "client_secret", "pwd"]


def test_a_recording_shown_to_others_tells_nothing_of_its_user(recording: Path) -> None:
    for command in ("doctor", "probe", "resolve"):
        _, shown = answer(command, "--snapshot", recording, environment=WHO)
        for name, _, secret in PLANTED:
            assert in_all(shown, secret) == [], name
        for identity in (USER, HOME, UUID, MIG, UUID[4:], MIG[4:]):
            assert in_all(shown, identity) == []


@pytest.mark.parametrize("command", ["probe", "doctor"])
def test_this_machine_shown_to_others_tells_nothing_of_its_user(machine: Mapping[str, str], command: str) -> None:
    planted = {name: value for name, value, _ in PLANTED if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    environment = {**machine, **planted, "CUDA_VISIBLE_DEVICES": f"{UUID},{OTHER}"}
    _, shown = answer(command, environment=environment)
    snapshot = shown if command == "probe" else shown["snapshot"]
    assert len(snapshot["gpus"]) == 2, snapshot["sources"]
    assert snapshot["gpus"][1]["mig_instances"]
    for name, _, secret in PLANTED:
        assert in_all(shown, secret) == [], name
    for identity in (USER, HOME, UUID, OTHER, MIG, UUID[4:], OTHER[4:], MIG[4:]):
        assert in_all(shown, identity) == []


def test_the_kernels_log_and_the_grant_name_nobody(machine: Mapping[str, str]) -> None:
    """Hosts, boards and folders in lines of syslog; users, jobs and UUIDs in the variables of a scheduler."""
    lines = [
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python",
        f"NVRM: GPU at PCI:0000:3b:00: {UUID}",
        "NVRM: GPU Board Serial Number: 0322917021132",
        f"nvidia-tool: {HOME}/cupy https://me:p4ssw0rd@git.example/x",
    ]
    log = Path(machine["GPUENV_DRIVER_ROOT"]) / "var/log/kern.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"Nov 22 18:29:55 {HOST} kernel: [  9.5] {line}\n" for line in lines), encoding="utf-8")
    job = {"SLURM_JOB_USER": USER, "SLURM_JOB_NAME": "my-secret-project", "SLURM_SUBMIT_HOST": HOST}
    environment = {**machine, **job, "SLURM_JOB_GPUS": UUID, "CUDA_MPS_PIPE_DIRECTORY": f"{HOME}/mps"}
    _, shown = answer("probe", environment=environment)
    assert len(shown["kernel_log"]["value"]) == 3
    assert shown["grant"]["devices"]["value"][0].startswith("GPU-")
    for identity in (USER, HOME, HOST, UUID, UUID[4:], "0322917021132", "p4ssw0rd", "my-secret-project"):
        assert in_all(shown, identity) == []


def test_what_is_no_secret_is_left_as_it_is(recording: Path) -> None:
    _, shown = answer("probe", "--snapshot", recording, environment=WHO)
    assert shown["target"]["executable"]["value"] == "~/envs/cupy/bin/python3"
    assert shown["environment"]["CUPY_INDEX"].endswith("@pypi.example/simple")
    assert "x=1" in shown["environment"]["CUPY_SIGNED"]
    assert "y=2" in shown["environment"]["CUPY_SIGNED"]
    assert shown["environment"]["LD_LIBRARY_PATH"].startswith("/opt/lib:~/lib:/home/")
    assert shown["driver"]["version"]["value"] == "470.161.03"
    assert shown["gpus"][0]["name"]["value"] == "NVIDIA A100-SXM4-80GB"
    assert set(shown["environment"]) == {name for name, _, _ in PLANTED} | {"CUDA_VISIBLE_DEVICES"}


def test_a_secret_in_a_query_is_hidden_by_any_usual_name(tmp_path: Path) -> None:
    urls = {f"CUPY_URL{n}": f"https://a.example/w.whl?v=1&{name}=t0p-s3cr3t&w=2" for n, name in enumerate(IN_QUERIES)}
    _, shown = answer("probe", "--snapshot", record(changed(FIT, environment=urls), tmp_path / "facts.json"))
    assert len(in_all(shown, "v=1")) == len(IN_QUERIES)
    assert in_all(shown, "t0p-s3cr3t") == []


@pytest.mark.parametrize(
    "password",
    [
        "plain",
        "with:colon",
        "with%40quoted",
        pytest.param("with@at"),
        pytest.param("with/slash"),
    ],
)
def test_a_password_is_hidden_whatever_is_in_it(tmp_path: Path, password: str) -> None:
    facts = changed(FIT, environment={"CUPY_URL": f"https://me:{password}-end@pypi.example/simple"})
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    assert in_all(shown, "-end") == []
    assert in_all(shown, "pypi.example/simple")


@pytest.fixture
def named_host(tmp_path: Path, stub_driver: StubDriver) -> Mapping[str, str]:
    """The environment of a machine named HOST."""
    table = tmp_path / "stub.txt"
    table.write_text(f"host.node={HOST}\n", encoding="utf-8")
    return {"LD_PRELOAD": str(stub_driver.uname), "GPUENV_STUB": str(table)}


def test_the_name_of_the_host_is_hidden(tmp_path: Path, named_host: Mapping[str, str]) -> None:
    told = {"CUPY_CACHE_DIR": f"/net/{HOST}/cache", "CUPY_HOST": HOST, "CUPY_URL": f"http://{HOST}.cluster:8080/simple"}
    recording = record(changed(FIT, environment=told), tmp_path / "facts.json")
    assert in_all(answer("probe", "--snapshot", recording)[1], HOST), "on another host it is a word like any other"
    assert in_all(answer("probe", "--snapshot", recording, environment=named_host)[1], HOST) == []


def test_the_name_of_the_host_is_hidden_in_a_path_too(tmp_path: Path, named_host: Mapping[str, str]) -> None:
    target = FIT.target._replace(executable=known(f"/net/{HOST}/envs/cupy/bin/python3", "the target's interpreter"))
    recording = record(changed(FIT, target=target), tmp_path / "facts.json")
    assert in_all(answer("probe", "--snapshot", recording, environment=named_host)[1], HOST) == []


def test_a_host_named_like_a_word_of_ours_changes_no_fact(tmp_path: Path, stub_driver: StubDriver) -> None:
    table = tmp_path / "stub.txt"
    recording = record(UNFIT, tmp_path / "facts.json")
    environment = {"LD_PRELOAD": str(stub_driver.uname), "GPUENV_STUB": str(table)}
    expected = answer("probe", "--snapshot", recording)[1]
    for host in ("nvml", "ubuntu", "answered"):
        table.write_text(f"host.node={host}\n", encoding="utf-8")
        hidden = answer("probe", "--snapshot", recording, environment=environment)[1]
        for part in ("schema", "host", "driver", "sources"):
            assert hidden[part] == expected[part], host


def test_who_asks_for_it_gets_everything_as_it_is(recording: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.json"
    gpuenv("probe", "--snapshot", recording, "--no-redact", "-o", whole, environment=WHO)
    assert json.loads(whole.read_text(encoding="utf-8")) == json.loads(recording.read_text(encoding="utf-8"))


def test_text_shows_no_secret_of_a_variable(recording: Path) -> None:
    text = gpuenv("probe", "--snapshot", recording, environment=WHO).stdout
    hidden = ("NVIDIA_API_KEY", "CUPY_TEST_TOKEN", "CUDA_SECRET", "NVIDIA_PASSWORD", "CUPY_INDEX", "CUPY_SIGNED")
    assert [name for name, _, secret in PLANTED if name in hidden and secret in text] == []


def test_text_on_standard_output_alone_names_who_and_where_and_readme_says_so(recording: Path, tmp_path: Path) -> None:
    """Whoever runs a command is to copy its paths; whoever hands its text on writes it to a file."""
    file = tmp_path / "facts.txt"
    printed = gpuenv("doctor", "--snapshot", recording, "--format", f"text={file}", environment=WHO).stdout
    assert HOME in printed
    written = file.read_text(encoding="utf-8")
    page = gpuenv("doctor", "--snapshot", recording, "--format", "markdown", environment=WHO).stdout
    assert [name for name in (USER, HOME, UUID) if name in written or name in page] == []
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())
    assert "all but text on standard output hide identities" in readme
    assert "Text on standard output hides tokens alone, also in a pipe or the log of a CI job: `-o FILE`" in readme


ELSEWHERE = "janedoe"


@pytest.mark.parametrize(
    "value",
    [
        f"/mnt/c/Users/{ELSEWHERE}/lib",
        f"/nfs/home/{ELSEWHERE}/lib",
        f"/u/home/j/{ELSEWHERE}/lib",
        f"/home/staff/{ELSEWHERE}/lib",
        rf"D:\Users\{ELSEWHERE}\lib",
        rf"c:\users\{ELSEWHERE}\lib",
        f"/c/Users/{ELSEWHERE}/lib",
        f"/home/{ELSEWHERE}/x:/scratch/{ELSEWHERE}/lib",
        f"/home/{ELSEWHERE}/x:/tmp/nvidia-mps-{ELSEWHERE}",
    ],
)
def test_homes_of_other_machines_are_hidden_wherever_they_lie(tmp_path: Path, value: str) -> None:
    """A paste and a recording are of somebody else: their names are known from the homes alone."""
    recording = record(changed(FIT, environment={"LD_LIBRARY_PATH": value}), tmp_path / "facts.json")
    assert in_all(answer("probe", "--snapshot", recording)[1], ELSEWHERE) == []
    written = tmp_path / "facts.txt"
    gpuenv("probe", "--snapshot", recording, "--format", "text", "-o", written)
    assert ELSEWHERE not in written.read_text(encoding="utf-8")


def test_a_name_that_a_home_gives_away_is_hidden_in_every_fact(tmp_path: Path) -> None:
    target = FIT.target._replace(executable=known(f"/scratch/{ELSEWHERE}/venv/bin/python", "the target's interpreter"))
    facts = changed(FIT, target=target, environment={"CUDA_HOME": f"/home/{ELSEWHERE}/cuda"})
    assert in_all(answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))[1], ELSEWHERE) == []


@pytest.mark.parametrize("user", ["cuda", "ubuntu", "python"])
def test_a_home_named_like_a_folder_of_software_changes_no_other_path(tmp_path: Path, user: str) -> None:
    variables = {"CUDA_HOME": f"/home/{user}/x", "CUDA_PATH": f"/usr/local/{user}"}
    _, shown = answer("probe", "--snapshot", record(changed(FIT, environment=variables), tmp_path / "facts.json"))
    assert shown["environment"]["CUDA_PATH"] == f"/usr/local/{user}"


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + "abcdefghijklmnopqrst",
        "ghp_" + "abcdefghijklmnopqrst",
        "nvapi-" + "abcdefghijklmnopqrst",
        "glpat-" + "abcdefghijklmnopqrst",
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl",
    ],
)
def test_a_token_is_known_by_its_beginning(tmp_path: Path, token: str) -> None:
    """Under a name that says nothing of a secret."""
    recording = record(changed(FIT, environment={"CUPY_MIRROR": f"of {token}"}), tmp_path / "facts.json")
    assert in_all(answer("probe", "--snapshot", recording)[1], token) == []
    assert token not in gpuenv("probe", "--snapshot", recording).stdout


def test_addresses_are_hidden_and_releases_are_not(tmp_path: Path) -> None:
    told = {"CUPY_A": "http://10.12.13.14/simple", "CUPY_B": "10.12.13.14:8080", "CUPY_C": "12.4.5.8"}
    facts = changed(FIT, environment=told, target=FIT.target._replace(packages={"nvidia-cublas-cu12": "12.4.5.8"}))
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    assert in_all(shown, "10.12.13.14") == []
    assert shown["environment"]["CUPY_C"] == shown["target"]["packages"]["nvidia-cublas-cu12"] == "12.4.5.8"


@pytest.mark.parametrize(
    "prompt", [f"{ELSEWHERE}@bigbox:~/proj$ ", f"(base) {ELSEWHERE}@bigbox:/data# ", f"[{ELSEWHERE}@bigbox proj]$ "]
)
def test_who_works_where_is_hidden_in_the_lines_that_explain_repeats(tmp_path: Path, prompt: str) -> None:
    text = tmp_path / "report.txt"
    text.write_text(
        f"{prompt}python x.py; ImportError: libcudart.so.12: cannot open shared object file\n", encoding="utf-8"
    )
    _, told = answer("explain", text)
    assert told["causes"]
    assert in_all(told, ELSEWHERE) + in_all(told, "bigbox") == []
