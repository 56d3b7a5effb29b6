"""Nothing of this machine and of its secrets is in an image, and no word becomes an instruction."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.image.docker.dockerd import Dockerd
from tests.image.docker.program import build, outcome
from tests.image.docker.tagged import TAG, of, tags

SECRET = "hunter2-never-to-be-kept"  # noqa: S105 - to be searched for


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "a=x\nUSER root"), "cannot hold a line break"),
        (("--label", "a\nUSER root=x"), "not a name of a label"),
        (("--label", "x"), "expected KEY=VALUE"),
        (("--label", "io.gpuenv.proof=passed"), "gpuenv writes these itself"),
        (("--tag", "a:b\nc"), "no name of an image"),
        (("--tag", "a:$(id)"), "no name of an image"),
        (("--base", "x\nRUN id"), "no name of an image"),
        (("--base", 'x" AS y'), "no name of an image"),
        (("--python", "3.11; id"), "no Python version"),
        (("--cuda", "12.9\nRUN id"), "12.9"),
        (("--arch", "$(id)"), "expected x86_64 or aarch64"),
        (("--compute-capability", "9.0 && id"), "9.0 && id"),
    ],
)
def test_hostile_words_are_refused(words: tuple[str, ...], message: str) -> None:
    done = build("unix:///nowhere", *words, "--print")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert message in done.stderr


def test_nothing_of_this_machine_is_left_in_any_layer(engine: Dockerd, client: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """A proxy with a password, a label full of quotes, and what is in the caller's environment."""
    hostile = 'it\'s "$(touch /hacked)" `id` ${HOME} \\'
    code, told, said = outcome(
        engine.host,
        *of("stand-in:fine"),
        "--label",
        f"own.words={hostile}",
        HTTP_PROXY=f"http://user:{SECRET}@proxy.invalid:3128",
        NO_PROXY="127.0.0.1",
        AWS_SECRET_ACCESS_KEY=SECRET,
    )
    assert code == 4, told  # the stand-in has no Python to prove anything with
    assert SECRET not in said
    newest = client.images.list(all=True)
    for image in newest:
        assert SECRET not in str(client.api.history(image.id)) + str(image.attrs)
        labels = image.attrs["Config"]["Labels"] or {}
        assert labels.get("own.words", hostile) == hostile
    file = tmp_path / "saved.tar"
    with file.open("wb") as out:
        for chunk in newest[0].save():
            out.write(chunk)
    assert SECRET.encode() not in file.read_bytes()
    with tarfile.open(file) as tar:
        assert tar.getnames()
    assert os.path.lexists("/hacked") is False


def test_a_secret_is_shown_to_the_installer_and_left_nowhere(engine: Dockerd, client: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """The stand-in says whether it saw it; the classic builder refuses to be given it."""
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = https://user:{SECRET}@index.invalid/simple\n")
    words = (*of("stand-in:seeing"), "--pip-config", str(tmp_path / "pip.conf"))
    code, told, said = outcome(engine.host, *words, "--builder", "buildkit")
    assert (code, told["status"]) == (4, "failed")
    assert "the secret was there" in told["images"][0]["message"]
    assert SECRET not in said + str(told)
    kept = [path for path in roots(engine) for file in path.rglob("*") if file.is_file() and holds(file)]
    assert kept == []
    refused = build(engine.host, *words, "--builder", "classic")
    assert refused.returncode == 4
    assert "the classic builder would leave the secrets (pip) in the image" in refused.stderr
    assert TAG not in tags(client)


def test_an_index_of_this_machines_own_is_a_secret_too(engine: Dockerd) -> None:
    words = {"PIP_INDEX_URL": f"https://user:{SECRET}@index.invalid/simple"}
    done = build(engine.host, *of("stand-in:fine"), "--builder", "classic", "--dry-run", **words)
    assert "would leave the secrets" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def roots(engine: Any) -> list[Path]:  # noqa: ANN401
    """Where the engine keeps all that it has, where it is one of the tests' own."""
    folder = getattr(engine, "folder", None)
    return [folder / "root"] if folder else []


def holds(file: Path) -> bool:
    with file.open("rb") as opened:
        return SECRET.encode() in opened.read()
