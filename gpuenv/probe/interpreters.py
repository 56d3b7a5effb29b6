"""Starts the interpreters of target environments: the only way in which gpuenv runs the code of a target.

Each child starts in an empty folder of its own, so that it imports nothing from the caller's. If root examines the
environment of another user, the child runs as that user, see ``identity_for``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import time

from gpuenv.files import others_access, read_regular, steps
from gpuenv.model.secrets import without_secrets
from gpuenv.model.strings import Lines
from gpuenv.probe.children import ChildResult, Ending, UserIdentity, run_child
from gpuenv.probe.target import TargetError

TYPE_CHECKING = False  # imported before the first child starts; typing_extensions and pathlib are not needed
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpuenv.probe.children import ChildGroup

AS_ROOT = "GPUENV_AS_ROOT"  # set by --as-root: code of other users is run as root
_SETTINGS, _LARGEST_SETTINGS = "pyvenv.cfg", 65536
_PACKAGES = ("site-packages", "dist-packages")
_MODULES = (".pth", ".py", ".pyc", ".so")
_HOOKS = ("sitecustomize.py", "usercustomize.py")
_START_UP = (*_HOOKS, "__pycache__", "encodings", "lib-dynload", "os.py", "site.py")
_LINKS = 40  # the kernel's own limit
_OVERFLOW_UID = 65534  # shown for users outside of a user namespace, user_namespaces(7)
# Beginnings of variables that name the caller's folders.
_CALLERS_FOLDERS = (
    *("MAIL", "SUDO_", "XDG_", "TMP", "TEMP"),
    *("CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"),
)
_FIRST_OF_USERS = 1000  # group id, login.defs(5); lower ones belong to the system
# A trial with that identity, before code of the target runs; the arguments are a file of gpuenv and the interpreter.
_TRIAL = """
test -r "$1" || { echo "that user cannot read $1; install gpuenv where every user can, such as below /opt"; exit 2; }
test -z "$2" || test -x "$2" || { echo "that user cannot execute it"; exit 3; }
"""
_UNREADABLE = (2, 3)  # its exit codes
_TRIAL_SECONDS = 10.0
# What -m does, without the working folder on sys.path: -P needs Python 3.11, and -I hides the user's own packages.
_RUN_MODULE = (
    "import sys; sys.path = [path for path in sys.path if path]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class ForeignTargetError(TargetError):
    """Another user can change the target, and it cannot be run as that user; ``remedy`` says what to do."""

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__(message)
        self.remedy = Lines(remedy)


def identity_for(interpreter: str, environment: Mapping[str, str]) -> UserIdentity | None:
    """The user as whom root runs an interpreter; None for this process's own identity.

    It is the only user except root who owns, or can change, what the interpreter executes or loads when it starts.

    Raises:
        ForeignTargetError: when several users can change it.
    """
    if not _is_root() or environment.get(AS_ROOT) == "1" or _is_own(interpreter):
        return None
    names = ("PYTHONHOME", "PYTHONPATH")
    return _kept_identity(os.path.abspath(interpreter), tuple((name, environment.get(name, "")) for name in names))


@functools.lru_cache
def _kept_identity(interpreter: str, variables: tuple[tuple[str, str], ...]) -> UserIdentity | None:
    """Returns the result of ``identity_for``, which is cached, since only that user can change it later.

    An environment names its base interpreter, so the owner of the environment decides before that of the interpreter.
    """
    examined: set[str] = set()  # root owns all of them; the links of one interpreter lead to the same paths
    for path, paths in _layers(interpreter, dict(variables)):
        unexamined = [each for each in dict.fromkeys(paths) if each not in examined]
        identity = _only_owner(interpreter, path, unexamined)
        if identity is not None:
            return identity
        examined.update(unexamined)
    return None


def _only_owner(program: str, path: str, others: Sequence[str] = ()) -> UserIdentity | None:
    """Returns the only user except root who owns some of the paths, or of the folders and links that lead to them.

    None if root owns everything.

    Args:
        program: the program to start, for the message.
        path: the program, or a link that leads to it; a link is not followed.
        others: further paths, whose links are followed.

    Raises:
        ForeignTargetError: when another user can change them, too.
    """
    ways = (os.path.dirname(path), *(way if os.path.islink(way) else os.path.dirname(way) for way in others))
    found = (*_statuses((path,), follow=False), *_statuses(others), *_on_the_way(ways))
    owners = {status.st_uid: (owned, status) for owned, status in reversed(found) if status.st_uid}
    if len(owners) > 1 or _OVERFLOW_UID in owners:
        users = "unknown users" if len(owners) == 1 else "several users"
        files = ", ".join(f"{owned} to uid {uid}" for uid, (owned, _) in sorted(owners.items()))
        raise _refusal(program, f"its files belong to {users}: {files}")
    identity = next((_identity(uid, status) for uid, (_, status) in owners.items()), None)
    uid, groups = (identity.uid, identity.groups) if identity else (0, (os.getegid(), *os.getgroups()))
    for changed, status in found:
        has_no_writer = status.st_mode & stat.S_IWGRP and _has_no_members(status.st_gid)
        trusted = (*groups, status.st_gid) if has_no_writer else groups
        access = None if stat.S_ISLNK(status.st_mode) else others_access(status, uid, trusted, changed)
        if access is not None:
            raise _refusal(program, f"{changed} {access}", remedy=_write_protection(program, changed))
    return identity


def examining_identity(interpreter: str, environment: Mapping[str, str], needed: str) -> UserIdentity | None:
    """The user of ``identity_for``, after a trial whether this process can run programs as that user.

    ``needed`` is a file of gpuenv that the user must be able to read.

    Raises:
        ForeignTargetError: also when the trial fails.
    """
    identity = identity_for(interpreter, environment)
    if identity is None:
        return None
    # The doctor reports an interpreter that root cannot execute either.
    command = ["/bin/sh", "-c", _TRIAL, "sh", needed, interpreter if os.access(interpreter, os.X_OK) else ""]
    result = run_child(command, {}, time.monotonic() + _TRIAL_SECONDS, folder=os.sep, identity=identity)
    if result.exit_code != 0:
        reason = result.error or result.stdout.strip() or result.ending.value
        owner = f"uid {identity.uid} can change it, and it cannot be run as that user"
        raise _refusal(interpreter, f"{owner}: {reason}", None if result.exit_code in _UNREADABLE else identity)
    return identity


def refuse_foreign(interpreter: str, environment: Mapping[str, str]) -> None:
    """Refuses to change an environment that belongs to another user.

    Raises:
        ForeignTargetError: when it does.
    """
    identity = identity_for(interpreter, environment)
    if identity is not None:
        raise _refusal(interpreter, f"uid {identity.uid} can change it", identity)


def run_interpreter(
    command: Sequence[str], environment: Mapping[str, str], deadline: float, group: ChildGroup | None
) -> ChildResult:
    """Runs the interpreter of a target in an empty folder, as ``run_child`` does; paths in ``command`` are absolute."""
    command = [os.path.abspath(command[0]), *command[1:]]
    try:
        identity = identity_for(command[0], environment)
    except ForeignTargetError as error:  # examined before, and changed since
        return ChildResult(Ending.NOT_STARTED, None, "", "", str(error), 0.0, time.monotonic())
    with scratch_folder(identity) as folder:
        variables = {**target_variables(environment, folder, identity), "PYTHONIOENCODING": "utf-8"}
        return run_child(command, variables, deadline, group, folder=folder, identity=identity)


def module_command(executable: str, name: str) -> tuple[str, ...]:
    """Returns the arguments that run a module, and no code of the working folder."""
    return (executable, "-c", _RUN_MODULE, name)


def run_tool(command: Sequence[str], environment: Mapping[str, str], deadline: float, group: ChildGroup) -> ChildResult:
    """Runs a tool that a variable such as PATH or CUDA_HOME leads to; root runs another user's tool as that user.

    The paths in its arguments are absolute; the rest is as in ``run_child``.
    """
    program, identity = os.path.abspath(command[0]), None
    try:
        if _is_root() and os.environ.get(AS_ROOT) != "1":
            found = (_only_owner(program, path) for path in _links(program))
            identity = next((owner for owner in found if owner is not None), None)
    except ForeignTargetError as error:
        return ChildResult(Ending.NOT_STARTED, None, "", "", str(error), 0.0, time.monotonic())
    variables = group.marked(_variables_of_user(environment, identity, os.sep) if identity else environment)
    return run_child([program, *command[1:]], variables, deadline, group, folder=os.sep, identity=identity)


def target_variables(
    environment: Mapping[str, str], scratch: str, identity: UserIdentity | None = None, base: str = ""
) -> dict[str, str]:
    """The caller's variables without secrets, for a target's interpreter that starts in the folder ``scratch``.

    Paths in PYTHONPATH become absolute; relative ones begin in ``base``, by default the working folder. Its empty
    entries and dots, which mean the working folder, are removed: nothing is imported from there.
    """
    changed = {**without_secrets(environment), "PYTHONSAFEPATH": "1"}
    if "PYTHONPATH" in changed:
        changed["PYTHONPATH"] = os.pathsep.join(_pythonpath(changed, base))
        if not changed["PYTHONPATH"]:
            del changed["PYTHONPATH"]
    if identity is not None:
        return _variables_of_user(changed, identity, scratch)
    if _is_root() and any(others_access(status) for _, status in _statuses(_user_site(changed))):
        changed["PYTHONNOUSERSITE"] = "1"
    return changed


def _variables_of_user(environment: Mapping[str, str], identity: UserIdentity, scratch: str) -> dict[str, str]:
    """The variables for a child of another user: none names a folder of the caller."""
    user = identity.name or str(identity.uid)
    kept = {name: value for name, value in environment.items() if not name.startswith(_CALLERS_FOLDERS)}
    return {**kept, "HOME": identity.home or scratch, "USER": user, "LOGNAME": user}


@contextlib.contextmanager
def scratch_folder(identity: UserIdentity | None) -> Iterator[str]:
    """An empty folder of the child's user, which is removed at the end; the root folder if none can be created."""
    names = ("TMPDIR", "TEMP", "TMP") if identity is None else ()  # another user may have no access to the caller's
    parent = next((os.environ[name] for name in names if os.environ.get(name)), "/tmp")  # noqa: S108
    folder = os.path.join(parent, f"gpuenv-{os.urandom(8).hex()}")
    try:
        os.mkdir(folder, 0o700)
        if identity is not None:
            os.chown(folder, identity.uid, identity.gid)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        yield os.path.abspath(os.sep)
        return
    try:
        yield folder
    finally:
        try:
            os.rmdir(folder)
        except OSError:  # a core file
            import shutil  # noqa: PLC0415 - slow to import

            shutil.rmtree(folder, ignore_errors=True)


