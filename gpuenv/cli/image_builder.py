"""What ``gpuenv build-image`` does with its choices: locks the wheels, renders the plans, builds with an engine."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.errors import CommandError, announce, complain, failure_as_result, folded, with_stand
from gpuenv.cli.installer import Means, caller_for, command_error
from gpuenv.cli.output import Output, write_result
from gpuenv.data import data_path
from gpuenv.files import is_file
from gpuenv.image.buildkit import Build, Cli, command, find_cli
from gpuenv.image.choose import NoImageError
from gpuenv.image.errors import EngineError
from gpuenv.image.index import pip_configuration
from gpuenv.image.locking import NoWheelsError, lock_image
from gpuenv.image.plan import Order, Templates, files_of, plan_image, tag_for
from gpuenv.image.records import Built, BuiltImage, Choice, ImageOutcome, ImagePlan, ImagePlans
from gpuenv.image.render import SECRETS, RenderError, Rendering
from gpuenv.image.text import outcome_lines, plan_lines
from gpuenv.install.environment import ask_scheme
from gpuenv.install.errors import InstallError
from gpuenv.install.plan import Command, Pin
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import parse_integer

if TYPE_CHECKING:
    from gpuenv.cli.commands.build_image import BuildImageOptions
    from gpuenv.image.building import Workshop
    from gpuenv.image.engine import Engine
    from gpuenv.matrix.tables import Matrix

_LAST_SECOND = 253402300799  # of the year 9999, behind which there is no date
# Where the caller's own certificates are named, for pip and for uv.
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@contextmanager
def ending(out: Output, *, building: bool) -> Iterator[None]:
    """Makes what ends early in here the command's outcome; of a build, the message says what was left undone.

    Raises:
        CommandError: with the exit code of what ended it.
    """
    left = "nothing was built, and no name was changed" if building else ""

    def failure(error: CommandError) -> ImageOutcome:
        return ImageOutcome(Built.FAILED, error.exit_code, error.message, (), None, error.remedy)

    with failure_as_result(out, failure):
        try:
            yield
        except (NoImageError, NoWheelsError) as error:
            raise CommandError(ExitCode.NOTHING_FITS, with_stand(str(error), left)) from error
        except RenderError as error:
            raise CommandError(ExitCode.USAGE, str(error)) from error
        except EngineError as error:
            raise CommandError(ExitCode.FAILED, with_stand(error.message, left), error.remedy) from error
        except InstallError as error:
            ended = command_error(error)
            raise CommandError(ended.exit_code, with_stand(ended.message, left), ended.remedy) from error


def plan_all(
    opts: BuildImageOptions, labels: Mapping[str, str], choices: Sequence[Choice], rows: Matrix
) -> list[ImagePlan]:
    """The plans; with ``--dry-run`` as an engine would build them, if one answers."""
    with ExitStack() as stack:
        site = None
        if opts.dry_run:
            try:
                site = _site(opts, stack)
            except EngineError as error:
                announce(f"planned without an engine: {error.message.splitlines()[0]}")
        plans = []
        for choice in choices:
            pinned = replace(choice, base=site.engine.pinned(choice.base)) if site else choice
            plan = _plan(opts, labels, pinned, rows, site, several=len(choices) > 1)
            plans.append(_with_commands(plan, site, opts) if site else plan)
        return plans


def show_plans(plans: ImagePlans, out: Output, *, as_dockerfiles: bool) -> None:
    """Prints the plans, or the Dockerfiles alone."""
    if as_dockerfiles and not out.as_json:
        write_result("\n".join(plan.dockerfile for plan in plans.images), out.file)
    else:
        out.emit(plans, lambda: plan_lines(plans, verbose=out.verbose))


def write_contexts(folder: Path, plans: Sequence[ImagePlan]) -> None:
    """Writes all that an image is built from to a folder; of several images, to one each below it."""
    for plan in plans:
        place = folder / plan.choice.name if len(plans) > 1 else folder
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name, text in files_of(plan, _templates(plan.choice)).items():
                (place / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{place}: cannot be written: {error.strerror or error}") from error
        announce(f"{place}: written; to build it: docker build {place}")


def build_all(
    opts: BuildImageOptions, labels: Mapping[str, str], choices: Sequence[Choice], rows: Matrix, out: Output
) -> int:
    """Builds one after the other; one that fails keeps none of the others from being built.

    Raises:
        EngineError: when there is no engine to build with.
        NoWheelsError: when the only image has no wheels.
        InstallError: when its wheels cannot be told.
    """
    with ExitStack() as stack:
        site = _site(opts, stack)
        from gpuenv.image.building import build_image

        pinned = [replace(choice, base=site.engine.pinned(choice.base)) for choice in choices]
        shop = _workshop(site, opts)
        done: list[BuiltImage] = []
        remedies: dict[str, None] = {}
        several = len(choices) > 1
        for choice in pinned:
            tag = tag_for(opts.tag, choice, several=several)
            try:
                plan = _plan(opts, labels, choice, rows, site, several=several)
            except (NoWheelsError, InstallError) as error:
                if not several:
                    raise
                remedies |= {error.remedy: None} if isinstance(error, InstallError) and error.remedy else {}
                done.append(BuiltImage(tag, Built.FAILED, str(error), base=choice.base.pinned))
                continue
            try:
                done.append(build_image(plan, files_of(plan, _templates(choice)), shop))
            except EngineError as error:
                remedies |= {error.remedy: None} if error.remedy else {}
                done.append(BuiltImage(tag, Built.FAILED, error.message, base=choice.base.pinned))
            except KeyboardInterrupt:
                announce(f"interrupted; the build was ended, and {tag} is what it was before")
                raise
    good = sum(image.status is Built.BUILT for image in done)
    code = ExitCode.OK if good == len(done) else ExitCode.FAILED
    status = max((image.status for image in done), key=list(Built).index)
    engine = site.engine.facts.label
    rest = "" if good == len(done) else "; no other name was changed"
    message = f"{good} of {len(done)} images built by {engine}{rest}"
    outcome = ImageOutcome(status, code, message, tuple(done), engine)
    out.emit(outcome, lambda: outcome_lines(outcome, verbose=out.verbose))
    for image in done:
        if image.status is not Built.BUILT:
            announce(image.message)
    for remedy in remedies:
        complain(folded(remedy))
    return code


def _created(rows: Matrix) -> int:
    """SOURCE_DATE_EPOCH where it is set, else the day of the matrix: the same for the same inputs."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        seconds = parse_integer(given, len(str(_LAST_SECOND)))
        if seconds is None or seconds > _LAST_SECOND:
            raise CommandError(ExitCode.USAGE, f"SOURCE_DATE_EPOCH={given[:20]!r}: expected seconds since 1970")
        return seconds
    try:
        return int(datetime.fromisoformat(rows.revision).replace(tzinfo=timezone.utc).timestamp())
    except ValueError:
        return 0


