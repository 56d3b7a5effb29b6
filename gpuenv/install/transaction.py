"""Executes a plan: stages new files inside the target, swaps them in, verifies, and commits or rolls back."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gpuenv import __version__
from gpuenv.install.backends.base import complaint, succeeded
from gpuenv.install.backends.uv import Uv
from gpuenv.install.disk_space import refuse_without_room
from gpuenv.install.environment import (
    InstalledDistribution,
    RecordEntry,
    Scheme,
    below,
    digest,
    is_inside,
    read_installed,
    read_inventory,
    read_record,
)
from gpuenv.install.exceptions import (
    DISK_FULL,
    DamagedCache,
    InstallError,
    InstallFailed,
    disk_failure,
    disk_message,
    disk_remedy,
)
from gpuenv.install.journal import AddedFile, Journal, RemovedFile, Store
from gpuenv.install.owned_files import owners
from gpuenv.install.plan import Clock, InstallOutcome, Plan, Result, Verification
from gpuenv.install.planner import PreparedInstall, numbered, summary_of
from gpuenv.install.rollback import failed_outcome, forget_old, restore
from gpuenv.install.solver import remedy_of, settings_hint
from gpuenv.install.swap import CACHE, BackgroundSync, content_digest, everything_in, files_at, move_files, touched
from gpuenv.install.verify import ANOTHER_CUPY, CONSISTENT, DoctorComparison, ImportSettings, verify, working_frameworks
from gpuenv.model.exit_codes import ExitCode
from gpuenv.probe.transactions import TransactionState
from gpuenv.report.text import command_text

_THREADS = 4
_UNCHECKED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")
_LINKS = "They are links into a cache and vanish with it: unset UV_LINK_MODE, or change link-mode in uv.toml."
_UNPACKED = "error: Failed to install"  # uv 0.13.9, for a downloaded or cached file that is not a wheel
_NO_CACHE = "UV_NO_CACHE"
# uv 0.6.15 and 0.13.9, pip 23.2.1: a lock file without the digest or a wheel for this target.
_OTHER_FILES = re.compile(r"hash mismatch|do not match the hashes|no usable wheels|no wheels with", re.IGNORECASE)
_LOCK_REMEDY = (
    "If the lock file was made for another Python or platform, make one for this target: gpuenv lock. Else the index "
    "serves other files than those that were locked: ask its operator."
)
Announce = Callable[[str], None]


class StagedFile(NamedTuple):
    """A file in the stage, with its final path relative to the root of the environment."""

    path: str
    place: str
    status: os.stat_result  # lstat
    entries: tuple[RecordEntry, ...]  # of the RECORDs that list it


class StagedInstall(NamedTuple):
    """The distributions and files in the stage."""

    distributions: tuple[InstalledDistribution, ...]
    files: tuple[StagedFile, ...]


def read_stage(stage: Path, scheme: Scheme) -> StagedInstall:
    """Reads the distributions in the stage and the final paths of their files.

    Raises:
        InstallFailed: when a distribution has no RECORD, or its RECORD lists a missing or outside file.
    """
    metadata: set[str] = set()
    for folder, names, _ in os.walk(stage):
        if any(name.endswith(".dist-info") for name in names):
            metadata.add(folder)
            names.clear()
    found = read_installed(sorted(metadata))
    by_relation = {os.path.relpath(path, scheme.root): path for path in (scheme.purelib, scheme.platlib)}
    files: dict[str, tuple[str, os.stat_result, list[RecordEntry]]] = {}
    for distribution in found:
        relation = os.path.relpath(distribution.folder, stage)
        folder = by_relation.get(relation, scheme.purelib)
        record = read_record(distribution.metadata)
        if record is None:
            raise InstallFailed(f"{distribution.name}: its wheel has no readable RECORD")
        for entry in record:
            path = os.path.normpath(os.path.join(distribution.folder, entry.path))
            target = os.path.normpath(os.path.join(folder, entry.path))
            outside = not is_inside(target, scheme.root) or not is_inside(path, str(stage))
            if outside or entry.path.startswith("/"):
                raise InstallFailed(
                    f"{distribution.name}: its RECORD names a path outside of the environment: {entry.path!r}"
                )
            place = below(target, scheme.root)
            if place not in files:
                try:
                    files[place] = (path, os.lstat(path), [])
                except (OSError, ValueError) as error:
                    raise InstallFailed(
                        f"{distribution.name}: {entry.path} is in its RECORD but was not installed"
                    ) from error
            files[place][2].append(entry)
    staged = [StagedFile(path, at, status, tuple(e)) for at, (path, status, e) in files.items()]
    return StagedInstall(found, (*staged, *_bytecode(staged)))


def _bytecode(staged: Sequence[StagedFile]) -> Iterator[StagedFile]:
    """The bytecode of the staged modules, which uv compiles if the user's settings say so, and no RECORD lists."""
    listed = {file.path for file in staged}
    folders = {os.path.dirname(file.path): file.place for file in staged if file.path.endswith(".py")}
    for folder, module in folders.items():
        with contextlib.suppress(FileNotFoundError), os.scandir(os.path.join(folder, CACHE)) as entries:
            for entry in entries:
                if entry.path not in listed and entry.name.endswith(".pyc"):
                    place = os.path.join(os.path.dirname(module), CACHE, entry.name)
                    yield StagedFile(entry.path, place, entry.stat(follow_symlinks=False), ())


