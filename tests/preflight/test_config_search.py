"""The search for a configuration ends where other users can write; a named file is always read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from gpuenv.files import others_access
from gpuenv.preflight.config import find_config
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

OTHER = 12345
DEMANDS = 'require = ["gpu>=99"]\n'
PROJECT = f"[tool.gpuenv]\n{DEMANDS}"
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root: changes owners")


def search(folder: Path) -> tuple[Path | None, list[str]]:
    """The found file, and the announced sentences."""
    ignored: list[str] = []
    found = find_config(folder, ignored.append)
    return found and found.path, ignored


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "machine.json"
    write_snapshot(FIT, path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in a folder in which the attack of a test lies."""
    folder = tmp_path / "shared/mine"
    folder.mkdir(parents=True)
    return folder


@needs_root
@pytest.mark.parametrize(
    ("command", "mode", "name"),
    [
        ("doctor", 0o755, "gpuenv.toml"),
        ("doctor", 0o1777, "pyproject.toml"),
        ("preflight", 0o1777, "gpuenv.toml"),
        ("preflight", 0o777, "pyproject.toml"),
    ],
)
def test_a_file_in_a_folder_of_another_user_changes_no_verdict(
    folder: Path, machine: Path, command: str, mode: int, name: str
) -> None:
    text, code = ("unknown = 1\n", 2) if command == "doctor" else (DEMANDS, 1)  # the exit code if the file is read
    path = folder.parent / name
    path.write_text(text if name == "gpuenv.toml" else f"[tool.gpuenv]\n{text}")
    os.chown(path, OTHER, OTHER)
    if mode == 0o755:
        os.chown(folder.parent, OTHER, OTHER)
    folder.parent.chmod(mode)
    result = gpuenv(command, "--snapshot", machine, cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    reason = f"belongs to another user (uid {OTHER})" if mode == 0o755 else "is writable by every user"
    (line,) = result.stderr.splitlines()
    assert line.endswith(f"{path} is ignored: {folder.parent} {reason}; --config FILE reads it")
    assert gpuenv(command, "--snapshot", machine, "--config", path, cwd=folder).returncode == code


@needs_root
def test_the_working_folder_of_another_user_has_no_configuration(folder: Path) -> None:
    path = folder / "gpuenv.toml"
    path.write_text(DEMANDS)
    os.chown(folder, OTHER, OTHER)
    assert search(folder) == (
        None,
        [f"{path} is ignored: {folder} belongs to another user (uid 12345); --config FILE reads it"],
    )


@needs_root
def test_a_file_of_another_user_in_an_own_folder_is_ignored(folder: Path) -> None:
    """Also through a link, and through a link of the other user's project file; the search goes on above it."""
    above = folder.parent / "pyproject.toml"
    above.write_text(PROJECT)
    for name in ("gpuenv.toml", "pyproject.toml"):
        target = folder.parent / f"target-of-{name}"
        target.write_text(PROJECT)
        os.chown(target, OTHER, OTHER)
        (folder / name).symlink_to(target)
    found, ignored = search(folder)
    assert found == above
    assert [line.partition(" is ignored: it belongs to another user")[0] for line in ignored] == [
        str(folder / "gpuenv.toml"),
        str(folder / "pyproject.toml"),
    ]


@pytest.mark.parametrize("mode", [0o602, 0o646, 0o666])
def test_a_file_that_everyone_can_write_is_ignored(folder: Path, mode: int) -> None:
    path = folder / "gpuenv.toml"
    path.write_text(DEMANDS)
    path.chmod(mode)
    assert search(folder) == (None, [f"{path} is ignored: it is writable by every user; --config FILE reads it"])


@needs_root
def test_write_permission_of_another_group_counts_and_that_of_an_own_group_does_not(folder: Path) -> None:
    path = folder / "gpuenv.toml"
    path.write_text(DEMANDS)
    path.chmod(0o664)
    assert search(folder) == (path, [])
    os.chown(path, 0, OTHER)
    assert search(folder)[0] is None
    os.chown(path, 0, 0)
    folder.chmod(0o2775)
    assert search(folder) == (path, [])
    os.chown(folder, 0, OTHER)
    folder.chmod(0o2775)
    assert search(folder)[0] is None
    folder.chmod(0o2755)
    assert search(folder) == (path, [])


def test_links_to_own_files_are_followed(folder: Path) -> None:
    target = folder.parent / "kept.toml"
    target.write_text(DEMANDS)
    (folder / "gpuenv.toml").symlink_to(target)
    assert search(folder) == (folder / "gpuenv.toml", [])


@pytest.mark.parametrize("mark", [".git", ".git file", ".hg", ".svn", ".jj", "_darcs"])
def test_the_search_ends_at_the_root_of_a_repository(folder: Path, mark: str) -> None:
    above, root = folder.parents[1] / "gpuenv.toml", folder.parent
    above.write_text(DEMANDS)
    if mark == ".git file":  # of git worktree
        (root / ".git").write_text("gitdir: /elsewhere\n")
    else:
        (root / mark).mkdir()
    assert search(folder) == (None, [])
    (root / "pyproject.toml").write_text(PROJECT)
    assert search(folder) == (root / "pyproject.toml", [])


@needs_root
@pytest.mark.parametrize("kind", ["huge", "not TOML", "binary", "FIFO", "socket", "folder", "loop", "closed", "silent"])
def test_nothing_in_a_shared_folder_ends_the_program(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``silent`` is a project file without gpuenv: it is not worth a message."""
    folder.parent.chmod(0o1777)
    path = folder.parent / "pyproject.toml"
    contents = {"huge": b"#gpuenv\n" * 800_000, "not TOML": b"[tool.gpuenv\n", "binary": b"\xff[tool.gpuenv]\n\xfe"}
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            monkeypatch.chdir(path.parent)
            server.bind(path.name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_bytes(contents.get(kind, b'[project]\nname = "other"\n'))
    if kind == "closed":
        path.chmod(0)
    os.chown(path, OTHER, OTHER, follow_symlinks=False)
    found, ignored = search(folder)
    assert found is None
    assert ["is ignored" in line for line in ignored] == [True] * (kind in contents)


@needs_root
def test_an_unreadable_file_of_another_user_is_ignored(folder: Path) -> None:
    """Root reads everything: a user without rights searches."""
    path = folder / "gpuenv.toml"
    path.write_text(DEMANDS)
    path.chmod(0o600)
    os.chown(path, OTHER, OTHER)
    program = (
        "import os, pathlib\nfrom gpuenv.preflight.config import find_config\n"
        "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\nprint(find_config(pathlib.Path.cwd(), print))"
    )
    temporary = tempfile.gettempdir()
    for above in (folder, *folder.parents):
        if above.is_relative_to(temporary) and str(above) != temporary:
            above.chmod(0o755)
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    assert (
        result.stdout == f"{path} is ignored: it belongs to another user (uid {OTHER}); --config FILE reads it\nNone\n"
    )


@needs_root
def test_the_opened_file_is_judged_and_not_its_path(folder: Path) -> None:
    """A file that is exchanged between a look at its path and its opening changes nothing: a process exchanges it."""
    path, own, foreign = (folder / name for name in ("gpuenv.toml", "own", "foreign"))
    own.write_text("timeout = 5\n")
    foreign.write_text(DEMANDS)
    os.chown(foreign, OTHER, OTHER)
    exchanges = "; ".join(f"ln -sf {name} new; mv -T new gpuenv.toml" for name in ("own", "foreign"))
    contents = set()
    with subprocess.Popen(["sh", "-c", f"while :; do {exchanges}; done"], cwd=folder) as exchange:
        try:
            for _ in range(2000):
                found = find_config(folder, lambda _: None)
                contents.add(found and found.raw)
        finally:
            exchange.kill()
    assert path.is_symlink()
    assert contents <= {None, b"timeout = 5\n"}
    assert others_access(own.stat()) is None
