"""As root, the environment of another user is examined as that user, or not at all."""

from __future__ import annotations

import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gpuenv.probe.children import ChildGroup
from gpuenv.probe.context import ProbeContext, run_target, script
from gpuenv.probe.interpreters import ForeignTargetError, identity_for
from gpuenv.smoke.runner import RunSettings, list_devices
from tests.cli.program import MINIMAL, gpuenv
from tests.probe.venvs import interpreter_of, make_venv, site_packages

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM = "/usr/bin/python3"  # which every user can execute, unlike one in root's home
OTHER, THIRD = 12345, 12346
pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0 or not os.access(SYSTEM, os.X_OK), reason="needs root"
)
HOOK = (
    "import os; open({log!r}, 'a').write(repr((os.geteuid(), os.getegid(), os.getcwd(), dict(os.environ))) + '\\n')\n"
)
DOCTOR = ("doctor", "--timeout", "20", "--driver-root", "/nonexistent")


class Shared(NamedTuple):
    """A folder that every user can enter, with an environment, and the log of its starts."""

    folder: Path

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def python(self) -> str:
        return str(interpreter_of(self.venv))

    @property
    def hook(self) -> Path:
        return site_packages(self.venv) / "hook.pth"

    def starts(self) -> list[tuple[int, int, str, dict[str, str]]]:
        """User, group, working folder and variables of each start of an interpreter since the last call."""
        log = self.folder / "log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        log.write_text("", encoding="utf-8")
        log.chmod(0o666)
        return [eval(line) for line in lines]  # noqa: S307 - the test's own text

    def users(self) -> set[int]:
        return {start[0] for start in self.starts()}


@functools.cache
def is_gpuenv_readable() -> bool:
    """Whether another user can read this checkout, which may lie in root's home."""
    command = [
        "setpriv",
        "--reuid",
        str(OTHER),
        "--regid",
        str(OTHER),
        "--clear-groups",
        "test",
        "-r",
        script("start.py"),
    ]
    return subprocess.run(command, check=False).returncode == 0


def give(path: Path, uid: int = OTHER) -> None:
    """Makes a file, or a folder with all that is in it, another user's; skips the test where that user cannot help."""
    if uid and not is_gpuenv_readable():
        pytest.skip("another user cannot read the files of gpuenv, and nothing is examined as that user")
    for entry in [path, *path.rglob("*")]:
        os.chown(entry, uid, uid, follow_symlinks=False)


@pytest.fixture
def shared() -> Iterator[Shared]:
    with tempfile.TemporaryDirectory(prefix="gpuenv-other-") as name:
        made = Shared(Path(name))
        made.folder.chmod(0o755)
        make_venv(made.venv, SYSTEM)
        made.hook.write_text(HOOK.format(log=str(made.folder / "log")), encoding="utf-8")
        made.starts()
        yield made


def report(*arguments: str, **variables: str) -> dict[str, Any]:
    done = gpuenv(*arguments, "--format", "json", environment=variables)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "by", ["--python", "VIRTUAL_ENV", *(pytest.param(by, marks=pytest.mark.long) for by in ("CONDA_PREFIX", "PATH"))]
)
def test_the_doctor_examines_the_environment_as_its_owner(shared: Shared, by: str) -> None:
    give(shared.venv)
    arguments = (*DOCTOR, "--python", str(shared.venv)) if by == "--python" else DOCTOR
    values = {"PATH": f"{shared.venv}/bin:{os.defpath}"}
    found = report(*arguments, **({} if by == "--python" else {by: values.get(by, str(shared.venv))}))
    target = found["snapshot"]["target"]
    assert target["python"]["value"] is not None
    assert target["examined_as"]["value"] == f"uid {OTHER}"
    starts = shared.starts()
    assert {(uid, gid) for uid, gid, *_ in starts} == {(OTHER, OTHER)}


def test_the_text_shows_the_user_only_where_it_is_another(shared: Shared) -> None:
    assert "examined as" not in gpuenv(*DOCTOR, "--python", shared.venv).stdout
    assert shared.users() == {0}
    give(shared.venv)
    assert f"examined as uid {OTHER}" in gpuenv(*DOCTOR, "--python", shared.venv).stdout
    assert shared.users() == {OTHER}