def _is_root() -> bool:
    """Whether this process can act as any user, unlike the root of a user namespace that maps one user only.

    See user_namespaces(7).
    """
    if sys.platform == "win32" or os.geteuid() != 0:
        return False
    try:
        users = [line.split() for line in read_regular("/proc/self/uid_map", 65536).splitlines()]
        return sum(int(number) for _, _, number in users) > 1
    except (OSError, ValueError):  # a kernel without user namespaces
        return True


def _is_own(interpreter: str) -> bool:
    """Whether an interpreter is that of gpuenv's own environment, whose code runs already.

    Compared by name, since another name may be a link that can be changed.
    """
    return os.path.dirname(os.path.dirname(os.path.abspath(interpreter))) == os.path.abspath(sys.prefix)


def _identity(uid: int, status: os.stat_result) -> UserIdentity:
    """The identity of an account, else of a number with the group of its files."""
    import pwd  # noqa: PLC0415 - only on POSIX, and for few targets

    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return UserIdentity(uid, status.st_gid, (status.st_gid,))
    groups = tuple(os.getgrouplist(account.pw_name, account.pw_gid))
    return UserIdentity(uid, account.pw_gid, groups, account.pw_name, account.pw_dir)


def _write_protection(program: str, path: str) -> str:
    """The command that makes the owner the only writer: of the environment, or of a path outside of one."""
    import shlex  # noqa: PLC0415 - for refused programs only

    prefix = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    marks = (os.path.join(prefix, mark) for mark in (_SETTINGS, "conda-meta"))
    inside = path == prefix or path.startswith(f"{prefix}/")
    options = ("-R", "go-w", prefix) if inside and any(map(os.path.lexists, marks)) else ("go-w", path)
    return f"Make its owner the only one who can write to it: {shlex.join(('chmod', *options))}"


