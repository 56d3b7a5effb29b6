"""``gpuenv check-image``: exit codes, formats, several machines."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import jsonschema
import pytest

from gpuenv.data import data_path
from gpuenv.matrix.assume import assume
from gpuenv.matrix.load import load
from gpuenv.model.snapshot import Snapshot
from tests.cli.program import answer, gpuenv
from tests.cli.snapshots import write_snapshot
from tests.image.admission import rows
from tests.image.layouts import Made, layout
from tests.image.registry_server import serving
from tests.report.readers import sarif

if TYPE_CHECKING:
    from pathlib import Path

TEXT_12_9 = next(row.text for row in rows() if row.image == "12.9.1")
IMAGE = Made({"CUDA_VERSION": "12.9.1", "NVIDIA_REQUIRE_CUDA": TEXT_12_9, "NVIDIA_VISIBLE_DEVICES": "all"})
H100 = ("--no-probe", "--assume", "arch=x86_64", "--assume", "gpu=H100")
FITS, REFUSED = (*H100, "--assume", "driver=580"), (*H100, "--assume", "driver=545")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return layout(tmp_path / "image", IMAGE, Made(IMAGE.environment, architecture="arm64"))


def recorded(path: Path, *assumptions: str) -> Path:
    return write_snapshot(assume(Snapshot(), assumptions, load(data_path("matrix.yaml"))), path)


def test_the_exit_code_is_the_verdict(folder: Path) -> None:
    assert gpuenv("check-image", folder, *FITS).returncode == 0
    refused = gpuenv("check-image", folder, *REFUSED)
    assert refused.returncode == 1
    assert "IMG902 image-requires-other-driver" in refused.stdout
    assert "What would have to change" in refused.stdout
    unknown = gpuenv("check-image", folder, "--no-probe")
    assert unknown.returncode == 8
    assert "not known" in unknown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected an image or --dockerfile"),
        (("a", "--dockerfile", "b"), "one of the two"),
        (("a", "--target", "b"), "go with --dockerfile"),
        (("A:1", "--no-probe"), "not a name of an image"),
        (("a:1", "--no-probe", "--platform", "x/y/z/w"), "--platform"),
        (("a:1", "--format", "junit"), "one of text, json, sarif"),
        (("--dockerfile", "/nonexistent/Dockerfile"), "No such file"),
        (("--dockerfile", "/"), "is a folder"),
        (("--dockerfile", "b", "--platform", "nonsense/x/y/z"), "go with an image"),
        (("--dockerfile", "b", "--from", "engine"), "go with an image"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], message: str) -> None:
    done = gpuenv("check-image", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_the_json_report_follows_its_schema(folder: Path, tmp_path: Path) -> None:
    schema = json.loads(gpuenv("schema", "image").stdout)
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM nvidia/cuda\nRUN pip install cupy\n")
    for arguments, expected in (
        (("check-image", folder, *REFUSED), 1),
        (("check-image", folder, *FITS), 0),
        (("check-image", "--dockerfile", dockerfile), 1),
        (("check-image", "--dockerfile", dockerfile, *FITS), 1),
    ):
        code, report = answer(*arguments)
        assert (code, report["exit_code"], report["schema"]) == (expected, expected, "gpuenv.image/1")
        jsonschema.validate(report, schema)
        assert sum(finding["primary"] for finding in report["findings"]) == (1 if expected else 0)


def test_each_machine_has_a_verdict(folder: Path, tmp_path: Path) -> None:
    new = recorded(tmp_path / "new.json", "arch=x86_64", "driver=580", "gpu=H100")
    old = recorded(tmp_path / "old.json", "arch=x86_64", "driver=545", "gpu=H100")
    arm = recorded(tmp_path / "arm.json", "arch=aarch64", "driver=580", "gpu=GH200")
    options = [part for path in (new, old, arm) for part in ("--snapshot", path)]
    code, report = answer("check-image", folder, *options)
    assert code == 1
    assert report["runs_on"] == [str(new), str(arm)]
    assert [machine["platform"] for machine in report["machines"]] == ["linux/amd64", "linux/amd64", "linux/arm64"]
    assert {finding["machine"] for finding in report["findings"]} == {str(old)}
    text = gpuenv("check-image", folder, *options).stdout
    assert "runs on 2 of 3 machines" in text


def test_the_sarif_log_names_lines(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.12-slim\nRUN true \\\n && pip install cupy\n")
    done = gpuenv("check-image", "--dockerfile", "Dockerfile", "--format", "sarif", cwd=tmp_path)
    assert done.returncode == 1
    log = json.loads(done.stdout)
    sarif().validate(log)
    (run,) = log["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("DKF906", "error")
    assert place == {"artifactLocation": {"uri": "Dockerfile"}, "region": {"startLine": 3}}
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["DKF906"]


def test_a_dockerfile_is_checked_on_a_named_machine(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text('FROM python:3.12-slim\nRUN pip install "cupy-cuda13x[ctk]==14.2.0"\n')
    assert gpuenv("check-image", "--dockerfile", path).returncode == 0
    assert gpuenv("check-image", "--dockerfile", path, *FITS).returncode == 0
    refused = gpuenv("check-image", "--dockerfile", path, *REFUSED)
    assert refused.returncode == 1
    assert "driver-too-old-for-cuda" in refused.stdout


def test_an_image_is_read_from_its_registry() -> None:
    with serving(IMAGE) as served:
        code, report = answer("check-image", served.name, *FITS, "--from", "registry")
        assert code == 0
        assert report["images"][0]["source"] == "registry"
        gone = gpuenv("check-image", f"{served.name[:-1]}9", *FITS)
        assert gone.returncode == 2
        assert "no such image" in gone.stderr
        offline = gpuenv("check-image", served.name, *FITS, "--offline")
        assert offline.returncode == 8
        assert "network may not be used" in offline.stderr


def test_an_image_that_cannot_be_fetched_is_unknown_in_every_format(tmp_path: Path) -> None:
    """No engine has the image, and the network is forbidden: code 8, with a report."""
    page = tmp_path / "page.sarif"
    where = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock", "PATH": str(tmp_path)}
    words = ("check-image", "foo/bar", *FITS, "--offline")
    done = gpuenv(*words, "--format", "json", "--format", f"sarif={page}", environment=where)
    report = json.loads(done.stdout)
    assert (done.returncode, report["exit_code"], report["status"]) == (8, 8, "unknown")
    (machine,) = report["machines"]
    assert (machine["status"], report["runs_on"], report["images"], report["findings"]) == ("unknown", [], [], [])
    assert "the network may not be used" in machine["unknown"][0]
    assert machine["driver"]
    jsonschema.Draft202012Validator(json.loads(gpuenv("schema", "image").stdout)).validate(report)
    (run,) = json.loads(page.read_text(encoding="utf-8"))["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert "network may not be used" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    text = gpuenv(*words, environment=where)
    assert text.stdout.startswith("UNKNOWN: foo/bar ")
    assert "not known: foo/bar:latest: the engine at" in " ".join(text.stdout.split())
    assert "leave out --offline and --from engine" in " ".join(text.stderr.split())


def test_an_engine_that_hangs_does_not_keep_the_registry_from_answering(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with closing(socket.socket(socket.AF_UNIX)) as listener, serving(IMAGE) as served:
        listener.bind(str(path))
        listener.listen(8)
        done = gpuenv(
            *("check-image", served.name, *FITS),
            environment={"DOCKER_HOST": f"unix://{path}", "PATH": os.environ["PATH"]},
        )
        assert done.returncode == 0, done.stderr
        assert "the engine at" in done.stderr


def test_control_characters_of_an_image_are_escaped(tmp_path: Path) -> None:
    words = "\x1b[2J\r\n\u202egpuenv: fit"
    folder = layout(tmp_path / "i", Made({"NVIDIA_REQUIRE_X": words, "CUDA_VERSION": words}, {"io.gpuenv.cuda": words}))
    done = gpuenv("check-image", folder, *FITS)
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    code, _ = answer("check-image", folder, *FITS)
    assert code == done.returncode == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_ssl_cert_file_names_a_trusted_certificate(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=loop"]
        + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(IMAGE, tls=context) as served:
        refused = gpuenv("check-image", served.name, *FITS)
        assert refused.returncode == 8
        assert "certificate is not trusted" in refused.stderr
        trusted = gpuenv("check-image", served.name, *FITS, environment={"SSL_CERT_FILE": str(certificate)})
        assert trusted.returncode == 0, trusted.stderr