def mismatching_files(files: Sequence[StagedFile]) -> tuple[str, ...]:
    """The files that do not match their RECORD, by size and digest."""
    shares = [
        files[start::_THREADS] for start in range(_THREADS)
    ]  # a task for each file would cost more than its digest
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda share: [file.place for file in share if not _is_right(file)], shares)
        return tuple(sorted(place for places in found for place in places))


def _is_right(file: StagedFile) -> bool:
    if not stat.S_ISREG(file.status.st_mode):
        return False
    known = {entry.sha256 for entry in file.entries} - {None}
    return not known or file.path.endswith(_UNCHECKED) or digest(file.path) in known


def _fill_stage(prepared: PreparedInstall, folder: Path, stage: Path, progress: Announce) -> None:
    """Runs the installer to fill the stage, an empty folder of the transaction.

    Its commands run in turn until one succeeds, each with an empty folder.

    Raises:
        InstallFailed: when all fail, or there is no room for the download; DamagedCache when a file is not a wheel.
    """
    lock = folder / "lock.txt"
    lock.write_text(prepared.lock, encoding="utf-8")
    progress(f"{prepared.plan.installer} is downloading and installing {len(prepared.plan.install)} packages")
    installer_run = prepared.installer_run.without_constraints()
    first, *others = installer_run.installer.stage_commands(installer_run.options, lock, stage)
    if not others and not installer_run.options.offline:  # the first command may download
        refuse_without_room(prepared, stage)
    result = installer_run.run(first, _line_reader(progress))
    for command in others:
        if succeeded(result) or DISK_FULL.search(result.stderr):
            break
        shutil.rmtree(stage)
        stage.mkdir()
        refuse_without_room(replace(prepared, installer_run=installer_run), stage)
        result = installer_run.run(command, _line_reader(progress))
    if not succeeded(result):
        why = complaint(result)
        is_damaged = _UNPACKED in result.stderr and not DISK_FULL.search(result.stderr)
        kind = DamagedCache if is_damaged else InstallFailed
        of_lock = prepared.from_lock_file and _OTHER_FILES.search(why)
        remedy = _LOCK_REMEDY if of_lock else remedy_of(why, prepared.installer_run)
        raise kind(f"{prepared.plan.installer} failed: {why}", remedy)


def _line_reader(progress: Announce) -> Callable[[str], None]:
    """Announces the installer's progress, line by line."""
    rest = ""

    def on_text(text: str) -> None:
        nonlocal rest
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            if line.strip().startswith(("Download", "Prepar", "Install", "Resolved", "Building")):
                progress(line.strip())

    return on_text


def _without_cache(prepared: PreparedInstall) -> PreparedInstall | None:
    """The same plan without uv's cache, whose files may be shared with environments; None for other installers."""
    installer_run = prepared.installer_run
    if (
        not isinstance(installer_run.installer, Uv)
        or installer_run.options.offline
        or installer_run.environment.get(_NO_CACHE)
    ):
        return None
    return replace(
        prepared, installer_run=replace(installer_run, environment={**installer_run.environment, _NO_CACHE: "1"})
    )


