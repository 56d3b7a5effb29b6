"""Environments of every make: what the doctor says of them, what it mends, and that all comes back."""

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

from tests.environments.further import FURTHER
from tests.environments.healthy import HEALTHY
from tests.environments.layers import LAYERS
from tests.environments.leftovers import LEFTOVERS
from tests.environments.lines import LINES
from tests.environments.making import BOTH, SOUND, site
from tests.environments.table import Odd, Place
from tests.install.sandbox import LIMIT, MACHINE, contents, versions

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

WITHOUT_RIGHTS = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)


class Visit:
    """An environment that was made, and the program in it."""

    def __init__(self, sandbox: Sandbox, odd: Odd) -> None:
        self.sandbox, self.odd, self.place = sandbox, odd, odd.build(sandbox)

    def call(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """One call; no traceback, and no fault of the program's own."""
        python = self.place.python
        target = () if python == "" else ("--python", str(python or self.place.prefix))
        plain = self.odd.without_rights and os.geteuid() == 0
        done = subprocess.run(
            [*(WITHOUT_RIGHTS if plain else ()), sys.executable, "-m", "gpuenv", command, *target, *options],
            env=self.sandbox.environment(**self.place.variables),
            cwd=self.place.folder,
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
        done = self.call("doctor", "--format", "json", "--no-redact", *self.odd.machine, *self.odd.options, *options)
        return done.returncode, json.loads(done.stdout or "null"), done.stderr

    def held(self) -> list[dict[str, str]]:
        return [contents(folder) for folder in (self.place.prefix, *self.place.others)]


def check_report(odd: Odd, code: int, told: Any) -> None:  # noqa: ANN401 - JSON
    """The cause, its grade and its cures, and nothing that is not true."""
    findings = told["findings"]
    shown = json.dumps(findings, indent=1)
    assert [run for run in told["checks"] if run["status"] == "crashed"] == []
    primary = next((finding["cause"] for finding in findings if finding["primary"]), None)
    standing = {finding["cause"] for finding in findings if not finding["follows_from"]}
    allowed = odd.cause.split("|")
    if odd.error and odd.cause:
        assert (primary in allowed, code) == (True, 1), shown
        assert standing == {primary}, shown
    else:
        assert (primary, code) == (None, 0), shown
        assert standing <= set(allowed), shown
        assert standing or "" in allowed, shown
    cures = [f"{fix['text']} {' '.join(fix['command'] or ())}" for finding in findings for fix in finding["fix"]]
    assert odd.first in " ".join(cures[:2]), shown
    assert [cure for cure in cures if any(words in cure for words in odd.unsaid)] == [], shown


def check_mending(visit: Visit, code: int) -> None:
    """What may be mended is, as one transaction that can be undone; everything else stays as it is."""
    odd, before = visit.odd, visit.held()
    ended, told, said = visit.report("--fix", "--yes")
    if odd.mended is None:
        assert ended == (code if odd.code is None else odd.code), said
        assert told["repair"]["status"] == ("nothing-to-mend" if odd.code is None else "failed"), told["repair"]
        assert visit.held() == before
        return
    assert told is not None, said
    assert told["repair"]["status"] == "mended", (told["repair"], said)
    left = [finding for finding in told["findings"] if finding["severity"] != "note"]
    assert (ended, left) == (0, []), json.dumps(left, indent=1)
    there = told_by_metadata(visit.place.prefix)
    assert {name: there.get(name) for name in odd.mended} == odd.mended
    assert len([name for name in there if name.startswith("cupy")]) == 1, there
    assert visit.held()[1:] == before[1:], "what is not the environment's own was changed"
    undone = visit.call("rollback", told["repair"]["transaction"])
    assert undone.returncode == 0, undone.stderr
    assert visit.held() == before


def told_by_metadata(prefix: Path) -> dict[str, str]:
    """Name and version of each distribution; nothing reads what others have left in any encoding."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in site(prefix).glob("*.dist-info/METADATA")]
    return dict(re.findall(r"^(?:Name|Version): (\S+)", text, re.MULTILINE)[:2] for text in texts)


def check_lock(visit: Visit) -> None:
    """A lock writes nothing into the environment, whatever it says."""
    before = visit.held()
    done = visit.call("lock", *visit.odd.machine)
    by_pip = done.returncode == 2 and "--format requirements" in done.stderr
    assert by_pip or done.returncode in (0, 3, 7), done.stderr
    assert visit.held() == before


def check_install(visit: Visit) -> None:
    before = visit.held()
    done = visit.call("install", "--yes", *visit.odd.machine)
    assert done.returncode == visit.odd.install, done.stderr
    if done.returncode == 0 and visit.held() != before:
        undone = visit.call("rollback")
        assert undone.returncode == 0, undone.stderr
    assert visit.held() == before


ALL = (*HEALTHY, *LEFTOVERS, *LAYERS, *LINES, *FURTHER)


@pytest.mark.long
@pytest.mark.parametrize("odd", ALL, ids=str)
def test_an_environment(sandbox: Sandbox, odd: Odd) -> None:
    if odd.without_rights and os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("only setpriv takes root's rights away")
    visit = Visit(sandbox, odd)
    code, told, _ = visit.report()
    check_report(odd, code, told)
    check_lock(visit)
    check_mending(visit, code)
    if odd.install is not None:
        check_install(visit)


def test_there_are_many_and_each_once() -> None:
    assert len({str(odd) for odd in ALL}) == len(ALL) >= 40
    assert len([odd for odd in ALL if not odd.cause]) >= 8


@pytest.mark.long
def test_what_was_installed_before_a_rename_is_rolled_back_after_it(sandbox: Sandbox) -> None:
    target = sandbox.target("before", *BOTH)
    former = contents(target)
    assert sandbox.install(target).returncode == 0
    after = target.rename(sandbox.folder / "after")
    done = sandbox.gpuenv("rollback", "--python", after)
    assert done.returncode == 0, done.stderr
    assert contents(after) == former


@pytest.mark.long
def test_a_copy_is_rolled_back_or_left_alone(sandbox: Sandbox) -> None:
    """Backups, and images that are made layer by layer, give every file another number."""
    target = sandbox.target("original", *BOTH)
    former = contents(target)
    assert sandbox.install(target).returncode == 0
    copy = sandbox.folder / "copy"
    shutil.copytree(target, copy, symlinks=True)
    new = contents(copy)
    done = sandbox.gpuenv("rollback", "--python", copy)
    assert contents(copy) == (former if done.returncode == 0 else new), done.stderr
    assert done.returncode in (0, 4), done.stderr


@pytest.mark.long
def test_a_lock_is_installed_in_another_environment(sandbox: Sandbox, tmp_path: Path) -> None:
    """What was locked in one that is whole is what one with two lines is brought to."""
    whole, broken = sandbox.target("whole", *SOUND), sandbox.target("broken", *BOTH)
    lock = tmp_path / "pylock.toml"
    done = sandbox.gpuenv("lock", "--python", whole, *MACHINE, "-o", lock)
    assert done.returncode == 0, done.stderr
    former = contents(broken)
    done = sandbox.install(broken, "--locked", lock)
    assert done.returncode == 0, done.stderr
    assert versions(broken)["cupy-cuda12x"] == "14.2.0"
    assert "cupy-cuda11x" not in versions(broken)
    assert sandbox.gpuenv("rollback", "--python", broken).returncode == 0
    assert contents(broken) == former


@pytest.mark.long
def test_names_that_differ_in_case_are_one_distribution(sandbox: Sandbox) -> None:
    """Old builds spell the folder of their metadata as the project spells its name."""
    target = sandbox.target("spelt", *BOTH)
    info = site(target) / "cupy_cuda11x-13.6.0.dist-info"
    spelt = info.rename(site(target) / "CuPy_CUDA11x-13.6.0.dist-info")
    for name, old, new in (("METADATA", "cupy-cuda11x", "CuPy-CUDA11x"), ("RECORD", info.name, spelt.name)):
        text = (spelt / name).read_text(encoding="utf-8")
        (spelt / name).write_text(text.replace(old, new), encoding="utf-8")
    odd = Odd("spelt otherwise", lambda _: Place(target), "multiple-cupy-packages", mended={"cupy-cuda12x": "14.2.0"})
    visit = Visit(sandbox, replace(odd))
    code, told, _ = visit.report()
    check_report(odd, code, told)
    check_mending(visit, code)