def _templates(choice: Choice) -> Templates:
    folder = data_path("images")
    texts = [(folder / name).read_text(encoding="utf-8") for name in (f"{choice.kind.value}.Dockerfile", "tidy.py")]
    return Templates(*texts)


def _plan(
    opts: BuildImageOptions,
    labels: Mapping[str, str],
    choice: Choice,
    rows: Matrix,
    site: _Site | None,
    *,
    several: bool,
) -> ImagePlan:
    """The plan of an image, with the exact wheels that the installer, as it is configured on this machine, names."""
    pins: tuple[Pin, ...] = ()
    if not opts.show:
        announce(f"locking {' '.join(choice.requirements)} for Python {choice.python}")
        means = Means(opts.installer.installer, opts.offline, break_system_packages=False, seconds=opts.build_timeout)
        scheme = ask_scheme(sys.executable, os.environ, time.monotonic() + 60)
        pins = lock_image(caller_for(scheme, means), choice.requirements, choice.python, choice.platform)
    secrets = site.secrets if site else opts.secrets
    mounts = site.cli is not None if site else opts.builder.value == "buildkit" or bool(secrets)
    rendering = Rendering(_created(rows), mounts, tuple(name for name in SECRETS if name in secrets))
    order = Order(tag_for(opts.tag, choice, several=several), pins, labels, rows.revision)
    return plan_image(choice, order, rendering, _templates(choice))


