"""What identifies a person or a machine is planted everywhere, and looked for in what is shown to others."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.model.reading import known
from gpuenv.model.snapshot import (
    CupyInstallation,
    FileFault,
    FileState,
    JupyterKernel,
    Library,
    MigInstance,
    Toolkit,
)
from gpuenv.model.versions import CudaVersion
from gpuenv.simulate.build import StubDriver, lay_out
from tests.cli.program import answer, gpuenv
from tests.cli.recorded import FIT, UNFIT, UUID, changed, record

if TYPE_CHECKING:
    from collections.abc import Mapping

USER = "jorinde-weber"
HOME = f"/srv/people/{USER}"
HOST = "hexe-gpu-17"
MIG = "MIG-3d4db13e-c42d-5555-98f4-8b50389791bc"
OTHER = "GPU-48aeb943-9458-4282-da24-e5f49e0db44b"
WHO = {"HOME": HOME, "USER": USER, "LOGNAME": USER, "LNAME": USER, "USERNAME": USER}

# Variable, value, and the part of it that nobody may see.
PLANTED = [
    ("CUDA_PATH", f"{HOME}/cuda-12.4", USER),
    ("CUDA_HOME", "/home/nobody-else/cuda", "nobody-else"),
    ("CUPY_CACHE_DIR", f"/scratch/{USER}/cupy", USER),
    ("LD_LIBRARY_PATH", f"/opt/lib:{HOME}/lib:/home/third/lib", "third"),
    ("PYTHONPATH", f"{HOME}", USER),
    ("NVIDIA_API_KEY", "nvapi-Zm9vYmFyYmF6cXV4", "nvapi-Zm9v"),
    ("CUPY_TEST_TOKEN", "ghp_abcdefgh12345678", "ghp_abcdefgh"),
    ("CUDA_SECRET", "s3cr3t-value", "s3cr3t-value"),
    ("NVIDIA_PASSWORD", "hunter2hunter2", "hunter2"),
    ("CUPY_INDEX", "https://me:p4ssw0rd@pypi.example/simple", "p4ssw0rd"),
    ("CUPY_MIRROR", "git+https://x-token-123@git.example/cupy.git", "x-token-123"),
    ("CUPY_SIGNED", "https://bucket.example/w.whl?x=1&token=t0k3n-abc&y=2", "t0k3n-abc"),
]
# What an index or a store calls its secrets.
IN_QUERIES = ["api_key", "apikey", "auth_token", "X-Amz-Signature", "X-Goog-Signature", "sig", "client_secret", "pwd"]


def in_all(data: Any, wanted: str) -> list[str]:  # noqa: ANN401 - JSON
    """Every text of an output in which something stands."""
    texts = re.findall(r'"((?:[^"\\]|\\.)*)"', json.dumps(data, ensure_ascii=False))
    return [text for text in texts if wanted in text]


@pytest.fixture
def machine(tmp_path: Path, stub_driver: StubDriver) -> Mapping[str, str]:
    """The environment of a machine with two GPUs, on which this user works."""
    lay_out(stub_driver, tmp_path / "driver", "550.54.15", with_smi=True)
    (tmp_path / "root").mkdir()
    profile = {
        "driver.version": "550.54.15",
        "driver.cuda": "12040",
        "gpu.count": "2",
        "gpu.0.uuid": UUID,
        "gpu.1.uuid": OTHER,
        "gpu.1.mig": "1",
        "gpu.1.mig.count": "1",
        "gpu.1.mig.0.uuid": MIG,
    }
    table = tmp_path / "stub.txt"
    table.write_text("".join(f"{key}={value}\n" for key, value in profile.items()), encoding="utf-8")
    return {
        **WHO,
        "PATH": f"{tmp_path}/driver:{os.defpath}",
        "LD_LIBRARY_PATH": str(tmp_path / "driver"),
        "GPUENV_STUB": str(table),
        "GPUENV_DRIVER_ROOT": str(tmp_path / "root"),
    }


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A machine with somebody's folders, variables and GPUs in each of its facts."""
    target = replace(
        UNFIT.target,
        executable=known(f"{HOME}/envs/cupy/bin/python3", "the target's interpreter"),
        prefix=known(f"{HOME}/envs/cupy", "the target's interpreter"),
        cupy=(CupyInstallation("cupy-cuda12x", "14.2.0", f"{HOME}/envs/cupy/lib/python3.12/site-packages"),),
        cupy_module=known(f"{HOME}/work/cupy.py", "the target's import system"),
        user_site=known(f"{HOME}/.local/lib/python3.12/site-packages", "the target's interpreter"),
        libraries=(
            Library("nvrtc", "libnvrtc.so.12", f"/home/{USER}/lib/libnvrtc.so.12", "loader"),
            Library("cufft", "libcufft.so.11", error=f"{HOME}/lib/libcufft.so.11: file too short"),
        ),
        cuda_path=known(f"{HOME}/cuda-12.4", "CuPy's own code"),
        headers=known((f"{HOME}/cuda-12.4/include", f"/home/{USER}/include"), "CuPy's own code"),
        headers_cuda=known(CudaVersion(12, 4), f"{HOME}/cuda-12.4/include/cuda_runtime_api.h"),
        file_faults=(FileFault(f"{HOME}/envs/cupy/cupy/_core/core.so", FileState.MISSING, ("cupy-cuda12x",)),),
        file_faults_count=known(1, "RECORD"),
        kernels=(JupyterKernel("python3", f"{HOME}/envs/cupy/bin/python"),),
    )
    gpu = replace(UNFIT.gpus[0], mig_instances=(MigInstance(MIG, "MIG 1g.10gb"),))
    facts = changed(
        UNFIT,
        target=target,
        gpus=(gpu,),
        toolkits=(Toolkit(f"{HOME}/cuda-12.4", "CUDA_PATH"),),
        environment={name: value for name, value, _ in PLANTED} | {"CUDA_VISIBLE_DEVICES": f"{UUID},{MIG}"},
    )
    return record(facts, tmp_path / "recording.json")


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
    target = replace(FIT.target, executable=known(f"/net/{HOST}/envs/cupy/bin/python3", "the target's interpreter"))
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


