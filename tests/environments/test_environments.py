"""Every kind of environment: the doctor's findings, ``--fix``, locks, installation, and rollback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.environments.builders import CUPY_AND_NUMPY, TWO_CUPYS, site_packages
from tests.environments.cases import BuiltEnvironment, EnvironmentCase
from tests.environments.healthy import HEALTHY
from tests.environments.layers import LAYERS
from tests.environments.leftovers import LEFTOVERS
from tests.environments.lines import LINES
from tests.install.sandbox import LIMIT, MACHINE, contents, versions

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

UNPRIVILEGED = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)


class Session:
    """A built environment in which commands are run."""

    def __init__(self, sandbox: Sandbox, case: EnvironmentCase) -> None:
        self.sandbox, self.case, self.built = sandbox, case, case.build(sandbox)

    def call(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs a command; fails on a traceback or an internal error."""
        python = self.built.python
        target = () if python == "" else ("--python", str(python or self.built.prefix))
        unprivileged = self.case.unprivileged and os.geteuid() == 0
        # It cannot become the owner of the environment either.
        as_root = {"GPUENV_AS_ROOT": "1"} if unprivileged else {}
        done = subprocess.run(
            [*(UNPRIVILEGED if unprivileged else ()), sys.executable, "-m", "gpuenv", command, *target, *options],
            env=self.sandbox.environment(**self.built.variables, **as_root),
            cwd=self.built.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=LIMIT,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode != 70, done.stderr
        return done

    def report(self, *options: str) -> tuple[int, Any, str]:
        done = self.call("doctor", "--format", "json", "--no-redact", *self.case.machine, *self.case.options, *options)
        return done.returncode, json.loads(done.stdout or "null"), done.stderr

    def folder_contents(self) -> list[dict[str, str]]:
        return [contents(folder) for folder in (self.built.prefix, *self.built.other_folders)]


def check_report(case: EnvironmentCase, code: int, report: Any) -> None:  # noqa: ANN401 - JSON
    """Asserts the primary cause, its severity and its fixes, and that there are no other root causes."""
    findings = report["findings"]
    shown = json.dumps(findings, indent=1)
    assert [run for run in report["checks"] if run["status"] == "crashed"] == []
    primary = next((finding["cause"] for finding in findings if finding["primary"]), None)
    root_causes = {finding["cause"] for finding in findings if not finding["follows_from"]}
    allowed = case.cause.split("|")
    if case.error and case.cause:
        assert (primary in allowed, code) == (True, 1), shown
        assert root_causes == {primary}, shown
    else:
        assert (primary, code) == (None, 0), shown
        assert root_causes <= set(allowed), shown
        assert root_causes or "" in allowed, shown
    fixes = [
        f"{fix['text']} {fix['shell_line'] or ' '.join(fix['command'] or ())}"
        for finding in findings
        for fix in finding["fix"]
        if (fix["command"] or [""])[0] != "gpuenv"
    ]
    assert case.first_fix in " ".join(fixes[:2]), shown
    assert [fix for fix in fixes if any(words in fix for words in case.forbidden_words)] == [], shown


def check_fix(session: Session, code: int) -> None:
    """Asserts that ``--fix`` makes the expected changes, in one transaction that can be rolled back."""
    case, before = session.case, session.folder_contents()
    fix_code, report, stderr = session.report("--fix", "--yes")
    if case.fixed_versions is None:
        assert fix_code == (code if case.fix_exit_code is None else case.fix_exit_code), stderr
        repair = report["repair"]
        assert repair["status"] == ("nothing-to-mend" if case.fix_exit_code is None else "failed"), repair
        assert session.folder_contents() == before
        return
    assert report is not None, stderr
    assert report["repair"]["status"] == "mended", (report["repair"], stderr)
    remaining = [finding for finding in report["findings"] if finding["severity"] != "note"]
    assert (fix_code, remaining) == (0, []), json.dumps(remaining, indent=1)
    installed = versions_in_metadata(session.built.prefix)
    assert {name: installed.get(name) for name in case.fixed_versions} == case.fixed_versions
    assert len([name for name in installed if name.startswith("cupy")]) == 1, installed
    assert session.folder_contents()[1:] == before[1:], "a folder outside of the environment was changed"
    rollback = session.call("rollback", "--yes", report["repair"]["transaction"])
    assert rollback.returncode == 0, rollback.stderr
    assert session.folder_contents() == before


def versions_in_metadata(prefix: Path) -> dict[str, str]:
    """The version of each distribution by name, read in any encoding."""
    texts = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in site_packages(prefix).glob("*.dist-info/METADATA")
    ]
    return dict(re.findall(r"^(?:Name|Version): (\S+)", text, re.MULTILINE)[:2] for text in texts)


