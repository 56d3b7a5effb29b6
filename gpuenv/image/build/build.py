"""Builds an image from its plan: builds it untagged, verifies it, adds the result as a label, tags and pushes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gpuenv.image import labels as label_names
from gpuenv.image.build.plan import BuildStatus, BuiltImage, ImagePlan, Sizes
from gpuenv.image.build.render import files_of, pack
from gpuenv.image.build.verify import ImageVerification, verify_image
from gpuenv.image.engine.build_output import Announce, Progress
from gpuenv.image.engine.buildkit import BuildkitCommand, BuildkitOptions, build_with
from gpuenv.image.engine.container_engine import Engine
from gpuenv.image.engine.errors import EngineError
from gpuenv.install.plan import Phase

Answer = TypeVar("Answer")
# What engines take for build arguments by default, and keep out of the image's history.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class BuildSession:
    """The engine, the secrets and the options with which images are built.

    ``cli`` is the engine's command line with BuildKit, None for the classic builder; ``environment`` names the proxies;
    ``gpu_ways`` are the ways to give the verification GPUs, the best first; ``fresh`` builds without the cache.
    """

    engine: Engine
    cli: BuildkitCommand | None
    secrets: Mapping[str, Path]
    environment: Mapping[str, str]
    gpu_ways: tuple[str, ...]
    announce: Announce
    verbose: bool
    fresh: bool
    push: bool
    seconds: float


@dataclass(slots=True)
class _BuildState:
    """State of the build of one image."""

    plan: ImagePlan
    files: Mapping[str, str]
    phases: list[Phase] = field(default_factory=list)
    cached: int = 0
    steps: int = 0
    image: str = ""
    digest: str | None = None


def build_image(plan: ImagePlan, options: BuildSession) -> BuiltImage:
    """Builds one image; if a step fails, the tag still names the former image.

    Raises:
        EngineError: when a step fails.
    """
    state = _BuildState(plan, files_of(plan))
    options.announce(f"building {plan.tag} from {plan.choice.base.pinned}")
    raw = _timed(state, "build", lambda: _build(state, options, {}, fresh=options.fresh))
    try:
        _require_platform(raw, plan, options.engine)
        options.announce("verifying it")
        verified = _timed(state, "prove", lambda: verify_image(options.engine, raw, plan.choice, options.gpu_ways))
        if not verified.passed:
            failed = [f"{entry.name}: {entry.detail}" for entry in verified.verifications if entry.passed is False]
            return BuiltImage(
                tag=plan.tag,
                status=BuildStatus.UNPROVEN,
                message=f"it was built, but its verification failed, so it is not tagged: {'; '.join(failed[:3])}",
                proofs=verified.verifications,
                gpu=bool(verified.gpus),
                phases=tuple(state.phases),
            )
        result_label = {label_names.PROOF: verified.label}
        state.image = _timed(state, "label", lambda: _build(state, options, result_label, fresh=False))
        options.engine.tag(state.image, plan.tag)
    finally:
        if raw != state.image:
            options.engine.remove(raw)
    if options.push:
        options.announce(f"pushing {plan.tag}")
        progress = Progress(options.announce, verbose=options.verbose)
        state.digest = _timed(state, "push", lambda: options.engine.push(plan.tag, progress))
    return _built(state, verified, options.engine)


def _timed(state: _BuildState, name: str, work: Callable[[], Answer]) -> Answer:
    started = time.monotonic()
    try:
        return work()
    finally:
        state.phases.append(Phase(name, time.monotonic() - started))


def _build(state: _BuildState, options: BuildSession, labels: Mapping[str, str], *, fresh: bool) -> str:
    """Runs the builder once; the second run, which only adds a label, uses the cache."""
    plan = state.plan
    progress = Progress(options.announce if not labels else lambda _: None, verbose=options.verbose)
    build = build_options(plan, options, labels, fresh=fresh)
    if options.cli is not None:
        image = build_with(options.cli, build, state.files, progress, time.monotonic() + options.seconds)
    else:
        how = {"labels": dict(labels), "buildargs": build.arguments, "nocache": fresh, "platform": build.platform}
        context = pack(state.files, plan.created)
        image = options.engine.build(context, {**how, "timeout": options.seconds}, progress)
    if not labels:
        state.cached, state.steps = progress.cached, progress.steps
    return image


def build_options(plan: ImagePlan, session: BuildSession, labels: Mapping[str, str], *, fresh: bool) -> BuildkitOptions:
    """The options of the builder; they name the platform if it is not the engine's own."""
    arguments = {**_proxies(session.environment), "SOURCE_DATE_EPOCH": str(plan.created)}
    platform = None if plan.choice.platform == session.engine.facts.platform else plan.choice.platform
    return BuildkitOptions(labels, arguments, session.secrets, platform, fresh)


def _proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's proxy variables, in upper and lower case."""
    names = [name for proxy in _PROXIES for name in (proxy, proxy.lower())]
    return {name: environment[name] for name in names if environment.get(name)}


def _require_platform(image: str, plan: ImagePlan, engine: Engine) -> None:
    """Checks the platform of an image: some engines silently build from a base of another platform."""
    found = engine.inspect(image)
    if found is None or found.platform != plan.choice.platform:
        what = found.platform if found else "missing"
        raise EngineError(
            f"{plan.choice.base.reference} is requested for {plan.choice.platform}, but the built image is {what}",
            "Pull the base for that platform, or name another one with --base.",
        )


def _built(state: _BuildState, verified: ImageVerification, engine: Engine) -> BuiltImage:
    """The image as the engine reports it."""
    plan = state.plan
    found = engine.inspect(plan.tag)
    if found is None:
        raise EngineError(f"{plan.tag} was built, but the engine does not have it", "Look at the engine's log.")
    base = engine.inspect(plan.choice.base.pinned) or engine.inspect(plan.choice.base.reference)
    return BuiltImage(
        tag=plan.tag,
        status=BuildStatus.BUILT,
        message=f"built and verified; {'; '.join((verified.label, *verified.notes))}",
        id=state.image,
        digest=state.digest or found.digest_of(plan.tag),
        base=plan.choice.base.pinned,
        labels=found.labels,
        user=found.user,
        sizes=Sizes(found.size, found.size - base.size if base else None),
        cached=state.cached,
        steps=state.steps,
        proofs=verified.verifications,
        gpu=bool(verified.gpus),
        phases=tuple(state.phases),
    )
