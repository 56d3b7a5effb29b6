"""Redacted output contains no identity of a user or a machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.model.reading import known
from gpuenv.simulate.stub_driver import StubDriver
from tests.cli.identities import (
    HOME,
    HOST,
    MIG,
    OTHER_UUID,
    SECRETS,
    USER,
    USER_ENVIRONMENT,
    texts_containing,
    without_commands,
)
from tests.cli.program import answer, gpuenv
from tests.cli.snapshots import FIT, UNFIT, UUID, replace_facts, write_snapshot
from tests.probe.venvs import make_venv

if TYPE_CHECKING:
    from collections.abc import Mapping

# Names of secrets in URLs of indexes and object stores.
QUERY_PARAMETERS = [
    "api_key",
    "apikey",
    "auth_token",
    "X-Amz-Signature",
    "X-Goog-Signature",
    "sig",
    "client_secret",
    "pwd",
]


def test_a_replayed_snapshot_shows_no_identity_of_its_user(snapshot_file: Path) -> None:
    for command in ("doctor", "probe", "resolve"):
        _, output = answer(command, "--snapshot", snapshot_file, environment=USER_ENVIRONMENT)
        output = without_commands(output)
        for name, _, secret in SECRETS:
            assert texts_containing(output, secret) == [], name
        for identity in (USER, HOME, UUID, MIG, UUID[4:], MIG[4:]):
            assert texts_containing(output, identity) == []


def test_commands_on_standard_output_run_and_those_in_a_file_hide_the_home(tmp_path: Path) -> None:
    home = tmp_path / USER
    folder = make_venv(home / "env")
    (folder / "pyvenv.cfg").unlink()
    environment = {"HOME": str(home), "USER": USER, "GPUENV_DRIVER_ROOT": str(tmp_path / "root")}
    file = tmp_path / "report.json"
    _, output = answer("doctor", "--python", folder, "--format", f"json={file}", environment=environment)
    written = json.loads(file.read_text(encoding="utf-8"))
    command, hidden = (_fix_of("ENV401", report)["command"] for report in (output, written))
    assert command[-1] == str(folder)
    assert texts_containing(hidden, USER) == []
    assert hidden[-1] == "~/env"
    subprocess.run(command, check=True)
    assert (folder / "pyvenv.cfg").is_file()


def _fix_of(code: str, report: dict[str, Any]) -> dict[str, Any]:
    """The first fix of a finding."""
    return next(finding["fix"][0] for finding in report["findings"] if finding["code"] == code)


@pytest.mark.parametrize("command", ["probe", "doctor"])
def test_a_probed_machine_shows_no_identity_of_its_user(machine: Mapping[str, str], command: str) -> None:
    variables = {name: value for name, value, _ in SECRETS if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    environment = {**machine, **variables, "CUDA_VISIBLE_DEVICES": f"{UUID},{OTHER_UUID}"}
    _, output = answer(command, environment=environment)
    snapshot = output if command == "probe" else output["snapshot"]
    assert len(snapshot["gpus"]) == 2, snapshot["sources"]
    assert snapshot["gpus"][1]["mig_instances"]
    for name, _, secret in SECRETS:
        assert texts_containing(output, secret) == [], name
    for identity in (USER, HOME, UUID, OTHER_UUID, MIG, UUID[4:], OTHER_UUID[4:], MIG[4:]):
        assert texts_containing(output, identity) == []


def test_the_kernel_log_and_the_grant_show_no_identity(machine: Mapping[str, str]) -> None:
    """Hosts, boards and folders in syslog; users, jobs and UUIDs in the variables of a scheduler."""
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
    _, output = answer("probe", environment=environment)
    assert len(output["kernel_log"]["value"]) == 3
    assert output["grant"]["devices"]["value"][0].startswith("GPU-")
    for identity in (USER, HOME, HOST, UUID, UUID[4:], "0322917021132", "p4ssw0rd", "my-secret-project"):
        assert texts_containing(output, identity) == []


def test_values_without_a_secret_are_unchanged(snapshot_file: Path) -> None:
    _, output = answer("probe", "--snapshot", snapshot_file, environment=USER_ENVIRONMENT)
    assert output["target"]["executable"]["value"] == "~/envs/cupy/bin/python3"
    assert output["environment"]["CUPY_INDEX"].endswith("@pypi.example/simple")
    assert "x=1" in output["environment"]["CUPY_SIGNED"]
    assert "y=2" in output["environment"]["CUPY_SIGNED"]
    assert output["environment"]["LD_LIBRARY_PATH"].startswith("/opt/lib:~/lib:/home/")
    assert output["driver"]["version"]["value"] == "470.161.03"
    assert output["gpus"][0]["name"]["value"] == "NVIDIA A100-SXM4-80GB"
    assert set(output["environment"]) == {name for name, _, _ in SECRETS} | {"CUDA_VISIBLE_DEVICES"}


def test_secrets_in_the_query_of_a_url_are_hidden(tmp_path: Path) -> None:
    urls = {
        f"CUPY_URL{n}": f"https://a.example/w.whl?v=1&{name}=t0p-s3cr3t&w=2" for n, name in enumerate(QUERY_PARAMETERS)
    }
    _, output = answer(
        "probe", "--snapshot", write_snapshot(replace_facts(FIT, environment=urls), tmp_path / "facts.json")
    )
    assert len(texts_containing(output, "v=1")) == len(QUERY_PARAMETERS)
    assert texts_containing(output, "t0p-s3cr3t") == []


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
def test_passwords_with_special_characters_are_hidden(tmp_path: Path, password: str) -> None:
    facts = replace_facts(FIT, environment={"CUPY_URL": f"https://me:{password}-end@pypi.example/simple"})
    _, output = answer("probe", "--snapshot", write_snapshot(facts, tmp_path / "facts.json"))
    assert texts_containing(output, "-end") == []
    assert texts_containing(output, "pypi.example/simple")


@pytest.fixture
def named_host(tmp_path: Path, stub_driver: StubDriver) -> Mapping[str, str]:
    """The environment of a machine named HOST."""
    table = tmp_path / "stub.txt"
    table.write_text(f"host.node={HOST}\n", encoding="utf-8")
    return {"LD_PRELOAD": str(stub_driver.uname), "GPUENV_STUB": str(table)}


def test_the_host_name_is_hidden(tmp_path: Path, named_host: Mapping[str, str]) -> None:
    environment = {
        "CUPY_CACHE_DIR": f"/net/{HOST}/cache",
        "CUPY_HOST": HOST,
        "CUPY_URL": f"http://{HOST}.cluster:8080/simple",
    }
    snapshot_file = write_snapshot(replace_facts(FIT, environment=environment), tmp_path / "facts.json")
    assert texts_containing(answer("probe", "--snapshot", snapshot_file)[1], HOST), (
        "on another host it is a word like any other"
    )
    assert texts_containing(answer("probe", "--snapshot", snapshot_file, environment=named_host)[1], HOST) == []


def test_the_host_name_is_hidden_in_a_path(tmp_path: Path, named_host: Mapping[str, str]) -> None:
    target = FIT.target._replace(executable=known(f"/net/{HOST}/envs/cupy/bin/python3", "the target's interpreter"))
    snapshot_file = write_snapshot(replace_facts(FIT, target=target), tmp_path / "facts.json")
    assert texts_containing(answer("probe", "--snapshot", snapshot_file, environment=named_host)[1], HOST) == []


def test_a_host_named_like_a_keyword_of_the_snapshot_changes_no_fact(tmp_path: Path, stub_driver: StubDriver) -> None:
    table = tmp_path / "stub.txt"
    snapshot_file = write_snapshot(UNFIT, tmp_path / "facts.json")
    environment = {"LD_PRELOAD": str(stub_driver.uname), "GPUENV_STUB": str(table)}
    expected = answer("probe", "--snapshot", snapshot_file)[1]
    for host in ("nvml", "ubuntu", "answered"):
        table.write_text(f"host.node={host}\n", encoding="utf-8")
        hidden = answer("probe", "--snapshot", snapshot_file, environment=environment)[1]
        for part in ("schema", "host", "driver", "sources"):
            assert hidden[part] == expected[part], host


def test_no_redact_writes_all_values_unchanged(snapshot_file: Path, tmp_path: Path) -> None:
    unredacted = tmp_path / "whole.json"
    gpuenv("probe", "--snapshot", snapshot_file, "--no-redact", "-o", unredacted, environment=USER_ENVIRONMENT)
    assert json.loads(unredacted.read_text(encoding="utf-8")) == json.loads(snapshot_file.read_text(encoding="utf-8"))


def test_text_shows_no_secret_in_a_variable(snapshot_file: Path) -> None:
    text = gpuenv("probe", "--snapshot", snapshot_file, environment=USER_ENVIRONMENT).stdout
    hidden = ("NVIDIA_API_KEY", "CUPY_TEST_TOKEN", "CUDA_SECRET", "NVIDIA_PASSWORD", "CUPY_INDEX", "CUPY_SIGNED")
    assert [name for name, _, secret in SECRETS if name in hidden and secret in text] == []


def test_only_text_on_standard_output_shows_identities(snapshot_file: Path, tmp_path: Path) -> None:
    """The user needs real paths to copy; text for others goes to a file. The documentation says so."""
    file = tmp_path / "facts.txt"
    printed = gpuenv(
        "doctor", "--snapshot", snapshot_file, "--format", f"text={file}", environment=USER_ENVIRONMENT
    ).stdout
    assert HOME in printed
    written = file.read_text(encoding="utf-8")
    page = gpuenv("doctor", "--snapshot", snapshot_file, "--format", "markdown", environment=USER_ENVIRONMENT).stdout
    assert [name for name in (USER, HOME, UUID) if name in written or name in page] == []
    formats = " ".join((Path(__file__).parents[2] / "docs/reference/formats.md").read_text(encoding="utf-8").split())
    assert "Files, and every format but text, hide identities" in formats
    assert "Text on standard output hides only tokens, also in a pipe or the log of a CI job." in formats
    assert "To share text, write it with `-o FILE`." in formats


OTHER_USER = "janedoe"


@pytest.mark.parametrize(
    "value",
    [
        f"/mnt/c/Users/{OTHER_USER}/lib",
        f"/nfs/home/{OTHER_USER}/lib",
        f"/u/home/j/{OTHER_USER}/lib",
        f"/home/staff/{OTHER_USER}/lib",
        rf"D:\Users\{OTHER_USER}\lib",
        rf"c:\users\{OTHER_USER}\lib",
        f"/c/Users/{OTHER_USER}/lib",
        f"/home/{OTHER_USER}/x:/scratch/{OTHER_USER}/lib",
        f"/home/{OTHER_USER}/x:/tmp/nvidia-mps-{OTHER_USER}",
    ],
)
def test_home_directories_of_other_machines_are_hidden(tmp_path: Path, value: str) -> None:
    """In a paste or a snapshot of another machine, user names are known only from home directories."""
    snapshot_file = write_snapshot(replace_facts(FIT, environment={"LD_LIBRARY_PATH": value}), tmp_path / "facts.json")
    assert texts_containing(answer("probe", "--snapshot", snapshot_file)[1], OTHER_USER) == []
    written = tmp_path / "facts.txt"
    gpuenv("probe", "--snapshot", snapshot_file, "--format", "text", "-o", written)
    assert OTHER_USER not in written.read_text(encoding="utf-8")


def test_a_user_name_from_a_home_directory_is_hidden_in_every_fact(tmp_path: Path) -> None:
    target = FIT.target._replace(executable=known(f"/scratch/{OTHER_USER}/venv/bin/python", "the target's interpreter"))
    facts = replace_facts(FIT, target=target, environment={"CUDA_HOME": f"/home/{OTHER_USER}/cuda"})
    assert (
        texts_containing(answer("probe", "--snapshot", write_snapshot(facts, tmp_path / "facts.json"))[1], OTHER_USER)
        == []
    )


@pytest.mark.parametrize("user", ["cuda", "ubuntu", "python"])
def test_a_user_named_like_a_software_folder_changes_no_other_path(tmp_path: Path, user: str) -> None:
    variables = {"CUDA_HOME": f"/home/{user}/x", "CUDA_PATH": f"/usr/local/{user}"}
    _, output = answer(
        "probe", "--snapshot", write_snapshot(replace_facts(FIT, environment=variables), tmp_path / "facts.json")
    )
    assert output["environment"]["CUDA_PATH"] == f"/usr/local/{user}"


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
def test_a_token_is_recognized_by_its_prefix(tmp_path: Path, token: str) -> None:
    """Also in a variable whose name does not suggest a secret."""
    snapshot_file = write_snapshot(
        replace_facts(FIT, environment={"CUPY_MIRROR": f"of {token}"}), tmp_path / "facts.json"
    )
    assert texts_containing(answer("probe", "--snapshot", snapshot_file)[1], token) == []
    assert token not in gpuenv("probe", "--snapshot", snapshot_file).stdout


def test_ip_addresses_are_hidden_and_releases_are_not(tmp_path: Path) -> None:
    environment = {"CUPY_A": "http://10.12.13.14/simple", "CUPY_B": "10.12.13.14:8080", "CUPY_C": "12.4.5.8"}
    facts = replace_facts(
        FIT, environment=environment, target=FIT.target._replace(packages={"nvidia-cublas-cu12": "12.4.5.8"})
    )
    _, output = answer("probe", "--snapshot", write_snapshot(facts, tmp_path / "facts.json"))
    assert texts_containing(output, "10.12.13.14") == []
    assert output["environment"]["CUPY_C"] == output["target"]["packages"]["nvidia-cublas-cu12"] == "12.4.5.8"


@pytest.mark.parametrize(
    "prompt", [f"{OTHER_USER}@bigbox:~/proj$ ", f"(base) {OTHER_USER}@bigbox:/data# ", f"[{OTHER_USER}@bigbox proj]$ "]
)
def test_the_shell_prompt_is_hidden_in_lines_that_explain_quotes(tmp_path: Path, prompt: str) -> None:
    text = tmp_path / "report.txt"
    text.write_text(
        f"{prompt}python x.py; ImportError: libcudart.so.12: cannot open shared object file\n", encoding="utf-8"
    )
    _, explanation = answer("explain", text)
    assert explanation["causes"]
    assert texts_containing(explanation, OTHER_USER) + texts_containing(explanation, "bigbox") == []
