"""No image contains a secret of this machine, and no argument adds an instruction to a Dockerfile."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.image.docker.conftest import list_tags
from tests.image.docker.dockerd import Dockerd
from tests.image.docker.program import TAG, build_arguments, build_image, build_report

SECRET = "hunter2-never-to-be-kept"  # noqa: S105 - the tests search for it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--label", "a=x\nUSER root"), "cannot contain a line break"),
        (("--label", "a\nUSER root=x"), "not a name of a label"),
        (("--label", "x"), "expected KEY=VALUE"),
        (("--label", "io.gpuenv.proof=passed"), "gpuenv writes these itself"),
        (("--tag", "a:b\nc"), "is not a name of an image"),
        (("--tag", "a:$(id)"), "is not a name of an image"),
        (("--base", "x\nRUN id"), "is not a name of an image"),
        (("--base", 'x" AS y'), "is not a name of an image"),
        (("--python", "3.11; id"), "no Python version"),
        (("--cuda", "12.9\nRUN id"), "12.9"),
        (("--arch", "$(id)"), "expected x86_64 or aarch64"),
        (("--compute-capability", "9.0 && id"), "9.0 && id"),
    ],
)
def test_hostile_arguments_are_refused(arguments: tuple[str, ...], message: str) -> None:
    result = build_image("unix:///nowhere", *arguments, "--print")
    assert (result.returncode, result.stdout) == (2, ""), result
    assert message in result.stderr


def test_no_layer_contains_a_secret_of_this_machine(engine: Dockerd, client: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """A proxy with a password, a label with quotes and shell syntax, and a secret in the environment."""
    hostile = 'it\'s "$(touch /hacked)" `id` ${HOME} \\'
    code, report, stderr = build_report(
        engine.host,
        *build_arguments("stand-in:fine"),
        "--label",
        f"test.hostile={hostile}",
        HTTP_PROXY=f"http://user:{SECRET}@proxy.invalid:3128",
        NO_PROXY="127.0.0.1",
        AWS_SECRET_ACCESS_KEY=SECRET,
    )
    assert code == 4, report  # the stand-in image has no Python, so its verification fails
    assert SECRET not in stderr
    images = client.images.list(all=True)
    for image in images:
        assert SECRET not in str(client.api.history(image.id)) + str(image.attrs)
        labels = image.attrs["Config"]["Labels"] or {}
        assert labels.get("test.hostile", hostile) == hostile
    file = tmp_path / "saved.tar"
    with file.open("wb") as out:
        for chunk in images[0].save():
            out.write(chunk)
    assert SECRET.encode() not in file.read_bytes()
    with tarfile.open(file) as tar:
        assert tar.getnames()
    assert os.path.lexists("/hacked") is False


def test_a_secret_is_visible_to_pip_and_stored_nowhere(engine: Dockerd, client: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """The stand-in for pip prints whether it sees the secret; the classic builder refuses secrets."""
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = https://user:{SECRET}@index.invalid/simple\n")
    arguments = (*build_arguments("stand-in:secret"), "--pip-config", str(tmp_path / "pip.conf"))
    code, report, stderr = build_report(engine.host, *arguments, "--builder", "buildkit")
    assert (code, report["status"]) == (4, "failed")
    assert "the secret was there" in report["images"][0]["message"]
    assert SECRET not in stderr + str(report)
    # Not rglob, which fails if the engine removes a folder meanwhile.
    walks = (each for folder in data_folders(engine) for each in os.walk(folder))
    files = (Path(folder, name) for folder, _, names in walks for name in names)
    assert [file for file in files if file.is_file() and has_secret(file)] == []
    refused = build_image(engine.host, *arguments, "--builder", "classic")
    assert refused.returncode == 4
    assert "the classic builder would leave the secrets (pip) in the image" in refused.stderr
    assert TAG not in list_tags(client)


def test_the_index_of_this_machine_is_a_secret(engine: Dockerd) -> None:
    variables = {"PIP_INDEX_URL": f"https://user:{SECRET}@index.invalid/simple"}
    result = build_image(
        engine.host, *build_arguments("stand-in:fine"), "--builder", "classic", "--dry-run", **variables
    )
    assert "would leave the secrets" in result.stderr
    assert SECRET not in result.stdout + result.stderr


def data_folders(engine: Any) -> list[Path]:  # noqa: ANN401
    """The folder of all files of the engine, if the tests start the engine."""
    folder = getattr(engine, "folder", None)
    return [folder / "root"] if folder else []


def has_secret(file: Path) -> bool:
    try:
        return SECRET.encode() in file.read_bytes()
    except FileNotFoundError:  # removed meanwhile
        return False
