"""``gpuenv build-image`` without an engine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.cli.program import answer, gpuenv
from tests.cli.snapshots import FIT, write_snapshot
from tests.install.sandbox import Index
from tests.install.wheels import SET, make_wheel

PRINT = ("build-image", "--print", "--no-probe")


def test_a_dockerfile_is_printed() -> None:
    done = gpuenv(*PRINT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# CuPy ")
    assert done.stdout.count("\nFROM python:3.") == 2
    assert "USER 10001:10001" in done.stdout


@pytest.mark.parametrize(("kind", "count"), [("wheels", 1), ("runtime", 1), ("devel", 1)])
def test_each_kind_has_its_base(kind: str, count: int) -> None:
    done = gpuenv(*PRINT, "--kind", kind, "--cuda", "v12.9")
    named = {"wheels": "python:", "runtime": "nvidia/cuda:12.9.2-runtime-", "devel": "nvidia/cuda:12.9.2-devel-"}
    assert done.returncode == 0
    assert done.stdout.count("# CuPy") == count
    assert f"FROM {named[kind]}" in done.stdout


def test_all_plans_are_one_json_object(tmp_path: Path) -> None:
    code, report = answer(*PRINT, "--all")
    assert (code, report["schema"]) == (0, "gpuenv.plan/1")
    assert len(report["images"]) > 30
    assert len({image["tag"] for image in report["images"]}) == len(report["images"])
    assert any("CUDA 10.2" in reason for reason in report["left_out"])
    (tmp_path / "plan.json").write_text(json.dumps(report))
    schema = json.loads(gpuenv("schema", "plan").stdout)
    jsonschema.Draft202012Validator(schema).validate(report)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"schema": "gpuenv.plan/1"})


def test_several_plans_are_a_table(tmp_path: Path) -> None:
    for package in SET:
        make_wheel(tmp_path, package)
    own = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none"}
    words = ("build-image", "--dry-run", "--no-probe", "--cuda", "12.9", "--kind", "wheels", "--kind", "devel")
    done = gpuenv(*words, environment=own)
    head, first, second, _, last = done.stdout.splitlines()
    assert head.split() == ["image", "cupy", "driver", "compute", "capability"]
    assert first.startswith("wheels-cuda12.9-cupy14.2.0-py3.")
    assert second.startswith("devel-cuda12.9-cupy14.2.0-py3.12")
    assert last == "2 images of gpuenv-cupy: --verbose for the whole plans"
    assert max(map(len, done.stdout.splitlines())) <= 80
    whole = gpuenv(*words, "--verbose", environment=own).stdout
    assert whole.count("  wheels     cu") == 2


def test_names_and_files_are_not_redacted() -> None:
    """Scripts build, push and pull by them."""
    own, tag = "10.1.2.3:5000/own/image:1", "10.1.2.3:5000/team/cupy:1"
    words = (*PRINT, "--base", own, "--tag", tag, "--python", "3.12", "--cuda", "12.9")
    code, report = answer(*words)
    image = report["images"][0]
    assert (code, image["tag"], image["choice"]["base"]["reference"]) == (0, tag, own)
    assert image["labels"]["org.opencontainers.image.base.name"] == own
    assert image["dockerfile"] == gpuenv(*words).stdout


def test_the_image_is_for_the_recorded_machine(tmp_path: Path) -> None:
    recording = write_snapshot(FIT, tmp_path / "fit.json")
    code, report = answer("build-image", "--print", "--snapshot", recording)
    assert code == 0
    assert report["images"][0]["choice"]["stated"]
    assert gpuenv("build-image", "--print", "--snapshot", recording, "--no-probe").returncode == 2


def test_the_dockerfile_is_reproducible() -> None:
    assert gpuenv(*PRINT).stdout == gpuenv(*PRINT).stdout
    other = gpuenv(*PRINT, environment={"SOURCE_DATE_EPOCH": "1700000000"}).stdout
    assert "ARG SOURCE_DATE_EPOCH=1700000000\n" in other


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--cuda", "11.8"), 3, "from 14.0 on"),
        (("--cupy", "9.9.9"), 3, "CuPy 9.9.9"),
        (("--assume", "driver=470.57.02", "--assume", "gpu=K80", "--cuda", "13.0"), 3, "needs"),
        (("--cuda", "twelve"), 2, "gpuenv: --cuda twelve: "),
        (("--cupy", "cupy>=14"), 2, "gpuenv: --cupy cupy>=14: expected a release"),
        (("--python", "two"), 2, "gpuenv: --python two: "),
        (("--arch", "sparc"), 2, "gpuenv: --arch sparc: "),
        (("--base", "A B"), 2, "gpuenv: --base A B: "),
        (("--tag", "A:b"), 2, "gpuenv: --tag A:b: "),
        (("--tag", "a@sha256:" + "0" * 64), 2, "a digest cannot be set"),
        (("--compute-capability", "x"), 2, "gpuenv: --compute-capability x: "),
        (("--build-timeout", "nan"), 2, "nan is not a number"),
        (("--label", "novalue"), 2, "KEY=VALUE"),
        (("--pip-config", "/nonexistent/pip.conf"), 2, "/nonexistent/pip.conf"),
        (("--push",), 2, "--push"),
        (("--dry-run",), 2, "exclude"),
        (("--kind", "tiny"), 2, "tiny"),
        (("--matrix", "/nonexistent/matrix.yaml"), 2, "/nonexistent/matrix.yaml"),
    ],
)
def test_an_impossible_request_is_refused(words: tuple[str, ...], code: int, message: str) -> None:
    done = gpuenv(*PRINT, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_an_invalid_date_is_refused() -> None:
    done = gpuenv(*PRINT, environment={"SOURCE_DATE_EPOCH": "yesterday"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "SOURCE_DATE_EPOCH" in done.stderr


def test_help_names_the_kinds() -> None:
    done = gpuenv("build-image", "--help")
    assert done.returncode == 0
    assert "wheels" in done.stdout
    assert "--snapshot" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("--tag", "x:1"),
            4,
            "no engine runs there: the socket does not exist; nothing was built, and no name was changed",
        ),
        (("--cuda", "11.8"), 3, "nothing was built"),
        (("--cuda", "11.8", "--print"), 3, "from 14.0 on"),
    ],
)
def test_an_early_failure_has_an_outcome(tmp_path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    socket = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = gpuenv("build-image", "--no-probe", *words, "--format", "json", environment=socket)
    report = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(gpuenv("schema", "outcome").stdout)).validate(report)
    assert (done.returncode, report["exit_code"], report["status"], report["images"]) == (code, code, "failed", [])
    assert message in report["message"]
    assert message in done.stderr
    assert (report["remedy"] or "") in done.stderr


@pytest.mark.parametrize("which", [("--cuda", "12.9"), ("--all",)], ids=["one", "all"])
def test_an_old_pip_is_reported_with_the_remedy(which: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    output = "print('pip 23.2.1 from here (python 3.12)')\n"
    for name, text in (("__init__.py", ""), ("__main__.py", output)):
        (tmp_path / "pip" / name).write_text(text, encoding="utf-8")
    words = ("build-image", "--dry-run", "--no-probe", "--installer", "pip", *which)
    done = gpuenv(*words, environment={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (7, "")
    assert "pip 23.2.1 resolves wheels for its own Python only" in done.stderr
    assert "Install uv: pipx install uv" in done.stderr


@pytest.mark.parametrize(
    ("kinds", "folder", "names", "message"),
    [
        (("wheels",), ".", ("requirements.txt", "Dockerfile"), "has Dockerfile and requirements.txt"),
        (("wheels",), ".", ("sbom.cdx.json",), "has sbom.cdx.json"),
        (("wheels", "devel"), "devel-cuda12.9-cupy14.2.0-py3.12", ("tidy.py",), "has tidy.py"),
    ],
)
def test_a_context_replaces_no_file_of_the_user(
    kinds: tuple[str, ...], folder: str, names: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    for name in names:
        (place / name).write_text("six\n", encoding="utf-8")
    words = [word for kind in kinds for word in ("--kind", kind)]
    choice = ("--cuda", "12.9", "--cupy", "14.2.0", "--python", "3.12")
    done = gpuenv("build-image", "--no-probe", *choice, *words, "--context", tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert "locking" not in done.stderr
    assert {path.name: path.read_text(encoding="utf-8") for path in place.iterdir()} == dict.fromkeys(names, "six\n")


def test_a_context_of_gpuenv_is_written_again(tmp_path: Path) -> None:
    served = Index(tmp_path / "index", SET)
    folder = tmp_path / "image"
    words = ("build-image", "--no-probe", "--cuda", "12.9", "--cupy", "14.2.0", "--installer", "uv")
    variables = {
        "UV_DEFAULT_INDEX": f"http://{served.address}",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
    }
    try:
        first = gpuenv(*words, "--context", folder, environment=variables)
        assert first.returncode == 0, first.stderr
        written = {path.name: path.read_bytes() for path in folder.iterdir()}
        outside = tmp_path / "outside"
        outside.write_text("mine\n", encoding="utf-8")
        (folder / "requirements.txt").unlink()
        (folder / "requirements.txt").symlink_to(outside)
        again = gpuenv(*words, "--context", folder, environment=variables)
    finally:
        served.close()
    assert again.returncode == 0, again.stderr
    assert {"Dockerfile", "requirements.txt", "tidy.py"} <= set(written)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == written
    assert outside.read_text(encoding="utf-8") == "mine\n"