def _checked(prepared: PreparedInstall, stage: Path) -> StagedInstall:
    """Reads the stage and checks it: exactly the planned versions, and files that match their RECORDs.

    Raises:
        InstallFailed: when something differs.
    """
    plan, staged = prepared.plan, read_stage(stage, prepared.inventory.scheme)
    found = {entry.name: entry.release for entry in staged.distributions}
    wanted = {pin.name: pin.release for pin in plan.install}
    if found != wanted:
        odd = sorted(set(found.items()) ^ set(wanted.items()))
        raise InstallFailed(f"{plan.installer} installed something other than planned: {' '.join(map('=='.join, odd))}")
    bad = mismatching_files(staged.files)
    if bad:
        message = f"{len(bad)} files do not match their RECORD, {bad[0]} first"
        if any(stat.S_ISLNK(file.status.st_mode) for file in staged.files):
            raise InstallFailed(message, _LINKS)
        raise DamagedCache(message)
    return staged


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """What every transaction needs in addition to its plan."""

    store: Store  # locked by the caller
    child: ImportSettings
    doctor: DoctorComparison
    more: tuple[Callable[[], Verification], ...]  # further verifications, such as the smoke test
    announce: Announce  # states that the user must know
    progress: Announce
    created_at: str | None  # time of day, for the journal
    clock: Clock


def execute(prepared: PreparedInstall, ctx: TransactionContext) -> InstallOutcome:
    """Executes a plan as one transaction.

    Raises:
        InstallError: when it failed before any file of the target was moved.
        KeyboardInterrupt: when interrupted, after restoring the former state.
    """
    store, number = ctx.store, ctx.store.begin()
    plan = numbered(prepared.plan, number)
    try:
        journal, frameworks = _prepare_stage(prepared, ctx, number)
    except OSError as error:
        store.drop(number)
        raise disk_failure("the new files could not be prepared", error) from error
    except BaseException as error:  # remove the stage in any case
        store.drop(number)
        if isinstance(error, KeyboardInterrupt):
            ctx.announce("interrupted; nothing was changed")
        raise

    def change(made: list[Verification]) -> None:
        ctx.clock.begin("swap")
        move_files(store, journal)
        writing = BackgroundSync(store.root, touched(store, journal))  # during verification
        ctx.clock.begin("proof")
        ctx.progress("verifying the install")
        shown = verify(plan, prepared.inventory, ctx.child, frameworks, ctx.doctor)
        if all(verification.passed is not False for verification in shown):
            shown = (*shown, *(more() for more in ctx.more))
        made += [Verification("files", True, "every file matches its RECORD"), *shown] if plan.install else shown
        ctx.clock.begin("sync")
        writing.finish()

    def put_back(made: tuple[Verification, ...], why: str, failed: Verification | None) -> InstallOutcome:
        ctx.clock.begin("put back")
        back = restore(store, journal)
        others = () if back.missing else _foreign_changes(prepared, journal)
        done = failed_outcome(plan, journal, made, why, back, others)
        return replace(done, remedy=done.remedy or _remedy(prepared, failed)) if failed is not None else done

    return commit_or_restore(ctx, plan, journal, change, put_back)


def _prepare_stage(prepared: PreparedInstall, ctx: TransactionContext, number: str) -> tuple[Journal, tuple[str, ...]]:
    """Stages the new files; returns the journal and the frameworks that can be imported now.

    The frameworks are imported while the installer runs, and files are synced to disk while they are checked.
    """
    stage = ctx.store.stage(number)
    stage.mkdir()
    if not prepared.plan.install:
        ctx.clock.begin("journal")
        journal = _journal(prepared, ctx, number, ())
        ctx.clock.begin("sync")
        ctx.store.write(journal)
        return journal, ()
    with ThreadPoolExecutor(1) as pool:
        frameworks = pool.submit(working_frameworks, ctx.child, prepared.inventory.visible)
        try:
            try:
                return _staged(prepared, ctx, number, frameworks)
            except DamagedCache:
                uncached = _without_cache(prepared)
                if uncached is None:
                    raise
                ctx.announce("the installer's cache is damaged; trying again without it")
                shutil.rmtree(stage)
                stage.mkdir()
                return _staged(uncached, ctx, number, frameworks)
        except BaseException:
            ctx.child.group.close()  # ends the imports
            raise