def _refusal(
    interpreter: str,
    reason: str,
    identity: UserIdentity | None = None,
    remedy: str = "Make one user the owner of all its files, and the only one who can write to them",
) -> ForeignTargetError:
    if identity is not None:
        user = identity.name or f"'#{identity.uid}'"
        remedy = f"Run gpuenv as that user: sudo -u {user} gpuenv ..."
    return ForeignTargetError(
        f"{interpreter}: root does not run code that another user can change: {reason}",
        remedy,
        "To run it as root: --as-root",
    )


@functools.lru_cache
def _has_no_members(gid: int) -> bool:
    """Whether a group of the system has no member but root, such as Debian's staff, which owns /usr/local."""
    import grp  # noqa: PLC0415 - only on POSIX, and for few targets
    import pwd  # noqa: PLC0415 - the same

    try:
        members = grp.getgrgid(gid).gr_mem
    except KeyError:
        return False
    if gid >= _FIRST_OF_USERS:
        return False
    return set(members) <= {"root"} and not any(entry.pw_gid == gid and entry.pw_uid for entry in pwd.getpwall())


def _statuses(paths: Iterable[str], *, follow: bool = True) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the existing ones of these paths with their status; a link itself first, then its target if followed."""
    for path in paths:
        try:
            status = os.lstat(path)
            target = os.stat(path) if follow and stat.S_ISLNK(status.st_mode) else None
        except (OSError, ValueError):
            continue
        yield path, status
        if target is not None:
            yield path, target


def _on_the_way(paths: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yields every folder and link that these paths lead through.

    It omits root's sticky folders, where users can replace only their own entries.
    """
    seen: set[str] = set()
    for way in dict.fromkeys(paths):
        for path, status, _ in steps(way):
            if path in seen or path == os.sep:
                continue
            seen.add(path)
            if status.st_uid or not status.st_mode & stat.S_ISVTX:
                yield path, status