def _with_commands(plan: ImagePlan, site: _Site, opts: BuildImageOptions) -> ImagePlan:
    """The plan with the command line that would build it."""
    from gpuenv.image.building import proxies

    if site.cli is None:
        return replace(plan, builder="classic")
    arguments = {**proxies(os.environ), "SOURCE_DATE_EPOCH": str(plan.created)}
    build = Build({}, arguments, site.secrets, None, opts.no_cache)
    words = command(site.cli, build, "CONTEXT", "ID-FILE")
    return replace(plan, builder="buildkit", commands=(Command("build", words),))


class _Site(NamedTuple):
    """The engine, its BuildKit (None for the classic builder), and the files that are shown to its builds."""

    engine: Engine
    cli: Cli | None
    secrets: Mapping[str, Path]


def _site(opts: BuildImageOptions, stack: ExitStack) -> _Site:
    """The engine, its builder, and the secrets.

    Raises:
        EngineError: when there is no engine, or its builder cannot do what is needed.
    """
    try:
        from gpuenv.image.engine import connect
    except ImportError as error:
        remedy = "python -m pip install 'gpuenv[image]'"
        raise EngineError(f"building needs more of gpuenv: {error}", remedy) from error

    builder = opts.builder.value
    engine = connect(os.environ, opts.timeout)
    stack.callback(engine.close)
    cli = None
    if engine.facts.has_buildkit and builder != "classic":
        # Every one on PATH: an older one further on may have BuildKit where the first lacks its plug-in.
        folders = filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep))
        programs = dict.fromkeys(str(Path(folder, "docker")) for folder in folders)
        cli = find_cli([path for path in programs if os.access(path, os.X_OK)], os.environ, engine.facts.host)
    if cli is None and builder == "buildkit":
        what = f"{engine.facts.label}: no docker command with BuildKit is on PATH"
        raise EngineError(what, "Install docker-buildx, or take --builder classic.")
    # The files that were named, and this machine's own index and certificates: as secrets, or not at all.
    secrets = {name: path.resolve() for name, path in opts.secrets.items()}
    index = None if opts.public_index or "pip" in secrets else pip_configuration(os.environ)
    if index is not None:
        secrets["pip"] = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuenv-image-")), "pip.conf")
        secrets["pip"].touch(0o600)
        secrets["pip"].write_text(index, encoding="utf-8")
    named = (os.environ.get(name) for name in _CERTIFICATES)
    certificates = next((Path(path) for path in named if path and is_file(path)), None)
    if cli is not None and certificates is not None and "ca" not in secrets:
        secrets["ca"] = certificates.resolve()
    if secrets and cli is None:
        raise EngineError(
            f"the classic builder would leave the secrets ({', '.join(secrets)}) in the image",
            "Install docker-buildx for BuildKit; --public-index does without this machine's own index.",
        )
    return _Site(engine, cli, secrets)


def _workshop(site: _Site, opts: BuildImageOptions) -> Workshop:
    from gpuenv.image.building import Workshop

    # An engine may hand over GPUs without saying so (the toolkit's hook alone): tried where this machine has some.
    nodes = Path(opts.driver_root, "dev")
    has_gpus = (nodes / "nvidiactl").exists() or (nodes / "dxg").exists()
    return Workshop(
        engine=site.engine,
        cli=site.cli,
        secrets=site.secrets,
        environment=os.environ,
        gpu_ways=site.engine.facts.gpu_ways or (("gpus",) if has_gpus else ()),
        announce=announce,
        verbose=opts.verbose,
        fresh=opts.no_cache,
        push=opts.push,
        seconds=opts.build_timeout,
    )
