"""The work of ``gpuenv build-image``: from the words of the command line to plans, and from plans to images."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError, announce, complain, folded
from gpuenv.cli.imaging.ending import ending
from gpuenv.cli.imaging.site import Making, Site, host_ways, site_of, site_or_none
from gpuenv.cli.imaging.words import Asked, labels_of, machines_of, refuse_unreadable, wishes_of
from gpuenv.cli.inputs import Subject
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.numbers import whole_number

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.image.building import Workshop
    from gpuenv.image.choose import Wish
    from gpuenv.image.plan import Templates
    from gpuenv.image.records import Built, BuiltImage, Choice, ImagePlan, ImagePlans
    from gpuenv.image.render import Rendering
    from gpuenv.install.records import Pin
    from gpuenv.matrix.needs import Needs
    from gpuenv.matrix.records import Matrix

_LAST_SECOND = 253402300799  # of the year 9999, behind which there is no date


def run(asked: Asked, machine: tuple[Subject, Path | None], making: Making, out: Output, end: str | Path) -> int:
    """The whole command; answers the exit code.

    Raises:
        CommandError: when it ended early.
    """
    refuse_unreadable(making.secrets)
    wishes = wishes_of(asked)
    labels_of(asked.labels)
    with ending(out, building=end == "build"), ExitStack() as stack:
        machines, rows = machines_of(asked, *machine)
        choices, left_out = _choices(asked, wishes, machines, rows)
        if end in ("print", "plan") or isinstance(end, Path):
            return _planned((asked, making, rows), (choices, left_out), out, end, stack)
        return _build_all((asked, making, rows), choices, machine[0], out, stack)


def _choices(
    asked: Asked, wishes: Sequence[Wish], machines: Mapping[str, Needs], rows: Matrix
) -> tuple[tuple[Choice, ...], tuple[str, ...]]:
    """What can be made of the wishes; with --all, also what cannot, instead of an error."""
    from gpuenv.image.choose import NoImageError, choose

    if not asked.every:
        return tuple(choose(wish, machines, rows) for wish in wishes), ()
    choices, left_out = [], []
    for wish in wishes:
        for row in rows.cuda_minors:
            if wish.cuda not in (None, row.cuda):
                continue
            try:
                choices.append(choose(replace(wish, cuda=row.cuda), machines, rows))
            except NoImageError as error:
                left_out.append(str(error))
    if not choices:
        raise NoImageError(left_out[0])
    return tuple(choices), tuple(left_out)


def _created(rows: Matrix) -> int:
    """SOURCE_DATE_EPOCH where it is set, else the day of the matrix: the same for the same inputs."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        seconds = whole_number(given, len(str(_LAST_SECOND)))
        if seconds is None or seconds > _LAST_SECOND:
            raise CommandError(ExitCode.USAGE, f"SOURCE_DATE_EPOCH={given[:20]!r}: expected seconds since 1970")
        return seconds
    try:
        return int(datetime.fromisoformat(rows.revision).replace(tzinfo=timezone.utc).timestamp())
    except ValueError:
        return 0


def templates_of(kind: str) -> Templates:
    """The files of a kind."""
    from gpuenv.data import data_path
    from gpuenv.image.plan import Templates

    folder = data_path("images")
    texts = [(folder / name).read_text(encoding="utf-8") for name in (f"{kind}.Dockerfile", "tidy.py")]
    return Templates(*texts)


def _plan(asked: Asked, choice: Choice, pins: tuple[Pin, ...], how: Rendering, rows: Matrix, count: int) -> ImagePlan:
    from gpuenv.image.plan import Order, plan_image, tag_for

    tag = tag_for(asked.tag, choice, several=count > 1)
    order = Order(tag, pins, labels_of(asked.labels), rows.revision)
    return plan_image(choice, order, how, templates_of(choice.kind.value))


def _lock(choice: Choice, making: Making) -> tuple[Pin, ...]:
    """The exact wheels; asked of the installer as it is set up on this machine."""
    from gpuenv.cli.installer import caller_for
    from gpuenv.image.locking import lock_image
    from gpuenv.install.environment import ask_scheme

    announce(f"locking {' '.join(choice.requirements)} for Python {choice.python}")
    scheme = ask_scheme(sys.executable, os.environ, time.monotonic() + 60)
    return lock_image(caller_for(scheme, making.installing), choice.requirements, choice.python, choice.platform)


def _planned(
    work: tuple[Asked, Making, Matrix],
    found: tuple[tuple[Choice, ...], tuple[str, ...]],
    out: Output,
    end: str | Path,
    stack: ExitStack,
) -> int:
    """Everything that ends without a build."""
    from gpuenv.image.records import ImagePlans

    (asked, making, rows), (choices, left_out) = work, found
    site = site_or_none(making, stack) if end == "plan" else None
    plans = []
    for choice in choices:
        pinned = replace(choice, base=site.engine.pinned(choice.base)) if site else choice
        pins = () if end == "print" else _lock(choice, making)
        plan = _plan(asked, pinned, pins, _rendering(making, site, rows), rows, len(choices))
        plans.append(_with_commands(plan, site, making) if site else plan)
    if isinstance(end, Path):
        _write_contexts(end, plans)
    else:
        _show_plans(ImagePlans(tuple(plans), left_out, rows.revision), out, texts=end == "print")
    return ExitCode.OK