FOREIGN = {
    "a start-up file": "lib/python*/site-packages/hook.pth",
    "the folder of packages": "lib/python*/site-packages",
    "the settings": "pyvenv.cfg",
    "the link to the interpreter": "bin/python3",
    "the folder of programs": "bin",
    "the folder of the environment": ".",
    "an installed package": "lib/python*/site-packages/package",
    "a module": "lib/python*/site-packages/module.py",
    "an archive on the path": "../archive.egg",
    "a folder on the way": "..",
    "a module of a package": "lib/python*/site-packages/package/__init__.py",
    "a module of an editable project": "../project/module.py",
    "an editable project": "../project",
    "a start-up file of an editable project": "../project/sitecustomize.py",
}


@pytest.mark.long
@pytest.mark.parametrize("part", FOREIGN)
def test_one_file_of_another_user_suffices(shared: Shared, part: str) -> None:
    project = shared.folder / "project"
    project.mkdir()
    (project / "sitecustomize.py").touch()
    (project / "module.py").touch()
    lines = f"{project}\n{shared.folder}/archive.egg\n"
    (site_packages(shared.venv) / "editable.pth").write_text(lines, encoding="utf-8")
    (shared.folder / "archive.egg").touch()
    (site_packages(shared.venv) / "module.py").touch()
    (site_packages(shared.venv) / "package").mkdir()
    (site_packages(shared.venv) / "package/__init__.py").touch()
    (site_packages(shared.venv) / "null.pth").write_bytes(b"x\0y\n")
    (site_packages(shared.venv) / ".lock").touch()
    (site_packages(shared.venv) / ".lock").chmod(0o666)  # as uv leaves it
    if not is_gpuenv_readable():
        pytest.skip("another user cannot read the files of gpuenv")
    (path,) = [shared.venv / FOREIGN[part]] if FOREIGN[part].startswith(".") else shared.venv.glob(FOREIGN[part])
    os.chown(path, OTHER, OTHER, follow_symlinks=False)
    found = report(*DOCTOR, "--python", shared.python)
    assert found["snapshot"]["target"]["examined_as"]["value"] == f"uid {OTHER}"
    assert shared.users() == {OTHER}


@pytest.mark.long
def test_links_and_settings_are_followed_to_the_base_interpreter(shared: Shared) -> None:
    """The environment is root's, and its base interpreter is another user's."""
    base = shared.folder / "base"
    (base / "bin").mkdir(parents=True)
    shutil.copy2(os.path.realpath(SYSTEM), base / "bin/python3")
    version = os.path.basename(os.path.realpath(SYSTEM))  # noqa: PTH119
    (base / "lib").mkdir()
    (base / "lib" / version).symlink_to(f"/usr/lib/{version}")
    give(base)
    for name in ("python", "python3"):
        (shared.venv / "bin" / name).unlink(missing_ok=True)
        (shared.venv / "bin" / name).symlink_to(base / "bin/python3")
    report(*DOCTOR, "--python", str(shared.venv))
    assert shared.users() <= {OTHER}
    # An environment with a copy of root's own interpreter, whose settings name the other user's library.
    (shared.venv / "bin/python3").unlink()
    shutil.copy2(os.path.realpath(SYSTEM), shared.venv / "bin/python3")
    (shared.venv / "pyvenv.cfg").write_text(f"home = {base}/bin\n", encoding="utf-8")
    report(*DOCTOR, "--python", str(shared.venv))
    assert shared.users() <= {OTHER}


@pytest.mark.long
def test_an_environment_is_its_owners_whoever_owns_its_base_interpreter(shared: Shared) -> None:
    """As on a cluster, where one user installs the interpreters, and others make environments of them."""
    base = shared.folder / "base"
    (base / "bin").mkdir(parents=True)
    shutil.copy2(os.path.realpath(SYSTEM), base / "bin/python3")
    give(base, THIRD)
    for name in ("python", "python3"):
        (shared.venv / "bin" / name).unlink(missing_ok=True)
        (shared.venv / "bin" / name).symlink_to(base / "bin/python3")
    give(shared.venv)
    found = report(*DOCTOR, "--python", str(shared.venv))
    assert found["snapshot"]["target"]["examined_as"]["value"] == f"uid {OTHER}"
    assert shared.users() <= {OTHER}