def _staged(
    prepared: PreparedInstall, ctx: TransactionContext, number: str, frameworks: Future[tuple[str, ...]]
) -> tuple[Journal, tuple[str, ...]]:
    store, stage = ctx.store, ctx.store.stage(number)
    ctx.clock.begin("download and unpack")
    _fill_stage(prepared, store.transaction(number), stage, ctx.progress)
    ctx.clock.begin("check of files")
    writing = BackgroundSync(store.root, everything_in(stage))
    try:
        staged = _checked(prepared, stage)
        ctx.clock.begin("imports before")
        working = frameworks.result()
        ctx.clock.begin("journal")
        journal = _journal(prepared, ctx, number, staged.files)
        ctx.clock.begin("sync")
        writing.finish()  # the files must be on disk before the journal that lists them
        store.write(journal)
        return journal, working
    finally:
        writing.stop()


def _journal(prepared: PreparedInstall, ctx: TransactionContext, number: str, staged: Sequence[StagedFile]) -> Journal:
    """Makes the journal of all moves, before the first one.

    Raises:
        InstallError: when the target has changed since the plan.
    """
    plan, root = prepared.plan, ctx.store.root
    former = prepared.inventory.releases
    if read_inventory(prepared.inventory.scheme).releases != former:
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    going = (*prepared.leaving, *_caches_of(root, prepared.leaving))
    leaving = dict.fromkeys(path for path in going if not _is_folder(root, path))  # a cut RECORD may list a folder
    created = _missing_folders(root, (file.place for file in staged))
    missing = frozenset(created)
    new = {file.place for file in staged if os.path.dirname(file.place) in missing}
    moving = [f for f in staged if f.place in new or f.place in leaving or not _is_present(root, f)]
    places = (*leaving, *(file.place for file in moving if file.place not in new))
    keep = files_at(root, places, _recorded_digests(prepared, root))
    return Journal(
        number=number,
        created_at=ctx.created_at,
        gpuenv_version=__version__,
        summary=summary_of(plan),
        former=former,
        removed=tuple(f"{entry.name}=={entry.release}" for entry in plan.remove),
        installed=tuple(f"{pin.name}=={pin.release}" for pin in plan.install),
        keep=keep,
        put=tuple(
            AddedFile(
                below(f.path, str(root)),
                f.place,
                f.status.st_ino,
                f.status.st_size,
                f.status.st_mtime_ns,
                None if CACHE in f.place else _recorded(f.entries) or digest(f.path),
            )
            for f in moving
        ),
        created=created,
        folders=_folders_of(root, keep),
    )


def _recorded(entries: Iterable[RecordEntry]) -> str | None:
    """The digest of a file by the RECORDs that list it."""
    return next((entry.sha256 for entry in entries if entry.sha256), None)


def _recorded_digests(prepared: PreparedInstall, root: Path) -> Callable[[str], str | None]:
    """The digests of files to remove: by RECORD, since reading gigabytes takes long, else by their content.

    Bytecode needs none.
    """
    recorded = owners(prepared.inventory.own.values(), str(root))

    def digest_of(place: str) -> str | None:
        known = _recorded(entry for _, entry in recorded.get(place, ()))
        if known is None and CACHE not in place:
            with contextlib.suppress(OSError):  # unreadable: then it is known by its inode alone
                return content_digest(f"{root}/{place}")
        return known

    return digest_of


def _is_folder(root: Path, place: str) -> bool:
    path = f"{root}/{place}"
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114 - thousands of files


def _is_present(root: Path, file: StagedFile) -> bool:
    """Whether a file with the same content, of another distribution, exists already; it is then kept."""
    path = f"{root}/{file.place}"
    if not os.path.isfile(path) or os.path.islink(path):  # noqa: PTH113, PTH114
        return False
    try:
        return os.path.getsize(file.path) == os.path.getsize(path) and digest(file.path) == digest(path)  # noqa: PTH202
    except OSError:
        return False