def _layers(interpreter: str, environment: Mapping[str, str]) -> Iterator[tuple[str, Iterable[str]]]:
    """Yields an interpreter with the paths that it may load when it starts, then each interpreter it leads to with its.

    A link or ``pyvenv.cfg`` leads to another interpreter. The paths of the variables come with the first.
    """
    prefixes = [prefix for prefix in environment.get("PYTHONHOME", "").split(os.pathsep) if prefix]
    packages = [path for folder in _pythonpath(environment) for path in _of_packages(folder)]
    for path in _links(interpreter):
        folder = os.path.dirname(path)
        prefixes.append(os.path.dirname(folder))
        prefixes += [folder] if os.path.lexists(os.path.join(folder, _SETTINGS)) else []
        yield path, (folder, *packages, *(part for prefix in prefixes for part in _start_up_paths(prefix)))
        for home in filter(None, map(_home_in, prefixes)):
            yield home, (home, *_start_up_paths(os.path.dirname(home)))
        prefixes, packages = [], []


def _links(path: str) -> Iterator[str]:
    """Yields a path and what its links lead to."""
    for _ in range(_LINKS):
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.readlink(path)))


def _start_up_paths(prefix: str) -> Iterator[str]:
    """Yields the folder of a Python installation, and what Python loads from it at its start; else nothing."""
    settings = os.path.join(prefix, _SETTINGS)
    roots = (prefix, "/usr/local") if prefix == "/usr" else (prefix,)  # as Debian's site.py
    folders = [lib for root in roots for lib in _entries(root, "lib")]
    libraries = [path for lib in folders for path in _entries(lib, "python", "libpython")]
    if os.path.lexists(settings) or os.path.isdir(os.path.join(prefix, "conda-meta")) or libraries:
        yield from (prefix, settings, *{os.path.dirname(library) for library in libraries})
    for library in libraries:
        yield library
        yield from (os.path.join(library, name) for name in _START_UP)
        for packages in _PACKAGES:
            yield from _of_packages(os.path.join(library, packages))


def _of_packages(folder: str) -> Iterator[str]:
    """Yields a folder of packages, the modules and packages in it, and what its start-up files import from."""
    yield folder
    for path in _importable(folder):
        yield path
        if path.endswith(".pth"):
            yield from _of_path_file(path)


def _importable(folder: str) -> Iterator[str]:
    """Yields the entries of a folder that Python may import; after a package's folder, its ``__init__.py``."""
    for path in _entries(folder, ""):
        name = os.path.basename(path)
        if name.endswith(_MODULES):
            yield path
        elif "." not in name:
            yield from (path, os.path.join(path, "__init__.py"))


def _of_path_file(path: str) -> Iterator[str]:
    """Yields the folders and archives that a .pth file puts on the import path, and the modules in them."""
    try:
        lines = read_regular(path, _LARGEST_SETTINGS).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in filter(None, map(str.rstrip, lines)):
        if not line.startswith(("#", "import ", "import\t")):
            folder = os.path.join(os.path.dirname(path), line)
            yield from (folder, *_importable(folder))


def _home_in(prefix: str) -> str | None:
    """The folder of the base interpreter that the settings of a virtual environment name."""
    try:
        text = read_regular(os.path.join(prefix, _SETTINGS), _LARGEST_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return None
    lines = (line.partition("=") for line in text.splitlines())
    return next((value.strip() for key, _, value in lines if key.strip().lower() == "home"), None) or None


def _pythonpath(environment: Mapping[str, str], base: str = "") -> list[str]:
    entries = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if os.path.normpath(entry or os.curdir) != os.curdir]
    return [os.path.join(base or os.getcwd(), entry) for entry in kept]


def _user_site(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields the folders from which Python loads the user's packages and start-up files."""
    base = environment.get("PYTHONUSERBASE") or os.path.join(environment.get("HOME") or "~", ".local")
    yield from (os.path.dirname(base), base)
    for library in _entries(os.path.join(base, "lib"), "python"):
        yield from (library, *_of_packages(os.path.join(library, "site-packages")))


def _entries(folder: str, *beginnings: str) -> list[str]:
    """The paths in a folder whose names begin with one of these."""
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(beginnings)]
    except (OSError, ValueError):
        return []
