"""Unusable targets and their fixes."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import Snapshot, Source, SourceState
from tests.doctor.installed_target import findings_by_code, healthy, with_target

__all__ = ["healthy"]

HOOK = "/venv/lib/python3.12/site-packages/sitecustomize.py"


def broken(healthy: Snapshot, path: str = "/venv/bin/python3", **facts: object) -> Finding:
    """The finding of a target whose probe fails."""
    result = {"executable": known(path, "--python"), "python": missing("no answer"), "cupy": (), **facts}
    snapshot = with_target(healthy, **result)
    other_sources = tuple(source for source in snapshot.sources if source.name != "target")
    sources = (*other_sources, Source("target", SourceState.FAILED, "exit code 1: no output"))
    findings = findings_by_code(snapshot._replace(sources=sources))
    assert findings["ENV401"].cause is Cause.TARGET_ENVIRONMENT_BROKEN
    assert not any(code.startswith(("WHL", "LIB")) for code in findings)
    return findings["ENV401"]


def commands(finding: Finding) -> list[str]:
    return [" ".join(fix.command or ()) for fix in finding.fix]


def is_relinked(finding: Finding) -> bool:
    return any("-m venv --upgrade" in command for command in commands(finding))


@pytest.mark.parametrize("name", ["PYTHONHOME", "LD_PRELOAD"])
def test_a_harmful_variable_is_unset(healthy: Snapshot, name: str) -> None:
    finding = broken(healthy._replace(environment={name: "/x"}), starts_without=known(name, "x"))
    assert f"does not work with {name} set" in finding.title
    assert finding.fix[0].shell_line == f"unset {name}"
    assert any(entry.fact == f"environment.{name}" for entry in finding.evidence)


@pytest.mark.parametrize(
    ("without", "word", "line"),
    [("startup", HOOK, None), ("variables", "PYTHON", "unset $(env | grep -o '^PYTHON[A-Z_]*')")],
)
def test_a_broken_startup_file_is_named_in_the_fix(
    healthy: Snapshot, without: str, word: str, line: str | None
) -> None:
    finding = broken(healthy, starts_without=known(without, "x"), startup_files=(HOOK,))
    (fix,) = finding.fix
    assert word in fix.text
    assert (fix.command, fix.shell_line) == (None, line)


@pytest.mark.parametrize(
    ("path", "relinked"),
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
def test_a_target_that_is_not_a_python_is_not_relinked(healthy: Snapshot, path: str, *, relinked: bool) -> None:
    assert is_relinked(broken(healthy, path, venv_python=known("3.12.4", "pyvenv.cfg"))) is relinked


@pytest.mark.parametrize(
    ("why", "relinked"), [("/opt/gone/python3.12 is not there", True), ("/root may not be entered by this user", False)]
)
def test_the_fix_depends_on_why_the_interpreter_does_not_start(healthy: Snapshot, why: str, *, relinked: bool) -> None:
    finding = broken(healthy, unstartable=known(why, "x"), venv_python=known("3.12.4", "pyvenv.cfg"))
    assert why in finding.title
    assert is_relinked(finding) is relinked


def test_unreadable_packages_are_not_reported_as_missing(healthy: Snapshot) -> None:
    findings = findings_by_code(with_target(healthy, cupy=(), unreadable=("/venv/lib/python3.12/site-packages",)))
    assert set(findings) == {"ENV401"}
    assert "may not read" in findings["ENV401"].title


def test_an_unreadable_directory_without_cupy_is_ignored(healthy: Snapshot) -> None:
    """/usr/local/lib becomes unreadable after root runs pip with a strict umask; CuPy is a user package here."""
    assert findings_by_code(with_target(healthy, unreadable=("/usr/local/lib/python3.12/site-packages",))) == {}


def test_an_environment_without_pyvenv_cfg_is_recreated(healthy: Snapshot) -> None:
    """Without pyvenv.cfg the base Python runs instead; it gets no fix."""
    snapshot = with_target(healthy, lost_environment=known("/home/me/venv", "x"), prefix=known("/opt/python", "x"))
    findings = findings_by_code(snapshot)
    assert set(findings) == {"ENV401"}
    assert "pyvenv.cfg" in findings["ENV401"].title
    assert commands(findings["ENV401"])[0] == "/opt/python/bin/python3.12 -m venv --without-pip /home/me/venv"


def test_nearby_environments_are_suggested_before_an_installation(healthy: Snapshot) -> None:
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    bare = with_target(healthy, cupy=(), packages=packages, libraries=(), cupy_module=missing("no module"))
    bare = bare._replace(assumed=())
    with_environments = with_target(bare, environments_near=("/home/me/project/.venv",))
    answered = Source("target", SourceState.ANSWERED)
    first, plain = (
        findings_by_code(entry._replace(sources=(*entry.sources, answered)))["WHL503"].fix
        for entry in (with_environments, bare)
    )
    assert first[0].command == ("gpuenv", "doctor", "--python", "/home/me/project/.venv")
    assert len(first) > 1
    assert plain[-1].text.startswith("If you mean another environment")