def test_the_same_gpu_has_the_same_pseudonym_wherever_it_is_named(recording: Path, tmp_path: Path) -> None:
    _, shown = answer("probe", "--snapshot", recording, environment=WHO)
    gpu = shown["gpus"][0]["uuid"]["value"]
    instance = shown["gpus"][0]["mig_instances"][0]["uuid"]
    assert shown["environment"]["CUDA_VISIBLE_DEVICES"] == f"{gpu},{instance}"
    assert gpu.startswith("GPU-")
    assert instance.startswith("MIG-")
    assert len(gpu) == len(UUID)
    another = record(changed(FIT, environment={"CUDA_VISIBLE_DEVICES": OTHER}), tmp_path / "another.json")
    _, second = answer("probe", "--snapshot", another)
    assert second["gpus"][0]["uuid"]["value"] == gpu, "in another recording too"
    assert second["environment"]["CUDA_VISIBLE_DEVICES"] not in (gpu, OTHER)


@pytest.mark.parametrize(
    ("length", "case"),
    [
        (40, str.lower),
        (36, str.upper),
        (13, str.lower),
        (12, str.upper),
        (8, str.lower),
        pytest.param(6, str.lower),
    ],
)
def test_the_beginning_of_a_uuid_stays_the_beginning_of_its_pseudonym(
    tmp_path: Path,
    length: int,
    case: Any,  # noqa: ANN401 - str's own functions
) -> None:
    """CUDA takes any beginning that fits one GPU alone."""
    named = "GPU-" + case(UUID[4:length])
    facts = changed(FIT, environment={"CUDA_VISIBLE_DEVICES": named})
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    told = shown["environment"]["CUDA_VISIBLE_DEVICES"]
    assert shown["gpus"][0]["uuid"]["value"].startswith(told)
    assert len(told) == length
    assert told != named