def check_lock(session: Session) -> None:
    """Asserts that a lock does not change the environment."""
    before = session.folder_contents()
    done = session.call("lock", *session.case.machine)
    needs_requirements_format = done.returncode == 2 and "--format requirements" in done.stderr
    assert needs_requirements_format or done.returncode in (0, 3, 7), done.stderr
    assert session.folder_contents() == before


def check_install(session: Session) -> None:
    before = session.folder_contents()
    done = session.call("install", "--yes", *session.case.machine)
    assert done.returncode == session.case.install_exit_code, done.stderr
    if done.returncode == 0 and session.folder_contents() != before:
        rollback = session.call("rollback", "--yes")
        assert rollback.returncode == 0, rollback.stderr
    assert session.folder_contents() == before


CASES = (*HEALTHY, *LEFTOVERS, *LAYERS, *LINES)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_environment_is_diagnosed_fixed_and_rolled_back(sandbox: Sandbox, case: EnvironmentCase) -> None:
    if case.unprivileged and os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("only setpriv drops root's capabilities")
    session = Session(sandbox, case)
    code, report, _ = session.report()
    check_report(case, code, report)
    check_lock(session)
    check_fix(session, code)
    if case.install_exit_code is not None:
        check_install(session)


def test_the_cases_are_many_and_distinct() -> None:
    assert len({str(case) for case in CASES}) == len(CASES) >= 40
    assert len([case for case in CASES if not case.cause]) >= 8


@pytest.mark.long
def test_an_install_is_rolled_back_after_a_rename_of_the_environment(sandbox: Sandbox) -> None:
    target = sandbox.target("before", *TWO_CUPYS)
    former = contents(target)
    assert sandbox.install(target).returncode == 0
    after = target.rename(sandbox.folder / "after")
    done = sandbox.gpuenv("rollback", "--yes", "--python", after)
    assert done.returncode == 0, done.stderr
    assert contents(after) == former


@pytest.mark.long
def test_a_copied_environment_is_rolled_back_or_left_unchanged(sandbox: Sandbox) -> None:
    """In backups and image layers, every file has another inode number."""
    target = sandbox.target("original", *TWO_CUPYS)
    former = contents(target)
    assert sandbox.install(target).returncode == 0
    copy = sandbox.folder / "copy"
    shutil.copytree(target, copy, symlinks=True)
    new = contents(copy)
    done = sandbox.gpuenv("rollback", "--yes", "--python", copy)
    assert contents(copy) == (former if done.returncode == 0 else new), done.stderr
    assert done.returncode in (0, 4), done.stderr


@pytest.mark.long
def test_a_lock_is_installed_in_another_environment(sandbox: Sandbox, tmp_path: Path) -> None:
    """A lock of an intact environment repairs one with two lines."""
    intact, broken = sandbox.target("intact", *CUPY_AND_NUMPY), sandbox.target("broken", *TWO_CUPYS)
    lock = tmp_path / "pylock.toml"
    done = sandbox.gpuenv("lock", "--python", intact, *MACHINE, "-o", lock)
    assert done.returncode == 0, done.stderr
    former = contents(broken)
    done = sandbox.install(broken, "--locked", lock)
    assert done.returncode == 0, done.stderr
    assert versions(broken)["cupy-cuda12x"] == "14.2.0"
    assert "cupy-cuda11x" not in versions(broken)
    assert sandbox.gpuenv("rollback", "--yes", "--python", broken).returncode == 0
    assert contents(broken) == former


@pytest.mark.long
def test_names_that_differ_in_case_are_one_distribution(sandbox: Sandbox) -> None:
    """In old builds, the metadata folder has the spelling of the project's name."""
    target = sandbox.target("spelt", *TWO_CUPYS)
    info = site_packages(target) / "cupy_cuda11x-13.6.0.dist-info"
    renamed = info.rename(site_packages(target) / "CuPy_CUDA11x-13.6.0.dist-info")
    for name, old, new in (("METADATA", "cupy-cuda11x", "CuPy-CUDA11x"), ("RECORD", info.name, renamed.name)):
        text = (renamed / name).read_text(encoding="utf-8")
        (renamed / name).write_text(text.replace(old, new), encoding="utf-8")
    case = EnvironmentCase(
        "another spelling",
        lambda _: BuiltEnvironment(target),
        "multiple-cupy-packages",
        fixed_versions={"cupy-cuda12x": "14.2.0"},
    )
    session = Session(sandbox, replace(case))
    code, report, _ = session.report()
    check_report(case, code, report)
    check_fix(session, code)