@pytest.mark.long
@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONUSERBASE", "HOME"])
def test_variables_do_not_make_root_run_code_of_another_user(shared: Shared, variable: str) -> None:
    version = os.path.basename(os.path.realpath(SYSTEM))  # noqa: PTH119
    folder = shared.folder / "other"
    places = {
        "PYTHONPATH": folder,
        "PYTHONUSERBASE": folder / f"lib/{version}/site-packages",
        "HOME": folder / f".local/lib/{version}/site-packages",
    }
    places[variable].mkdir(parents=True)
    text = HOOK.format(log=str(shared.folder / "log"))
    name = "hook.pth" if variable != "PYTHONPATH" else "usercustomize.py"
    (places[variable] / name).write_text(text, encoding="utf-8")
    shared.folder.chmod(0o755)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    report(*DOCTOR, "--python", SYSTEM, **{variable: str(folder)})
    assert shared.users() == {0}, "root's own hooks are run"
    give(folder)
    report(*DOCTOR, "--python", SYSTEM, **{variable: str(folder)})
    assert shared.users() <= {OTHER}


@pytest.mark.long
@pytest.mark.parametrize("variable", ["PATH", "CUDA_HOME"])
def test_a_tool_of_another_user_is_not_run_as_root(shared: Shared, variable: str) -> None:
    folder = shared.folder / "cuda"
    (folder / "bin").mkdir(parents=True)
    for name in ("nvcc", "nvidia-smi"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\nid -u >> {shared.folder}/tools\n", encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    (folder / "include").mkdir()
    (folder / "include/cuda.h").write_text("#define CUDA_VERSION 12040\n", encoding="utf-8")
    (folder / "include/cuda_runtime_api.h").write_text("#define CUDART_VERSION 12040\n", encoding="utf-8")
    (folder / "version.json").write_text('{"cuda": {"version": "12.4.0"}}', encoding="utf-8")
    log = shared.folder / "tools"
    value = f"{folder}/bin:{os.defpath}" if variable == "PATH" else str(folder)
    expected = []
    for owner, part in ((0, folder), (OTHER, shared.folder), (OTHER, folder)):
        os.chown(shared.folder, 0, 0)
        give(folder, 0)
        os.chown(part, owner, owner)
        log.write_text("", encoding="utf-8")
        log.chmod(0o666)
        gpuenv("probe", "--timeout", "20", "--python", SYSTEM, environment={variable: value})
        expected.append(set(log.read_text(encoding="utf-8").split()))
    assert expected == [{"0"}, {str(OTHER)}, {str(OTHER)}]


def test_the_child_gets_no_secret_and_the_home_of_its_user(shared: Shared) -> None:
    give(shared.venv)
    secrets = {
        "DB_PASS": "sesame",
        "GH_PAT": "sesame",
        "SETTING": "ghp_sesamesesamesesamesesamesesame0123",
        "LINK": "https://me:sesame@host.example/",
        "DATABASE": "Server=host.example;Password=sesame-Zq7",
    }
    folders = {"HOME": "/root", "XDG_CACHE_HOME": "/root/.cache", "TMPDIR": "/root", "CUPY_CACHE_DIR": "/root/cupy"}
    report(*DOCTOR, "--python", shared.python, **secrets, **folders, KEPT="yes")
    for _, _, folder, variables in shared.starts():
        assert "sesame" not in repr(variables)
        assert "/root" not in variables["HOME"]
        assert not {"XDG_CACHE_HOME", "TMPDIR", "CUPY_CACHE_DIR"} & variables.keys()
        assert variables["KEPT"] == "yes"
        assert not Path(folder).exists(), "its working folder is removed"


# Owner, group and mode of the folder of packages.
REFUSED = {
    "every user": (0, 0, 0o777),
    "another group": (0, 54321, 0o775),
    "several users": (THIRD, THIRD, 0o755),
    "unknown users": (65534, 65534, 0o755),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_environment_without_one_owner_is_refused(shared: Shared, why: str) -> None:
    uid, gid, mode = REFUSED[why]
    os.chown(site_packages(shared.venv), uid, gid)
    site_packages(shared.venv).chmod(mode)
    if uid == THIRD:
        os.chown(shared.venv / "pyvenv.cfg", OTHER, OTHER)
    with pytest.raises(ForeignTargetError, match=why) as refused:
        identity_for(shared.python, {})
    assert "To run it as root: --as-root" in refused.value.remedy


OTHER_COMMANDS = ("probe", "preflight", "smoke", "resolve", "lock", "rollback --list")


@pytest.mark.parametrize(
    "command", ["doctor", *(pytest.param(name, marks=pytest.mark.long) for name in OTHER_COMMANDS)]
)
def test_every_command_refuses_an_environment_that_every_user_can_change(shared: Shared, command: str) -> None:
    site_packages(shared.venv).chmod(0o777)
    done = gpuenv(*command.split(), "--python", shared.venv)
    assert done.returncode == 2, done.stderr
    assert "is writable by every user" in done.stderr
    assert "--as-root" in done.stderr
    assert not shared.starts()


def test_with_as_root_it_is_run_as_root(shared: Shared) -> None:
    give(shared.venv)
    found = report(*DOCTOR, "--as-root", "--python", shared.python)
    assert found["snapshot"]["target"]["examined_as"]["value"] is None
    assert shared.users() == {0}


def test_a_process_that_cannot_change_its_user_refuses(shared: Shared) -> None:
    give(shared.venv)
    command = [
        "setpriv",
        "--bounding-set",
        "-setuid",
        sys.executable,
        "-m",
        "gpuenv",
        *DOCTOR,
        "--python",
        shared.python,
    ]
    done = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "Operation not permitted" in done.stderr
    assert not shared.starts()


@pytest.mark.long
@pytest.mark.parametrize(
    "command", ["install", "install --dry-run", "rollback", "rollback --list", "lock", "doctor --fix --yes --offline"]
)
def test_nothing_is_changed_in_an_environment_of_another_user(shared: Shared, command: str) -> None:
    give(shared.venv)
    before = {path: path.lstat().st_mtime_ns for path in shared.venv.rglob("*")}
    done = gpuenv(*command.split(), "--python", shared.venv, *(["--no-config"] if "doctor" in command else []))
    assert f"sudo -u '#{OTHER}' gpuenv" in done.stderr or "doctor" in command, done.stderr
    assert done.returncode in (1, 2), done.stderr
    assert shared.users() <= {OTHER}
    assert {path: path.lstat().st_mtime_ns for path in shared.venv.rglob("*")} == before


def test_the_gpu_tests_run_as_the_owner(shared: Shared) -> None:
    give(shared.venv)
    list_devices(RunSettings(shared.python, dict(MINIMAL), "/"), 20)
    starts = shared.starts()
    assert starts
    for uid, gid, folder, variables in starts:
        assert (uid, gid) == (OTHER, OTHER)
        assert variables["HOME"] == folder


def test_the_scripts_run_in_an_empty_folder(shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("interpreter", "scheme"):
        ctx = ProbeContext(MINIMAL, "/", time.monotonic() + 20, ChildGroup())
        assert run_target(ctx, shared.python, name).exit_code == 0
    folders = {start[2] for start in shared.starts()}
    assert len(folders) == 2
    assert all(Path(folder).parent == tmp_path for folder in folders)
    assert not list(tmp_path.iterdir())


def test_the_root_of_a_user_namespace_examines_as_itself() -> None:
    """It has the rights of its user only, and the files of the host's root belong to an unknown user there."""
    namespace = ("setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "unshare", "-Ur")
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("user namespaces are not allowed here")
    script = "import sys; from gpuenv.probe.interpreters import identity_for; print(identity_for(sys.argv[1], {}))"
    command = [*namespace, "env", f"PYTHONPATH={':'.join(filter(None, sys.path))}", "python3", "-c", script]
    done = subprocess.run([*command, "/usr/bin/python3"], capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_an_access_control_list_counts(shared: Shared) -> None:
    packages = site_packages(shared.venv)
    packages.chmod(0o775)
    # linux/posix_acl_xattr.h: the owner, a named user, the group, the mask and all others; each with its permissions.
    entries = ((1, 7, -1), (2, 7, OTHER), (4, 5, -1), (16, 7, -1), (32, 5, -1))
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(packages, "system.posix_acl_access", value)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    expected = rf"site-packages is writable by another user \(uid {OTHER}\), by its access control list"
    with pytest.raises(ForeignTargetError, match=expected):
        identity_for(shared.python, {})
