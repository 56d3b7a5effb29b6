"""Hostile input: names, paths and URLs that look like options or commands; and secrets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.install.sandbox import MACHINE, Ground, Index, contents, run, versions
from tests.install.test_install import NEW
from tests.install.wheels import CUPY, SET, Package, cupy, make_wheel
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2-sekret"  # noqa: S105 - the point


def texts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below a folder."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place, name)
            if not path.is_symlink():
                yield path, path.read_bytes()


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("fails", [False, True], ids=["works", "fails"])
def test_credentials_are_used_and_told_nowhere(ground: Ground, tmp_path: Path, installer: str, *, fails: bool) -> None:
    target = ground.target("secret", pip=True)
    address = f"http://alice:{SECRET}@{ground.index.address}"
    given = {"UV_DEFAULT_INDEX": address, "PIP_INDEX_URL": address}
    if fails:
        other = make_wheel(tmp_path, cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=1"))
        ground.index.replacements[CUPY] = other.read_bytes()
    plan = ground.gpuenv("install", "--python", target, "--dry-run", "-v", *MACHINE, "--installer", installer, **given)
    assert plan.returncode in ((0, 4) if fails else (0,)), plan.stderr  # an old pip looks into the wheel at once
    done = ground.install(target, "--installer", installer, "-v", "--format", "json", "--no-redact", **given)
    assert done.returncode == (4 if fails else 0), done.stderr
    assert any(header.startswith("Basic ") for header in ground.index.authorization), "they were used"
    listed = ground.gpuenv("rollback", "--python", target, "--list", "--format", "json")
    lock = ground.gpuenv("lock", "--python", ground.target("other", pip=True), *MACHINE, **given)
    for said in (plan, done, listed, lock):
        assert SECRET not in said.stdout + said.stderr
    assert [path for path, content in texts(target) if SECRET.encode() in content] == []


@pytest.mark.parametrize(
    ("name", "installer"),
    [
        ("with space and 'quotes' \"both\"", "uv"),
        ("with space and 'quotes'", "pip"),
        ("--index-url=x; $(touch pwned) `touch pwned`", "uv"),
        ("--index-url=x; $(touch pwned) & touch pwned", "pip"),
        ("two\nlines", "uv"),
        ("%s{0}#@!", "uv"),
    ],
)
def test_a_path_is_only_a_path(ground: Ground, name: str, installer: str) -> None:
    target = ground.target(name, *(["cupy-cuda11x==13.6.0"] if installer == "uv" else []), pip=installer == "pip")
    before = contents(target)
    done = ground.install(target, "--installer", installer)
    assert done.returncode == 0, done.stderr
    assert versions(target) == NEW
    assert ground.gpuenv("rollback", "--python", target).returncode == 0
    assert contents(target) == before
    assert list(ground.folder.rglob("pwned")) == []
    assert not Path("pwned").exists()


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("evil", ["--index-url=http://127.0.0.1:1/", "-r/etc/passwd", "x\n --pre"])
def test_an_installed_name_is_no_option(ground: Ground, installer: str, evil: str) -> None:
    target = ground.target("named", pip=installer == "pip")
    (site,) = target.glob("lib/python*/site-packages")
    (site / "evil-1.0.dist-info").mkdir()
    text = f"Metadata-Version: 2.1\nName: {evil}\nVersion: 1.0\nRequires-Dist: numpy; $(id)\n"
    (site / "evil-1.0.dist-info/METADATA").write_text(text, encoding="utf-8")
    done = ground.install(target, "--installer", installer)
    assert done.returncode == 0, done.stderr
    assert ground.index.requests


def test_a_record_that_names_what_is_outside_is_not_followed(ground: Ground, tmp_path: Path) -> None:
    """What is removed is the target's own: neither by dots, nor by an absolute path, nor through a link."""
    precious = tmp_path / "precious.txt"
    for number, way in enumerate(("dots", "absolute", "link")):
        target = ground.target(f"outside{number}", "cupy-cuda11x==13.6.0")
        (site,) = target.glob("lib/python*/site-packages")
        precious.write_text("mine\n", encoding="utf-8")
        line = {"dots": os.path.relpath(precious, site), "absolute": str(precious), "link": "cupy/way/precious.txt"}[
            way
        ]
        if way == "link":
            (site / "cupy/way").symlink_to(tmp_path)
        record = site / "cupy_cuda11x-13.6.0.dist-info/RECORD"
        record.write_text(record.read_text(encoding="utf-8") + f"{line},,\n", encoding="utf-8")
        before = contents(target)
        done = ground.install(target)
        assert done.returncode == 7, done.stderr
        assert "outside of the environment" in done.stderr
        assert precious.read_text(encoding="utf-8") == "mine\n"
        assert contents(target) == before


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_wheel_that_climbs_out_lands_nowhere(ground: Ground, tmp_path: Path, installer: str) -> None:
    (right,) = [package for package in SET if package.stem == "cupy_cuda12x-14.2.0"]
    files = {**right.files, "../../../../../escaped.txt": "out\n"}
    evil = Package(right.name, right.release, right.requires, right.extras, files)
    index = Index(tmp_path / "evil", [*(package for package in SET if package != right), evil])
    other = Ground(index, ground.folder / "evil", ground.libraries)
    other.folder.mkdir()
    target = other.target("climbed", "cupy-cuda11x==13.6.0", pip=installer == "pip")
    before = contents(target)
    done = other.install(target, "--installer", installer)
    index.close()
    if done.returncode == 0:  # uv leaves such a file out, and its RECORD line too
        assert versions(target)["cupy-cuda12x"] == "14.2.0"
    else:
        assert done.returncode == 4, done.stderr
        assert contents(target) == before
    assert list(ground.folder.rglob("escaped.txt")) == []


