"""Hostile input: names, paths and URLs that look like options or commands; and secrets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.install.sandbox import MACHINE, Index, Sandbox, contents, run, versions
from tests.install.test_install import NEW
from tests.install.wheels import CUPY, SET, Package, cupy, make_wheel
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2-sekret"  # noqa: S105 - must not leak


def file_contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields every file below a folder."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place, name)
            if not path.is_symlink():
                yield path, path.read_bytes()


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("fails", [False, True], ids=["works", "fails"])
def test_index_credentials_are_used_but_never_shown_or_stored(
    sandbox: Sandbox, tmp_path: Path, installer: str, *, fails: bool
) -> None:
    target = sandbox.target("secret", pip=True)
    address = f"http://alice:{SECRET}@{sandbox.index.address}"
    variables = {"UV_DEFAULT_INDEX": address, "PIP_INDEX_URL": address}
    if fails:
        other = make_wheel(tmp_path, cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=1"))
        sandbox.index.replacements[CUPY] = other.read_bytes()
    plan = sandbox.gpuenv(
        "install", "--python", target, "--dry-run", "-v", *MACHINE, "--installer", installer, **variables
    )
    assert plan.returncode in ((0, 4) if fails else (0,)), plan.stderr  # an old pip reads the wheel while resolving
    result = sandbox.install(target, "--installer", installer, "-v", "--format", "json", "--no-redact", **variables)
    assert result.returncode == (4 if fails else 0), result.stderr
    assert any(header.startswith("Basic ") for header in sandbox.index.authorization), "the credentials were used"
    listed = sandbox.gpuenv("rollback", "--python", target, "--list", "--format", "json")
    lock = sandbox.gpuenv("lock", "--python", sandbox.target("other", pip=True), *MACHINE, **variables)
    for output in (plan, result, listed, lock):
        assert SECRET not in output.stdout + output.stderr
    assert [path for path, content in file_contents(target) if SECRET.encode() in content] == []


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
def test_a_path_is_never_an_option_or_a_command(sandbox: Sandbox, name: str, installer: str) -> None:
    target = sandbox.target(name, *(["cupy-cuda11x==13.6.0"] if installer == "uv" else []), pip=installer == "pip")
    before = contents(target)
    result = sandbox.install(target, "--installer", installer)
    assert result.returncode == 0, result.stderr
    assert versions(target) == NEW
    assert sandbox.gpuenv("rollback", "--yes", "--python", target).returncode == 0
    assert contents(target) == before
    assert list(sandbox.folder.rglob("pwned")) == []
    assert not Path("pwned").exists()


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("name", ["--index-url=http://127.0.0.1:1/", "-r/etc/passwd", "x\n --pre"])
def test_an_installed_name_is_never_an_option(sandbox: Sandbox, installer: str, name: str) -> None:
    target = sandbox.target("named", pip=installer == "pip")
    (site,) = target.glob("lib/python*/site-packages")
    (site / "evil-1.0.dist-info").mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: numpy; $(id)\n"
    (site / "evil-1.0.dist-info/METADATA").write_text(text, encoding="utf-8")
    result = sandbox.install(target, "--installer", installer)
    assert result.returncode == 0, result.stderr
    assert sandbox.index.requests


def test_a_record_with_a_path_outside_the_environment_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    """Neither dots, nor an absolute path, nor a link lead to the removal of a file outside."""
    precious = tmp_path / "precious.txt"
    for number, kind in enumerate(("dots", "absolute", "link")):
        target = sandbox.target(f"outside{number}", "cupy-cuda11x==13.6.0")
        (site,) = target.glob("lib/python*/site-packages")
        precious.write_text("mine\n", encoding="utf-8")
        line = {"dots": os.path.relpath(precious, site), "absolute": str(precious), "link": "cupy/way/precious.txt"}[
            kind
        ]
        if kind == "link":
            (site / "cupy/way").symlink_to(tmp_path)
        record = site / "cupy_cuda11x-13.6.0.dist-info/RECORD"
        record.write_text(record.read_text(encoding="utf-8") + f"{line},,\n", encoding="utf-8")
        before = contents(target)
        result = sandbox.install(target)
        assert result.returncode == 7, result.stderr
        assert "outside of the environment" in result.stderr
        assert precious.read_text(encoding="utf-8") == "mine\n"
        assert contents(target) == before


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_wheel_cannot_write_outside_the_environment(sandbox: Sandbox, tmp_path: Path, installer: str) -> None:
    (expected,) = [package for package in SET if package.stem == "cupy_cuda12x-14.2.0"]
    files = {**expected.files, "../../../../../escaped.txt": "out\n"}
    hostile = Package(expected.name, expected.release, expected.requires, expected.extras, files)
    index = Index(tmp_path / "evil", [*(package for package in SET if package != expected), hostile])
    other = Sandbox(index, sandbox.folder / "evil", sandbox.libraries)
    other.folder.mkdir()
    target = other.target("climbed", "cupy-cuda11x==13.6.0", pip=installer == "pip")
    before = contents(target)
    result = other.install(target, "--installer", installer)
    index.close()
    if result.returncode == 0:  # uv skips such a file and its RECORD line
        assert versions(target)["cupy-cuda12x"] == "14.2.0"
    else:
        assert result.returncode == 4, result.stderr
        assert contents(target) == before
    assert list(sandbox.folder.rglob("escaped.txt")) == []


def test_a_journal_with_a_path_outside_the_environment_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    target = sandbox.target("journal")
    assert sandbox.install(target).returncode == 0
    precious = tmp_path / "precious.txt"
    precious.write_text("mine\n", encoding="utf-8")
    path = target / ".gpuenv/0001/journal.json"
    journal = json.loads(path.read_text(encoding="utf-8"))
    journal["put"][0]["place"] = os.path.relpath(precious, target)
    path.write_text(json.dumps(journal), encoding="utf-8")
    before = contents(target)
    result = sandbox.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 4, result.stderr
    assert "outside of the environment" in result.stderr
    assert precious.exists()
    assert contents(target) == before


def test_the_journal_is_readable_by_its_owner_only(sandbox: Sandbox) -> None:
    target = sandbox.target("private", "cupy-cuda11x==13.6.0")
    assert sandbox.install(target).returncode == 0
    folder = target / ".gpuenv"
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in (folder / "0001/journal.json", folder / "0001/state.json", folder / "lock"):
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_a_package_installed_by_conda_is_not_removed(sandbox: Sandbox) -> None:
    target = sandbox.target("mixed", "cupy-cuda11x==13.6.0")
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy_cuda11x-13.6.0.dist-info/INSTALLER").write_text("conda\n", encoding="utf-8")
    before = contents(target)
    result = sandbox.install(target)
    assert result.returncode == 7, result.stderr
    assert "only conda can remove it" in result.stderr
    assert contents(target) == before


def test_every_json_output_conforms_to_its_schema(sandbox: Sandbox) -> None:
    def schema(name: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads(sandbox.gpuenv("schema", name).stdout)

    target = sandbox.target("schemas", "cupy-cuda11x==13.6.0")
    plan = sandbox.gpuenv("install", "--python", target, "--dry-run", *MACHINE, "--format", "json")
    jsonschema.validate(json.loads(plan.stdout), schema("plan"))
    outcome = sandbox.install(target, "--format", "json")
    jsonschema.validate(json.loads(outcome.stdout), schema("outcome"))
    listed = sandbox.gpuenv("rollback", "--python", target, "--list", "--format", "json")
    jsonschema.validate(json.loads(listed.stdout), schema("history"))
    rollback_plan = sandbox.gpuenv("rollback", "--python", target, "--dry-run", "--format", "json")
    jsonschema.validate(json.loads(rollback_plan.stdout), schema("plan"))
    assert [(pin["name"], pin["release"]) for pin in json.loads(rollback_plan.stdout)["install"]] == [
        ("cupy-cuda11x", "13.6.0")
    ]
    assert {entry["name"]: entry["release"] for entry in json.loads(rollback_plan.stdout)["remove"]} == NEW
    assert versions(target) == NEW
    rollback = sandbox.gpuenv("rollback", "--yes", "--python", target, "--format", "json")
    jsonschema.validate(json.loads(rollback.stdout), schema("outcome"))


def test_an_environment_that_prints_at_startup_is_supported(sandbox: Sandbox) -> None:
    """uv cannot query such an interpreter, so pip is used."""
    target = sandbox.target("chatty", pip=True)
    (site,) = target.glob("lib/python*/site-packages")
    run_at_start(site, 'print(\'hello\\ngpuenv:{"root": "/"}\')\n')
    result = sandbox.install(target)
    assert result.returncode == 0, result.stderr
    assert "installer pip" in result.stderr
    assert versions(target, quiet=True) == NEW
    assert run([str(target / "bin/python"), "-S", "-c", "print(1)"], {}) == "1\n"
