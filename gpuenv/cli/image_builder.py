"""Plans and builds the images of ``gpuenv build-image``: locks wheels, renders Dockerfiles, builds them in turn."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.build_session import open_build_session
from gpuenv.cli.command_errors import CommandError, announce, complain, failure_as_result, progress, with_state
from gpuenv.cli.install_output import command_error
from gpuenv.cli.installers import InstallerRequest, installer_run_for
from gpuenv.cli.output import Output, write_result
from gpuenv.files import LARGEST_DOCUMENT, read_regular, replace_file
from gpuenv.image.build.choose import NoImageError
from gpuenv.image.build.packages import NoWheelsError, lock_image
from gpuenv.image.build.plan import (
    BuildStatus,
    BuiltImage,
    Choice,
    ImageOutcome,
    ImagePlan,
    ImagePlans,
    outcome_lines,
    plan_lines,
)
from gpuenv.image.build.render import (
    DOCKERFILE,
    FILES,
    SECRETS,
    RenderError,
    Rendering,
    files_of,
    is_own,
    plan_image,
    tag_for,
)
from gpuenv.image.engine.buildkit import command
from gpuenv.image.engine.errors import EngineError
from gpuenv.install.environment import query_scheme
from gpuenv.install.exceptions import InstallError
from gpuenv.install.plan import Pin, PlannedCommand
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.redaction import cut_text
from gpuenv.model.strings import parse_integer

if TYPE_CHECKING:
    from gpuenv.cli.commands.build_image import BuildImageOptions
    from gpuenv.image.build.build import BuildSession
    from gpuenv.image.build.packages import AddedPackages
    from gpuenv.image.engine.container_engine import Engine
    from gpuenv.matrix.tables import Matrix

_LAST_SECOND = 253402300799  # of the year 9999, the last that datetime supports


class UserInputs(NamedTuple):
    """The labels and packages that the user adds to an image."""

    labels: Mapping[str, str]
    packages: AddedPackages


@contextmanager
def outcome_on_failure(out: Output, *, building: bool) -> Iterator[None]:
    """Turns errors into the outcome of the command; for a build, the message includes that nothing was built.

    Raises:
        CommandError: with the exit code of what ended it.
    """
    state = "nothing was built, and no name was changed" if building else ""

    def failure(error: CommandError) -> ImageOutcome:
        return ImageOutcome(BuildStatus.FAILED, error.exit_code, error.message, (), None, error.remedy)

    with failure_as_result(out, failure):
        try:
            yield
        except (NoImageError, NoWheelsError) as error:
            raise CommandError(ExitCode.NOTHING_FITS, with_state(str(error), state)) from error
        except RenderError as error:
            raise CommandError(ExitCode.USAGE, str(error)) from error
        except EngineError as error:
            raise CommandError(ExitCode.FAILED, with_state(error.message, state), error.remedy) from error
        except InstallError as error:
            install_error = command_error(error)
            raise CommandError(
                install_error.exit_code, with_state(install_error.message, state), install_error.remedy
            ) from error


def plan_all(opts: BuildImageOptions, inputs: UserInputs, choices: Sequence[Choice], matrix: Matrix) -> list[ImagePlan]:
    """The plans; with ``--dry-run``, as the engine would build them, if one answers."""
    with ExitStack() as stack:
        session = None
        if opts.dry_run:
            try:
                session = open_build_session(opts, stack)
            except EngineError as error:
                announce(f"planned without an engine: {error.message.splitlines()[0]}")
        plans = []
        for choice in choices:
            pinned = _pinned(choice, session.engine) if session else choice
            plan = _plan(opts, inputs, pinned, matrix, session, several=len(choices) > 1)
            plans.append(with_commands(plan, session) if session else plan)
        return plans


def show_plans(plans: ImagePlans, out: Output, *, as_dockerfiles: bool) -> None:
    """Prints the plans, or the Dockerfiles alone."""
    if as_dockerfiles and not out.as_json:
        write_result("\n".join(plan.dockerfile for plan in plans.images), out.file)
    else:
        out.emit(plans, lambda: plan_lines(plans, verbose=out.verbose))


def context_folders(folder: Path, choices: Sequence[Choice]) -> list[Path]:
    """The folders of the build contexts: that of the user, or a subfolder for each of several images.

    Raises:
        CommandError: when writing a context would replace files that gpuenv did not write.
    """
    folders = [folder / choice.name for choice in choices] if len(choices) > 1 else [folder]
    for path in folders:
        present = [name for name in FILES if os.path.lexists(path / name)]
        if present and not _has_own_dockerfile(path):
            message = f"{path}: has {' and '.join(present)}, which gpuenv build-image did not write"
            raise CommandError(ExitCode.USAGE, message, "name another folder with --context")
    return folders


def _has_own_dockerfile(folder: Path) -> bool:
    try:
        return is_own(read_regular(folder / DOCKERFILE, LARGEST_DOCUMENT).decode("utf-8", "replace"))
    except OSError:
        return False


def write_contexts(folders: Sequence[Path], plans: Sequence[ImagePlan]) -> None:
    """Writes each build context to its folder."""
    for path, plan in zip(folders, plans, strict=True):
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name, text in files_of(plan).items():
                replace_file(path / name, text, shared=True)
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror or error}") from error
        announce(f"{path}: written; to build it: docker build {path}")


def build_all(
    opts: BuildImageOptions, inputs: UserInputs, choices: Sequence[Choice], matrix: Matrix, out: Output
) -> int:
    """Builds the images in turn, going on after a failure.

    Raises:
        EngineError: when there is no engine to build with.
        NoWheelsError: when the only image has no wheels.
        InstallError: when its wheels cannot be resolved.
    """
    with ExitStack() as stack:
        session = open_build_session(opts, stack)
        from gpuenv.image.build.build import build_image

        pinned = [_pinned(choice, session.engine) for choice in choices]
        done: list[BuiltImage] = []
        remedies: dict[str, None] = {}
        several = len(choices) > 1
        for choice in pinned:
            tag = tag_for(opts.tag, choice, several=several)
            try:
                plan = _plan(opts, inputs, choice, matrix, session, several=several)
            except (NoWheelsError, InstallError) as error:
                if not several:
                    raise
                remedies |= {error.remedy: None} if isinstance(error, InstallError) and error.remedy else {}
                done.append(BuiltImage(tag, BuildStatus.FAILED, str(error), base=choice.base.pinned))
                continue
            try:
                done.append(build_image(plan, session))
            except EngineError as error:
                remedies |= {error.remedy: None} if error.remedy else {}
                done.append(BuiltImage(tag, BuildStatus.FAILED, error.message, base=choice.base.pinned))
            except KeyboardInterrupt:
                announce(f"interrupted; the build was stopped, and {tag} is unchanged")
                raise
    return _show_outcome(done, list(remedies), session.engine.facts.label, out)


def _show_outcome(done: Sequence[BuiltImage], remedies: Sequence[str], engine: str, out: Output) -> int:
    """Prints the result of all builds, then what failed with the remedies; returns the exit code."""
    built = sum(image.status is BuildStatus.BUILT for image in done)
    code = ExitCode.OK if built == len(done) else ExitCode.FAILED
    status = max((image.status for image in done), key=list(BuildStatus).index)
    rest = "" if built == len(done) else "; no other name was changed"
    message = f"{built} of {len(done)} images built by {engine}{rest}"
    outcome = ImageOutcome(status, code, message, tuple(done), engine)
    out.emit(outcome, lambda: outcome_lines(outcome, verbose=out.verbose))
    for image in done:
        if image.status is not BuildStatus.BUILT:
            announce(image.message)
    for remedy in remedies:
        complain(remedy, wrap=True)
    return code


def _pinned(choice: Choice, engine: Engine) -> Choice:
    """The choice with the digest under which the engine has its base, unless the base has a digest already."""
    digest = choice.base.digest or engine.digest_of(choice.base.reference)
    return replace(choice, base=replace(choice.base, digest=digest))


def _created(matrix: Matrix) -> int:
    """The creation time: SOURCE_DATE_EPOCH, else the date of the matrix, so that builds are reproducible."""
    value = os.environ.get("SOURCE_DATE_EPOCH")
    if value is not None:
        seconds = parse_integer(value, len(str(_LAST_SECOND)))
        if seconds is None or seconds > _LAST_SECOND:
            raise CommandError(
                ExitCode.USAGE, f"SOURCE_DATE_EPOCH={cut_text(value, 20)!r}: expected seconds since 1970"
            )
        return seconds
    try:
        return int(datetime.fromisoformat(matrix.revision).replace(tzinfo=timezone.utc).timestamp())
    except ValueError:
        return 0


def _plan(
    opts: BuildImageOptions,
    inputs: UserInputs,
    choice: Choice,
    matrix: Matrix,
    session: BuildSession | None,
    *,
    several: bool,
) -> ImagePlan:
    """The plan of an image, with the exact wheels that the installer resolves with this machine's configuration."""
    pins: tuple[Pin, ...] = ()
    if not opts.show:
        progress(f"locking {' '.join(choice.requirements)} for Python {choice.python}")
        request = InstallerRequest(opts.installer.installer, opts.offline, opts.build_timeout)
        scheme = query_scheme(sys.executable, os.environ, time.monotonic() + 60)
        installer_run = installer_run_for(scheme, request)
        pins = lock_image(installer_run, choice.requirements, choice.python, choice.platform, inputs.packages)
    secrets = session.secrets if session else opts.secrets
    mounts = session.cli is not None if session else opts.builder.value == "buildkit" or bool(secrets)
    rendering = Rendering(_created(matrix), mounts, tuple(name for name in SECRETS if name in secrets))
    return plan_image(
        choice,
        rendering,
        tag=tag_for(opts.tag, choice, several=several),
        pins=pins,
        user_labels=inputs.labels,
        matrix_revision=matrix.revision,
    )


def with_commands(plan: ImagePlan, session: BuildSession) -> ImagePlan:
    """The plan with the command line that would build it."""
    from gpuenv.image.build.build import build_options

    if session.cli is None:
        return replace(plan, builder="classic")
    options = build_options(plan, session, {}, fresh=session.fresh)
    argv = command(session.cli, options, "CONTEXT", "ID-FILE")
    return replace(plan, builder="buildkit", commands=(PlannedCommand("build", argv),))
