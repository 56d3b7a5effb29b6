"""The work of ``gpuenv build-image``: from the words of the command line to plans, and from plans to images."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.gather import Subject, announce, get_matrix, get_snapshot
from gpuenv.cli.installing import Means, Shown, command_error
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.image.building import Workshop
    from gpuenv.image.buildkit import Cli
    from gpuenv.image.choose import Wish
    from gpuenv.image.engine import Engine
    from gpuenv.image.plan import Templates
    from gpuenv.image.records import BuiltImage, Choice, ImagePlan, ImagePlans
    from gpuenv.image.render import Rendering
    from gpuenv.install.records import Pin
    from gpuenv.matrix.needs import Needs
    from gpuenv.matrix.records import Matrix

# Where the caller's own certificates are named, for pip and for uv.
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be built, in the words of the command line."""

    kinds: tuple[str, ...]
    every: bool
    cuda: str | None
    cupy: str | None
    python: str | None
    arch: str | None
    base: str | None
    tag: str | None
    capabilities: tuple[str, ...]
    labels: tuple[str, ...]
    snapshots: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Making:
    """How it is to be built.

    Attributes:
        builder: ``auto``, ``buildkit`` or ``classic``.
        secrets: name and file of each.
        public_index: the index that is set for this machine is not for the build.
        fresh: without the cache.
        push: whether it is pushed.
        seconds: how long a build may take.
        patience: seconds that the engine may take to answer.
        installing: what the wheels are asked of.
    """

    builder: str
    secrets: Mapping[str, Path]
    public_index: bool
    fresh: bool
    push: bool
    seconds: float
    patience: float
    installing: Means


@dataclass(frozen=True, slots=True)
class _Site:
    """The engine that answered, and what is shown to its builds."""

    engine: Engine
    cli: Cli | None
    secrets: Mapping[str, Path]

    @property
    def builder(self) -> str:
        """``buildkit`` or ``classic``."""
        return "buildkit" if self.cli else "classic"


def run(asked: Asked, machine: tuple[Subject, Path | None], making: Making, shown: Shown, end: str | Path) -> int:
    """The whole command; answers the exit code.

    Raises:
        CommandError: when it ended early.
    """
    from gpuenv.image.choose import NoImageError
    from gpuenv.image.locking import NoWheelsError
    from gpuenv.image.render import RenderError
    from gpuenv.install.errors import InstallError

    _readable(making.secrets)
    rows = get_matrix(machine[1])
    wishes = wishes_of(asked)
    try:
        choices, left_out = _choices(asked, wishes, _machines(asked, machine[0], rows), rows)
        with ExitStack() as stack:
            if end in ("print", "plan") or isinstance(end, Path):
                return _planned((asked, making, rows), (choices, left_out), shown, end, stack)
            return _build_all((asked, making, rows), choices, machine[0], shown, stack)
    except (NoImageError, NoWheelsError) as error:
        raise CommandError(ExitCode.NOTHING_FITS, str(error)) from error
    except RenderError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
    except InstallError as error:
        raise command_error(error) from error


def wishes_of(asked: Asked) -> tuple[Wish, ...]:
    """The wishes, one a kind.

    Raises:
        CommandError: for a word that is not understood.
    """
    from gpuenv.image.choose import DOCKER_PLATFORMS, Wish
    from gpuenv.image.records import Kind
    from gpuenv.image.reference import split
    from gpuenv.model.versions import ComputeCapability, CudaVersion, PythonVersion

    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(asked.arch or "", asked.arch)
    if arch is not None and f"linux-{arch}" not in DOCKER_PLATFORMS:
        raise CommandError(ExitCode.USAGE, f"--arch {asked.arch}: expected x86_64 or aarch64")
    line, _, cupy = (asked.cupy or "").rpartition("==")
    kinds = [Kind(name) for name in asked.kinds] or (list(Kind) if asked.every else [Kind.WHEELS])
    try:
        if asked.base is not None:
            split(asked.base)
        if asked.tag is not None:
            _refuse_digest(asked.tag)
        python = PythonVersion.parse(asked.python) if asked.python else None
        wish = Wish(
            cuda=CudaVersion.parse(asked.cuda) if asked.cuda else None,
            line=line or None,
            cupy=cupy or None,
            python=replace(python, micro=None) if python else None,
            arch=arch,
            base=asked.base,
            capabilities=tuple(ComputeCapability.parse(entry) for entry in asked.capabilities),
        )
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
    return tuple(replace(wish, kind=kind) for kind in dict.fromkeys(kinds))


def _refuse_digest(tag: str) -> None:
    from gpuenv.image.reference import split

    if split(tag)[2] is not None:
        raise ValueError(f"--tag {tag}: a digest is not given, it comes of the build")


def _readable(secrets: Mapping[str, Path]) -> None:
    for path in secrets.values():
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{path}: {error.strerror or error}") from error