def _missing_folders(root: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """The missing parent folders of these paths, outermost first."""
    found: set[str] = set()
    for folder in set(map(os.path.dirname, paths)):
        while folder and folder not in found and not (root / folder).is_dir():
            found.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return tuple(sorted(found))


def _folders_of(root: Path, keep: Iterable[RemovedFile]) -> dict[str, int]:
    """The parent folders of removed files, with their permissions; emptied ones are removed too."""
    found: dict[str, int] = {}
    for folder in {os.path.dirname(entry.place) for entry in keep}:
        while folder and folder not in found:
            found[folder] = (root / folder).stat().st_mode & 0o7777
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return dict(sorted(found.items()))


def _caches_of(root: Path, paths: Iterable[str]) -> Iterator[str]:
    """The bytecode files of the modules among these paths."""
    stems: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if name.endswith(".py"):
            stems.setdefault(folder, set()).add(name[:-3])
    for folder, names in stems.items():
        with contextlib.suppress(OSError):
            for entry in os.listdir(root / folder / CACHE):  # noqa: PTH208 - thousands of files
                if entry.partition(".")[0] in names and entry.endswith(".pyc"):
                    yield f"{folder}/{CACHE}/{entry}".lstrip("/")


def commit_or_restore(
    ctx: TransactionContext,
    plan: Plan,
    journal: Journal,
    change: Callable[[list[Verification]], None],
    put_back: Callable[[tuple[Verification, ...], str, Verification | None], InstallOutcome],
) -> InstallOutcome:
    """Changes the target and commits if every verification passes; restores it on any failure.

    The journal is on disk already. ``change`` appends the verifications to its argument; ``put_back`` restores the
    target: it gets the verifications, the reason and the failed one, and returns the outcome.
    """
    verifications: list[Verification] = []
    try:
        change(verifications)
        failed = next((entry for entry in verifications if entry.passed is False), None)
        if failed is None:
            ctx.store.mark(journal.number, TransactionState.COMMITTED)
    except OSError as error:
        outcome = put_back(tuple(verifications), disk_message(error), None)
        return replace(outcome, remedy=outcome.remedy or disk_remedy(error))
    except InstallError as error:
        return put_back(tuple(verifications), error.message, None)
    except BaseException as error:  # above all an interrupt: restore the former state first
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        ctx.announce(put_back(tuple(verifications), why, None).message)
        raise
    if failed is not None:
        return put_back(tuple(verifications), f"{failed.name}: {failed.detail}", failed)
    ctx.clock.begin("tidying")
    outcome = InstallOutcome(
        status=Result.INSTALLED,
        exit_code=ExitCode.OK,
        message=f"{journal.summary}; needs {plan.needs_toolkit}" if plan.needs_toolkit else journal.summary,
        transaction=journal.number,
        target=plan.target,
        plan=plan,
        proofs=tuple(verifications),
        undo=plan.undo,
    )
    with outcome_on_interrupt(outcome, ctx.announce):  # backups of gigabytes take long
        shutil.rmtree(ctx.store.stage(journal.number), ignore_errors=True)
        forget_old(ctx.store)
    return outcome


@contextlib.contextmanager
def outcome_on_interrupt(outcome: InstallOutcome, announce: Announce) -> Iterator[None]:
    """Announces the outcome and the command that undoes it if an interrupt ends the work that follows."""
    try:
        yield
    except KeyboardInterrupt:
        complete = outcome.status is Result.INSTALLED
        done = f"install {outcome.transaction} is complete" if complete else outcome.message.rstrip(".")
        undo = f" To undo: {command_text(outcome.undo.argv)}" if outcome.undo is not None else ""
        announce(f"interrupted; {done}.{undo}")
        raise


def _remedy(prepared: PreparedInstall, failed: Verification) -> str | None:
    """The remedy for a failed verification: remove another CuPy, or check settings that leave out packages."""
    if failed.detail.startswith(ANOTHER_CUPY):
        return "Remove that one, or take its folder off PYTHONPATH or out of the .pth file that names it."
    return settings_hint(prepared.installer_run, failed.detail) if failed.name == CONSISTENT else None


def _foreign_changes(prepared: PreparedInstall, journal: Journal) -> tuple[str, ...]:
    """The changes by other programs: differences that remain after restoring the former state."""
    try:
        now = read_inventory(prepared.inventory.scheme).releases
    except InstallError:
        return ()
    changed = sorted(name for name in {*now, *journal.former} if now.get(name) != journal.former.get(name))
    return tuple(f"{name} {now[name]}" if name in now else f"no {name}" for name in changed)