def _rendering(making: Making, site: Site | None, rows: Matrix) -> Rendering:
    from gpuenv.image.render import SECRETS, Rendering

    secrets = site.secrets if site else making.secrets
    mounts = site.cli is not None if site else making.builder == "buildkit" or bool(secrets)
    return Rendering(_created(rows), mounts, tuple(name for name in SECRETS if name in secrets))


def _with_commands(plan: ImagePlan, site: Site, making: Making) -> ImagePlan:
    """What would be run, as it would be run."""
    from gpuenv.image.building import proxies
    from gpuenv.image.buildkit import Build, command
    from gpuenv.install.records import Command

    if site.cli is None:
        return replace(plan, builder=site.builder)
    arguments = {**proxies(os.environ), "SOURCE_DATE_EPOCH": str(plan.created)}
    build = Build({}, arguments, site.secrets, None, making.fresh)
    words = command(site.cli, build, "CONTEXT", "ID-FILE")
    return replace(plan, builder=site.builder, commands=(Command("build", words),))


def _write_contexts(folder: Path, plans: Sequence[ImagePlan]) -> None:
    from gpuenv.image.plan import files_of

    for plan in plans:
        place = folder / plan.choice.name if len(plans) > 1 else folder
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name, text in files_of(plan, templates_of(plan.choice.kind.value)).items():
                (place / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{place}: cannot be written: {error.strerror or error}") from error
        announce(f"{place}: written; to build it: docker build {place}")


def _show_plans(plans: ImagePlans, out: Output, *, texts: bool) -> None:
    from gpuenv.cli.output import write_file, write_stdout
    from gpuenv.image.text import plan_lines

    if texts and not out.as_json:
        text = "\n".join(plan.dockerfile for plan in plans.images)
        write_file(out.file, text) if out.file else write_stdout(text)
    else:
        out.emit(plans, lambda: plan_lines(plans, verbose=out.verbose))


def _build_all(
    work: tuple[Asked, Making, Matrix], choices: Sequence[Choice], subject: Subject, out: Output, stack: ExitStack
) -> int:
    """Builds one after the other; one that fails keeps none of the others from being built.

    Raises:
        EngineError: when there is no engine to build with.
        NoWheelsError: when the one image that is asked for has no wheels.
        InstallError: when its wheels cannot be told.
    """
    from gpuenv.image.locking import NoWheelsError
    from gpuenv.image.plan import tag_for
    from gpuenv.image.records import Built, BuiltImage
    from gpuenv.install.errors import InstallError

    asked, making, rows = work
    site = site_of(making, stack)
    pinned = [replace(choice, base=site.engine.pinned(choice.base)) for choice in choices]
    shop = _workshop(site, making, subject, out)
    done: list[BuiltImage] = []
    remedies: dict[str, None] = {}
    for choice in pinned:
        try:
            pins = _lock(choice, making)
        except (NoWheelsError, InstallError) as error:
            if len(choices) == 1:
                raise
            if isinstance(error, InstallError) and error.remedy:
                remedies[error.remedy] = None
            tag = tag_for(asked.tag, choice, several=True)
            done.append(BuiltImage(tag, Built.FAILED, str(error), base=choice.base.pinned))
            continue
        plan = _plan(asked, choice, pins, _rendering(making, site, rows), rows, len(choices))
        try:
            done.append(_one(plan, shop, remedies))
        except KeyboardInterrupt:
            announce(f"interrupted; the build was ended, and {plan.tag} is what it was before")
            raise
    status = max((image.status for image in done), key=list(Built).index)
    return _show(done, status, out, site.engine.facts.label, tuple(remedies))


def _one(plan: ImagePlan, shop: Workshop, remedies: dict[str, None]) -> BuiltImage:
    from gpuenv.image.building import build_image
    from gpuenv.image.errors import EngineError
    from gpuenv.image.plan import files_of
    from gpuenv.image.records import Built, BuiltImage

    try:
        return build_image(plan, files_of(plan, templates_of(plan.choice.kind.value)), shop)
    except EngineError as error:
        if error.remedy:
            remedies[error.remedy] = None
        return BuiltImage(plan.tag, Built.FAILED, error.message, base=plan.choice.base.pinned)


def _workshop(site: Site, making: Making, subject: Subject, out: Output) -> Workshop:
    from gpuenv.image.building import Workshop

    return Workshop(
        engine=site.engine,
        cli=site.cli,
        secrets=site.secrets,
        environment=os.environ,
        gpu_ways=site.engine.facts.gpu_ways or host_ways(subject),
        announce=announce,
        verbose=out.verbose,
        fresh=making.fresh,
        push=making.push,
        seconds=making.seconds,
    )


def _show(images: Sequence[BuiltImage], status: Built, out: Output, engine: str, remedies: Sequence[str]) -> int:
    from gpuenv.image.records import Built, ImageOutcome
    from gpuenv.image.text import outcome_lines

    good = sum(image.status is Built.BUILT for image in images)
    code = ExitCode.OK if good == len(images) else ExitCode.FAILED
    message = f"{good} of {len(images)} images built by {engine}" + (
        "" if good == len(images) else "; no other name was changed"
    )
    outcome = ImageOutcome(status, code, message, tuple(images), engine)
    out.emit(outcome, lambda: outcome_lines(outcome, verbose=out.verbose))
    for image in images:
        if image.status is not Built.BUILT:
            announce(image.message)
    for remedy in remedies:
        complain(folded(remedy))
    return code