def _machines(asked: Asked, subject: Subject, rows: Matrix) -> dict[str, Needs]:
    """The machines that are to be served; of a machine that is given no GPU and no driver, nothing is asked."""
    from gpuenv.matrix.needs import needs_of

    files = asked.snapshots
    if files and subject.no_probe:
        raise CommandError(ExitCode.USAGE, "--snapshot and --no-probe exclude each other")
    subjects = {str(file): replace(subject, snapshot=file) for file in files} or {"": subject}
    # With a CUDA, a wheel or a GPU named, this machine is no more than where the image is built.
    told = asked.every or asked.cuda or asked.cupy or asked.capabilities
    if not files and told and not subject.assume:
        subjects = {"": replace(subject, no_probe=True)}
    return {name: needs_of(get_snapshot(entry, rows), rows) for name, entry in subjects.items()}


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


def _labels(given: Sequence[str]) -> dict[str, str]:
    pairs = [entry.partition("=") for entry in given]
    bad = next((name for name, sign, _ in pairs if not sign or not name), None)
    if bad is not None:
        raise CommandError(ExitCode.USAGE, f"--label {bad}: expected KEY=VALUE")
    own = next((name for name, _, _ in pairs if name.startswith("io.gpuenv.")), None)
    if own is not None:
        raise CommandError(ExitCode.USAGE, f"--label {own}: gpuenv writes these itself")
    return {name: value for name, _, value in pairs}


def _created(rows: Matrix) -> int:
    """SOURCE_DATE_EPOCH where it is set, else the day of the matrix: the same for the same inputs."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        if not given.isdecimal():
            raise CommandError(ExitCode.USAGE, f"SOURCE_DATE_EPOCH={given!r}: expected seconds since 1970")
        return int(given)
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
    order = Order(tag, pins, _labels(asked.labels), rows.revision)
    return plan_image(choice, order, how, templates_of(choice.kind.value))


def _lock(choice: Choice, making: Making) -> tuple[Pin, ...]:
    """The exact wheels; asked of the installer as it is set up on this machine."""
    from gpuenv.cli.installing import caller_for
    from gpuenv.image.locking import lock_image
    from gpuenv.install.environment import ask_scheme

    announce(f"locking {' '.join(choice.requirements)} for Python {choice.python}")
    scheme = ask_scheme(sys.executable, os.environ, time.monotonic() + 60)
    return lock_image(caller_for(scheme, making.installing), choice.requirements, choice.python, choice.platform)


def _planned(
    work: tuple[Asked, Making, Matrix],
    found: tuple[tuple[Choice, ...], tuple[str, ...]],
    shown: Shown,
    end: str | Path,
    stack: ExitStack,
) -> int:
    """Everything that ends without a build."""
    from gpuenv.image.records import ImagePlans

    (asked, making, rows), (choices, left_out) = work, found
    site = _site_or_none(making, stack) if end == "plan" else None
    plans = []
    for choice in choices:
        pinned = replace(choice, base=site.engine.pinned(choice.base)) if site else choice
        pins = () if end == "print" else _lock(choice, making)
        plan = _plan(asked, pinned, pins, _rendering(making, site, rows), rows, len(choices))
        plans.append(_with_commands(plan, site, making) if site else plan)
    if isinstance(end, Path):
        _write_contexts(end, plans)
    else:
        _show_plans(ImagePlans(tuple(plans), left_out, rows.revision), shown, texts=end == "print")
    return ExitCode.OK


def _rendering(making: Making, site: _Site | None, rows: Matrix) -> Rendering:
    from gpuenv.image.render import SECRETS, Rendering

    secrets = site.secrets if site else making.secrets
    mounts = site.cli is not None if site else making.builder == "buildkit" or bool(secrets)
    return Rendering(_created(rows), mounts, tuple(name for name in SECRETS if name in secrets))


def _with_commands(plan: ImagePlan, site: _Site, making: Making) -> ImagePlan:
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


def _show_plans(plans: ImagePlans, shown: Shown, *, texts: bool) -> None:
    from gpuenv.cli.output import emit_json, emit_lines, write_file, write_stdout
    from gpuenv.image.text import plan_lines

    if shown.output_format is options.Format.JSON:
        emit_json(plans, shown.output, redacted=shown.redacted)
    elif texts:
        text = "\n".join(plan.dockerfile for plan in plans.images)
        write_file(shown.output, text) if shown.output else write_stdout(text)
    else:
        lines = plan_lines(plans, verbose=shown.verbose)
        emit_lines(lines, shown.output, color=shown.color, redacted=shown.redacted)


def _site_or_none(making: Making, stack: ExitStack) -> _Site | None:
    """For a plan an engine is not needed: without one it says less."""
    from gpuenv.image.errors import EngineError

    try:
        return _site(making, stack)
    except EngineError as error:
        announce(f"planned without an engine: {error.message.splitlines()[0]}")
        return None


def _site(making: Making, stack: ExitStack) -> _Site:
    """The engine, its builder, and the secrets.

    Raises:
        EngineError: when there is no engine, or its builder cannot do what is needed.
    """
    try:
        from gpuenv.image.engine import connect
    except ImportError as error:
        remedy = "python -m pip install 'gpuenv[image]'"
        raise CommandError(ExitCode.FAILED, f"building needs more of gpuenv: {error}", remedy) from error
    from gpuenv.image.buildkit import find_cli
    from gpuenv.image.errors import EngineError

    engine = connect(os.environ, making.patience)
    stack.callback(engine.close)
    cli = None
    if engine.facts.has_buildkit and making.builder != "classic":
        cli = find_cli(_programs(), os.environ, engine.facts.host)
    if cli is None and making.builder == "buildkit":
        what = f"{engine.facts.label}: no docker command with BuildKit is on PATH"
        raise EngineError(what, "Install docker-buildx, or take --builder classic.")
    secrets = _secrets(making, stack, buildkit=cli is not None)
    if secrets and cli is None:
        raise EngineError(
            f"the classic builder would leave the secrets ({', '.join(secrets)}) in the image: nothing was built",
            "Install docker-buildx for BuildKit; --public-index does without this machine's own index.",
        )
    return _Site(engine, cli, secrets)


def _programs() -> list[str]:
    """Every ``docker`` on PATH: an older one further on may have BuildKit where the first lacks its plug-in."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [str(Path(folder, "docker")) for folder in folders if folder]
    return [path for path in dict.fromkeys(found) if os.access(path, os.X_OK)]