def test_a_journal_that_names_what_is_outside_is_refused(ground: Ground, tmp_path: Path) -> None:
    target = ground.target("journal")
    assert ground.install(target).returncode == 0
    precious = tmp_path / "precious.txt"
    precious.write_text("mine\n", encoding="utf-8")
    path = target / ".gpuenv/0001/journal.json"
    journal = json.loads(path.read_text(encoding="utf-8"))
    journal["put"][0]["place"] = os.path.relpath(precious, target)
    path.write_text(json.dumps(journal), encoding="utf-8")
    before = contents(target)
    done = ground.gpuenv("rollback", "--python", target)
    assert done.returncode == 4, done.stderr
    assert "outside of the environment" in done.stderr
    assert precious.exists()
    assert contents(target) == before


def test_the_journal_is_the_user_s_alone(ground: Ground) -> None:
    target = ground.target("private", "cupy-cuda11x==13.6.0")
    assert ground.install(target).returncode == 0
    folder = target / ".gpuenv"
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in (folder / "0001/journal.json", folder / "0001/state.json", folder / "lock"):
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_what_conda_has_installed_is_conda_s_to_remove(ground: Ground) -> None:
    target = ground.target("mixed", "cupy-cuda11x==13.6.0")
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy_cuda11x-13.6.0.dist-info/INSTALLER").write_text("conda\n", encoding="utf-8")
    before = contents(target)
    done = ground.install(target)
    assert done.returncode == 7, done.stderr
    assert "only conda can remove it" in done.stderr
    assert contents(target) == before


def test_every_output_is_as_its_schema_says(ground: Ground) -> None:
    def schema(name: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads(ground.gpuenv("schema", name).stdout)

    target = ground.target("schemas", "cupy-cuda11x==13.6.0")
    plan = ground.gpuenv("install", "--python", target, "--dry-run", *MACHINE, "--format", "json")
    jsonschema.validate(json.loads(plan.stdout), schema("plan"))
    outcome = ground.install(target, "--format", "json")
    jsonschema.validate(json.loads(outcome.stdout), schema("outcome"))
    listed = ground.gpuenv("rollback", "--python", target, "--list", "--format", "json")
    jsonschema.validate(json.loads(listed.stdout), schema("history"))
    undoing = ground.gpuenv("rollback", "--python", target, "--dry-run", "--format", "json")
    jsonschema.validate(json.loads(undoing.stdout), schema("plan"))
    assert [(pin["name"], pin["release"]) for pin in json.loads(undoing.stdout)["install"]] == [
        ("cupy-cuda11x", "13.6.0")
    ]
    assert {entry["name"]: entry["release"] for entry in json.loads(undoing.stdout)["remove"]} == NEW
    assert versions(target) == NEW
    undone = ground.gpuenv("rollback", "--python", target, "--format", "json")
    jsonschema.validate(json.loads(undone.stdout), schema("outcome"))


def test_a_chatty_environment_is_understood(ground: Ground) -> None:
    """uv cannot make out such an interpreter; then pip is asked."""
    target = ground.target("chatty", pip=True)
    (site,) = target.glob("lib/python*/site-packages")
    run_at_start(site, 'print(\'hello\\ngpuenv:{"root": "/"}\')\n')
    done = ground.install(target)
    assert done.returncode == 0, done.stderr
    assert "installer pip" in done.stderr
    assert versions(target, quiet=True) == NEW
    assert run([str(target / "bin/python"), "-S", "-c", "print(1)"], {}) == "1\n"