def test_a_word_that_begins_like_a_uuid_stays_as_it_is(tmp_path: Path) -> None:
    facts = changed(FIT, environment={"CUPY_NOTE": "a GPU-enabled node", "CUDA_VISIBLE_DEVICES": UUID[:5]})
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    assert shown["environment"]["CUPY_NOTE"] == "a GPU-enabled node"
    assert shown["gpus"][0]["uuid"]["value"].startswith(shown["environment"]["CUDA_VISIBLE_DEVICES"])


def test_uuids_of_old_drivers_are_hidden_too(tmp_path: Path) -> None:
    facts = changed(FIT, environment={"CUDA_VISIBLE_DEVICES": f"MIG-{UUID}/1/0", "NVIDIA_VISIBLE_DEVICES": UUID[4:]})
    _, shown = answer("probe", "--snapshot", record(facts, tmp_path / "facts.json"))
    assert in_all(shown["environment"]["CUDA_VISIBLE_DEVICES"], UUID[4:]) == []


def test_what_is_hidden_once_stays_as_it_is(recording: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.json", tmp_path / "twice.json"
    gpuenv("probe", "--snapshot", recording, "-o", once, environment=WHO)
    gpuenv("probe", "--snapshot", once, "-o", twice, environment=WHO)
    assert once.read_text(encoding="utf-8") == twice.read_text(encoding="utf-8")
    assert once.read_text(encoding="utf-8") != recording.read_text(encoding="utf-8")


def test_a_recording_without_identities_has_the_same_verdict(recording: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.json"
    gpuenv("probe", "--snapshot", recording, "-o", hidden, environment=WHO)
    one, other = (answer("doctor", "--snapshot", path, environment=WHO) for path in (recording, hidden))
    assert one[0] == other[0] == 1
    assert _without_time(one[1]) == _without_time(other[1])


def test_this_machine_s_report_is_replayed_with_the_same_verdict(machine: Mapping[str, str], tmp_path: Path) -> None:
    """The variable names one of two GPUs by the beginning of its UUID."""
    report = tmp_path / "report.json"
    environment = {**machine, "CUDA_VISIBLE_DEVICES": UUID[:12]}
    first = gpuenv("doctor", "--format", "json", "-o", report, environment=environment)
    again = answer("doctor", "--snapshot", report)
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["snapshot"]["visible_count"]["value"] == 1
    assert again[0] == first.returncode
    assert _without_time(again[1]) == _without_time(written)


def _without_time(report: dict[str, Any]) -> dict[str, Any]:
    checks = [{**run, "duration": 0} for run in report["checks"]]
    return {**report, "duration": 0, "checks": checks}


def test_who_asks_for_it_gets_everything_as_it_is(recording: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.json"
    gpuenv("probe", "--snapshot", recording, "--no-redact", "-o", whole, environment=WHO)
    assert json.loads(whole.read_text(encoding="utf-8")) == json.loads(recording.read_text(encoding="utf-8"))


def test_text_shows_no_secret_of_a_variable(recording: Path) -> None:
    text = gpuenv("probe", "--snapshot", recording, environment=WHO).stdout
    hidden = ("NVIDIA_API_KEY", "CUPY_TEST_TOKEN", "CUDA_SECRET", "NVIDIA_PASSWORD", "CUPY_INDEX", "CUPY_SIGNED")
    assert [name for name, _, secret in PLANTED if name in hidden and secret in text] == []


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
    target = replace(FIT.target, executable=known(f"/scratch/{ELSEWHERE}/venv/bin/python", "the target's interpreter"))
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
    facts = changed(FIT, environment=told, target=replace(FIT.target, packages={"nvidia-cublas-cu12": "12.4.5.8"}))
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
