"""Plans and outcomes of images as lines of text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuenv.image.build.plan import BuildStatus, BuiltImage, ImageOutcome, ImagePlan, ImagePlans
from gpuenv.model.strings import format_size
from gpuenv.report.text_line import Style, TextLine, counted

_SHOWN = 6  # wheels named in a plan, unless it is verbose


def plan_lines(plans: ImagePlans, *, verbose: bool) -> Iterator[TextLine]:
    """The lines of plans; for several images, one line each unless verbose."""
    if len(plans.images) > 1 and not verbose:
        yield from _table(plans)
        return
    for plan in plans.images:
        yield from _plan(plan, verbose=verbose)
        yield TextLine()
    for entry in plans.left_out:
        yield TextLine(f"left out: {entry}", Style.QUIET, 10)


def _table(plans: ImagePlans) -> Iterator[TextLine]:
    row = "{:<35} {:<12} {:<11} {}"
    yield TextLine(row.format("image", "cupy", "driver", "compute capability"), Style.HEADING)
    for plan in plans.images:
        choice = plan.choice
        served = choice.stated or choice.capabilities
        gpus = str(served[0]) if len(served) == 1 else f"{served[0]} to {served[-1]}"
        yield TextLine(row.format(choice.name, choice.line, str(choice.minimum_driver), gpus))
    repository = plans.images[0].tag.removesuffix(f":{plans.images[0].choice.name}")
    left_out = f"; {counted(len(plans.left_out), 'combination')} left out" if plans.left_out else ""
    yield TextLine()
    yield TextLine(f"{counted(len(plans.images), 'image')} of {repository}{left_out}: --verbose for the whole plans")


def _plan(plan: ImagePlan, *, verbose: bool) -> Iterator[TextLine]:
    choice = plan.choice
    yield TextLine(
        f"{plan.tag}: {choice.line} {choice.cupy}, CUDA {choice.cuda}, Python {choice.python}", Style.HEADING, 2
    )
    yield TextLine(f"  base       {choice.base.pinned} ({choice.platform})", hang=13)
    yield TextLine(f"  installs   {' '.join(choice.requirements)}", hang=13)
    yield TextLine(
        f"  serves     compute capability {', '.join(map(str, choice.stated or choice.capabilities))}", hang=13
    )
    yield TextLine(f"  driver     {choice.minimum_driver} or newer", hang=13)
    if plan.lock:
        pins = [f"{pin.name} {pin.release}" for pin in plan.pins]
        shown = pins if verbose or len(pins) <= _SHOWN else [*pins[:_SHOWN], f"and {len(pins) - _SHOWN} more"]
        yield TextLine(f"  wheels     {', '.join(shown)}; lock {plan.lock[:19]}", hang=13)
    yield TextLine(f"  builder    {plan.builder or 'no engine was queried'}", hang=13)
    if plan.secrets:
        yield TextLine(f"  secrets    {', '.join(plan.secrets)}: shown to the installer, not kept", hang=13)
    for command in plan.commands:
        yield TextLine(f"  $ {shlex.join(command.argv)}", Style.COMMAND, 4)
    for note in plan.notes:
        yield TextLine(f"  note: {note}", Style.QUIET, 8)


def outcome_lines(outcome: ImageOutcome, *, verbose: bool) -> Iterator[TextLine]:
    """The lines of an outcome."""
    for image in outcome.images:
        yield from _image(image, verbose=verbose)
    good = outcome.status is BuildStatus.BUILT
    yield TextLine(outcome.message, Style.GOOD if good else Style.BAD, 2)


def _image(image: BuiltImage, *, verbose: bool) -> Iterator[TextLine]:
    style = Style.HEADING if image.status is BuildStatus.BUILT else Style.BAD
    yield TextLine(f"{image.tag}: {image.message.splitlines()[0]}", style, 2)
    if image.id:
        yield TextLine(f"  id         {image.id}", hang=13)
    if image.digest:
        yield TextLine(f"  digest     {image.digest}", hang=13)
    if image.sizes:
        added = f", {format_size(image.sizes.added)} more than its base" if image.sizes.added is not None else ""
        yield TextLine(f"  size       {format_size(image.sizes.whole)}{added}", hang=13)
    if image.steps is not None:
        yield TextLine(f"  steps      {image.steps}, {image.cached} of them out of the cache", hang=13)
    if image.phases:
        yield TextLine(
            f"  time       {', '.join(f'{entry.name} {entry.duration:.1f} s' for entry in image.phases)}", hang=13
        )
    for proof in image.proofs:
        if verbose or proof.passed is False:
            word = {True: "passed", False: "FAILED", None: "skipped"}[proof.passed]
            yield TextLine(f"  {word:10} {proof.name} {proof.detail}".rstrip(), hang=13)
