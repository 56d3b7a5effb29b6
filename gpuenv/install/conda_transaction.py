"""Executes an install by conda: conda changes the environment; the result is verified, kept or undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gpuenv import __version__
from gpuenv.install.backends.base import succeeded
from gpuenv.install.conda_environment import (
    CondaState,
    FormerPackage,
    failure_reason,
    read_history,
    read_packages,
    stems,
    torn_packages,
    write_state,
    wrong_files,
)
from gpuenv.install.conda_planner import PreparedCondaInstall
from gpuenv.install.disk_space import refuse_too_little
from gpuenv.install.exceptions import InstallError, InstallFailed, disk_failure, remedy_for
from gpuenv.install.journal import Journal
from gpuenv.install.plan import InstallOutcome, Verification
from gpuenv.install.planner import numbered
from gpuenv.install.rollback import failed_outcome, restore
from gpuenv.install.transaction import TransactionContext, commit_or_restore
from gpuenv.install.verify import (
    timed,
    until_failure,
    verify_doctor,
    verify_framework,
    verify_import,
    working_frameworks,
)
from gpuenv.model.strings import join_words

_SHOWN = 3


def execute_conda(prepared: PreparedCondaInstall, ctx: TransactionContext) -> InstallOutcome:
    """Executes a plan as one transaction.

    Raises:
        InstallError: when nothing was changed.
        KeyboardInterrupt: when interrupted, after restoring the former state.
    """
    conda_run, store, prefix = prepared.conda_run, ctx.store, prepared.scheme.prefix
    if stems(prefix) != set(prepared.packages):
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    refuse_too_little(prefix, prepared.plan.space.download, prepared.plan.space.free)
    ctx.clock.begin("imports before")
    frameworks = working_frameworks(ctx.child, prepared.visible)
    number = store.begin()
    plan = numbered(prepared.plan, number)
    coming = [f"{pin.name} {pin.release}" for pin in plan.install]
    named = [text for text in coming if text.startswith(("cupy ", "cuda-version "))]
    shown = join_words([*named, *(text for text in coming if text not in named)], _SHOWN)
    journal = Journal(
        number=number,
        created_at=ctx.created_at,
        gpuenv_version=__version__,
        summary=f"installed {shown} with {plan.installer}",
        former={entry.name: entry.release for entry in prepared.packages.values()},
        removed=tuple(f"{entry.name}=={entry.release}" for entry in plan.remove),
        installed=tuple(f"{pin.name}=={pin.release}" for pin in plan.install),
        keep=(),
        put=(),
        created=(),
        folders={},
    )
    state = CondaState(
        tool=conda_run.tool,
        revision=conda_run.tool.revision(read_history(prefix)),
        packages=tuple(FormerPackage(entry.stem, entry.name, entry.url) for entry in prepared.packages.values()),
        torn=tuple(sorted(torn_packages(prefix, prepared.packages.values()))),
        offline=conda_run.offline,
    )
    ctx.clock.begin("journal")
    try:
        write_state(store, number, state)
        store.write(journal)
    except OSError as error:
        store.drop(number)
        raise disk_failure("the journal cannot be written", error) from error

    def change(made: list[Verification]) -> None:
        ctx.clock.begin("download and unpack")
        ctx.progress(f"{conda_run.tool.label} is downloading and installing {len(plan.install)} packages")
        result = conda_run.run(prepared.command)
        if not succeeded(result):
            why = failure_reason(result)
            remedy = remedy_for(why)
            raise InstallFailed(f"{conda_run.tool.label} failed: {why}" + (f" {remedy}" if remedy else ""))
        ctx.clock.begin("proof")
        ctx.progress("verifying the install")
        steps: list[Callable[[], Verification]] = [
            lambda: _as_planned(prepared),
            lambda: _verify_files(prepared),
            lambda: verify_import(plan, ctx.child, prepared.scheme),
            *(partial(verify_framework, ctx.child, module) for module in frameworks),
            lambda: verify_doctor(ctx.doctor),
            *ctx.more,
        ]
        made += until_failure(map(timed, steps))
        if all(verification.passed is not False for verification in made):
            write_state(store, number, replace(state, after=tuple(sorted(stems(prefix)))))

    def put_back(made: tuple[Verification, ...], why: str, failed: Verification | None) -> InstallOutcome:
        del failed
        ctx.clock.begin("put back")
        ctx.progress("restoring the former packages")
        return failed_outcome(plan, journal, made, why, restore(store, journal, conda_run.environment))

    return commit_or_restore(ctx, plan, journal, change, put_back)


def _as_planned(prepared: PreparedCondaInstall) -> Verification:
    plan = prepared.plan
    now = {entry.name: entry.release for entry in read_packages(prepared.scheme.prefix).values()}
    expected = {entry.name: entry.release for entry in prepared.packages.values()}
    for gone in plan.remove:
        expected.pop(gone.name, None)
    expected.update({pin.name: pin.release for pin in plan.install})
    wrong = [
        f"{name}: {expected.get(name, 'none')} was planned, {now.get(name, 'none')} is installed"
        for name in sorted({*expected, *now})
        if expected.get(name) != now.get(name)
    ]
    return Verification(
        "as planned", not wrong, "; ".join(wrong[:_SHOWN]) or f"{len(plan.install)} packages as conda planned"
    )


def _verify_files(prepared: PreparedCondaInstall) -> Verification:
    coming = {pin.name for pin in prepared.plan.install}
    prefix = prepared.scheme.prefix
    packages = [entry for entry in read_packages(prefix).values() if entry.name in coming]
    wrong = [path for _, path in wrong_files(prefix, packages, contents=True)]
    right = "every file matches conda's records"
    return Verification(
        "files", not wrong, f"{len(wrong)} do not match conda's records, {wrong[0]} first" if wrong else right
    )
