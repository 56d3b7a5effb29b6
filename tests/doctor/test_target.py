"""Unusable targets: what is wrong with them, and a fix that fits."""

from __future__ import annotations

import pytest

from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import Snapshot, Source, SourceState
from tests.doctor.installed_target import changed, found, healthy

__all__ = ["healthy"]

HOOK = "/venv/lib/python3.12/site-packages/sitecustomize.py"


def broken(matrix: Matrix, healthy: Snapshot, path: str = "/venv/bin/python3", **facts: object) -> Finding:
    """The finding of a target without an answer."""
    result = {"executable": known(path, "--python"), "python": missing("it did not tell"), "cupy": (), **facts}
    snapshot = changed(healthy, **result)
    kept = tuple(source for source in snapshot.sources if source.name != "target")
    sources = (*kept, Source("target", SourceState.FAILED, "exit code 1: no output"))
    findings = found(matrix, snapshot._replace(sources=sources))
    assert findings["ENV401"].cause is Cause.TARGET_ENVIRONMENT_BROKEN
    assert not any(code.startswith(("WHL", "LIB")) for code in findings)
    return findings["ENV401"]


def commands(finding: Finding) -> list[str]:
    return [" ".join(fix.command or ()) for fix in finding.fix]


@pytest.mark.parametrize("name", ["PYTHONHOME", "LD_PRELOAD"])
def test_a_variable_is_unset_and_the_environment_is_kept(matrix: Matrix, healthy: Snapshot, name: str) -> None:
    finding = broken(matrix, healthy._replace(environment={name: "/x"}), starts_without=known(name, "x"))
    assert f"does not work with {name} set" in finding.title
    assert commands(finding) == [f"env -u {name} gpuenv doctor"]
    assert any(entry.fact == f"environment.{name}" for entry in finding.evidence)


@pytest.mark.parametrize(("without", "word"), [("startup", HOOK), ("variables", "PYTHON")])
def test_start_up_files_are_repaired(matrix: Matrix, healthy: Snapshot, without: str, word: str) -> None:
    finding = broken(matrix, healthy, starts_without=known(without, "x"), startup_files=(HOOK,))
    assert word in finding.fix[0].text
    assert commands(finding) == [""]


@pytest.mark.parametrize(
    ("path", "again"),
    [
        ("/venv/bin/python3", True),
        ("/venv/bin/python3.13t", True),
        ("/usr/bin/pypy3", True),
        (r"C:\venv\Scripts\python.exe", True),
        ("/venv/bin/pip", False),
        ("/venv/bin/activate", False),
        ("/home/me/app.pyz", False),
        ("/dev/null", False),
    ],
)
def test_a_target_that_is_not_a_python_is_not_recreated(
    matrix: Matrix, healthy: Snapshot, path: str, *, again: bool
) -> None:
    assert any("--clear" in command for command in commands(broken(matrix, healthy, path))) is again


@pytest.mark.parametrize(
    ("why", "again"), [("/opt/gone/python3.12 is not there", True), ("/root may not be entered by this user", False)]
)
def test_the_fix_depends_on_why_the_interpreter_does_not_start(
    matrix: Matrix, healthy: Snapshot, why: str, *, again: bool
) -> None:
    finding = broken(matrix, healthy, unstartable=known(why, "x"))
    assert why in finding.title
    assert any("--clear" in command for command in commands(finding)) is again


def test_packages_that_this_user_may_not_read_are_not_called_missing(matrix: Matrix, healthy: Snapshot) -> None:
    findings = found(matrix, changed(healthy, cupy=(), unreadable=("/venv/lib/python3.12/site-packages",)))
    assert set(findings) == {"ENV401"}
    assert "may not read" in findings["ENV401"].title


def test_an_unneeded_folder_may_be_unreadable(matrix: Matrix, healthy: Snapshot) -> None:
    """As /usr/local/lib is after a pip of root's with a tight umask, where CuPy is among the user's own packages."""
    assert found(matrix, changed(healthy, unreadable=("/usr/local/lib/python3.12/site-packages",))) == {}


def test_an_environment_without_its_settings_gets_them_back(matrix: Matrix, healthy: Snapshot) -> None:
    """Whatever the Python that answers in its place has: nothing is proposed for that one."""
    snapshot = changed(healthy, lost_environment=known("/home/me/venv", "x"), prefix=known("/opt/python", "x"))
    findings = found(matrix, snapshot)
    assert set(findings) == {"ENV401"}
    assert "pyvenv.cfg" in findings["ENV401"].title
    assert commands(findings["ENV401"])[0] == "/opt/python/bin/python3.12 -m venv --without-pip /home/me/venv"


def test_environments_that_may_be_meant_come_before_an_installation(matrix: Matrix, healthy: Snapshot) -> None:
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    bare = changed(healthy, cupy=(), packages=packages, libraries=(), cupy_module=missing("no module"))
    bare = bare._replace(assumed=())
    near = changed(bare, environments_near=("/home/me/project/.venv",))
    answered = Source("target", SourceState.ANSWERED)
    first, plain = (
        found(matrix, entry._replace(sources=(*entry.sources, answered)))["WHL503"].fix for entry in (near, bare)
    )
    assert first[0].command == ("gpuenv", "doctor", "--python", "/home/me/project/.venv")
    assert len(first) > 1
    assert plain[-1].text.startswith("If you mean another environment")