def _secrets(making: Making, stack: ExitStack, *, buildkit: bool) -> dict[str, Path]:
    """The files that were named, and this machine's own index and certificates: as secrets, or not at all."""
    from gpuenv.image.index import pip_configuration

    found = {name: path.resolve() for name, path in making.secrets.items()}
    index = None if making.public_index or "pip" in found else pip_configuration(os.environ)
    if index is not None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuenv-image-"))
        found["pip"] = Path(folder, "pip.conf")
        found["pip"].touch(0o600)
        found["pip"].write_text(index, encoding="utf-8")
    named = (os.environ.get(name) for name in _CERTIFICATES)
    own = next((Path(path) for path in named if path and Path(path).is_file()), None)
    if buildkit and own is not None and "ca" not in found:
        found["ca"] = own.resolve()
    return found


def _build_all(
    work: tuple[Asked, Making, Matrix], choices: Sequence[Choice], subject: Subject, shown: Shown, stack: ExitStack
) -> int:
    """Builds one after the other; one that fails keeps none of the others from being built.

    Raises:
        CommandError: when there is no engine to build with.
    """
    from gpuenv.image.errors import EngineError
    from gpuenv.image.records import Built

    asked, making, rows = work
    try:
        site = _site(making, stack)
        pinned = [replace(choice, base=site.engine.pinned(choice.base)) for choice in choices]
    except EngineError as error:
        raise CommandError(ExitCode.FAILED, error.message, error.remedy) from error
    shop = _workshop(site, making, subject, shown)
    done: list[BuiltImage] = []
    remedies: dict[str, None] = {}
    for choice in pinned:
        plan = _plan(asked, choice, _lock(choice, making), _rendering(making, site, rows), rows, len(choices))
        try:
            done.append(_one(plan, shop, remedies))
        except KeyboardInterrupt:
            announce(f"interrupted; the build was ended, and {plan.tag} is what it was before")
            raise
    status = max((image.status for image in done), key=list(Built).index)
    return _show(done, status, shown, site.engine.facts.label, tuple(remedies))


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


def _workshop(site: _Site, making: Making, subject: Subject, shown: Shown) -> Workshop:
    from gpuenv.image.building import Workshop

    return Workshop(
        engine=site.engine,
        cli=site.cli,
        secrets=site.secrets,
        environment=os.environ,
        gpu_ways=site.engine.facts.gpu_ways or _host_ways(subject),
        announce=announce,
        verbose=shown.verbose,
        fresh=making.fresh,
        push=making.push,
        seconds=making.seconds,
    )


def _host_ways(subject: Subject) -> tuple[str, ...]:
    """An engine may hand over GPUs without saying so (the toolkit's hook alone): tried where this machine has some."""
    nodes = Path(subject.driver_root, "dev")
    return ("gpus",) if (nodes / "nvidiactl").exists() or (nodes / "dxg").exists() else ()


def _show(images: Sequence[BuiltImage], status: object, shown: Shown, engine: str, remedies: Sequence[str]) -> int:
    from gpuenv.cli.output import emit_json, emit_lines
    from gpuenv.image.records import Built, ImageOutcome
    from gpuenv.image.text import outcome_lines

    good = sum(image.status is Built.BUILT for image in images)
    code = ExitCode.OK if good == len(images) else ExitCode.FAILED
    message = f"{good} of {len(images)} images built by {engine}" + (
        "" if good == len(images) else "; no other name was changed"
    )
    worst = status if isinstance(status, Built) else Built.FAILED
    outcome = ImageOutcome(worst, code, message, tuple(images), engine)
    if shown.output_format is options.Format.JSON:
        emit_json(outcome, shown.output, redacted=shown.redacted)
    else:
        emit_lines(
            outcome_lines(outcome, verbose=shown.verbose), shown.output, color=shown.color, redacted=shown.redacted
        )
    for image in images:
        if image.status is not Built.BUILT:
            announce(image.message)
    for remedy in remedies:
        sys.stderr.write(f"{remedy}\n")
    return code
