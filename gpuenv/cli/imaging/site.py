"""Where ``gpuenv build-image`` builds: the engine, its builder, and what is shown to the build and not kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.errors import announce
from gpuenv.cli.inputs import Subject
from gpuenv.cli.installer import Means
from gpuenv.files import is_file

if TYPE_CHECKING:
    from gpuenv.image.buildkit import Cli
    from gpuenv.image.engine import Engine

# Where the caller's own certificates are named, for pip and for uv.
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


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
class Site:
    """The engine that answered, and what is shown to its builds."""

    engine: Engine
    cli: Cli | None
    secrets: Mapping[str, Path]

    @property
    def builder(self) -> str:
        """``buildkit`` or ``classic``."""
        return "buildkit" if self.cli else "classic"


def site_or_none(making: Making, stack: ExitStack) -> Site | None:
    """For a plan an engine is not needed: without one it says less."""
    from gpuenv.image.errors import EngineError

    try:
        return site_of(making, stack)
    except EngineError as error:
        announce(f"planned without an engine: {error.message.splitlines()[0]}")
        return None


def site_of(making: Making, stack: ExitStack) -> Site:
    """The engine, its builder, and the secrets.

    Raises:
        EngineError: when there is no engine, or its builder cannot do what is needed.
    """
    from gpuenv.image.errors import EngineError

    try:
        from gpuenv.image.engine import connect
    except ImportError as error:
        remedy = "python -m pip install 'gpuenv[image]'"
        raise EngineError(f"building needs more of gpuenv: {error}", remedy) from error
    from gpuenv.image.buildkit import find_cli

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
            f"the classic builder would leave the secrets ({', '.join(secrets)}) in the image",
            "Install docker-buildx for BuildKit; --public-index does without this machine's own index.",
        )
    return Site(engine, cli, secrets)


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
    own = next((Path(path) for path in named if path and is_file(path)), None)
    if buildkit and own is not None and "ca" not in found:
        found["ca"] = own.resolve()
    return found


def host_ways(subject: Subject) -> tuple[str, ...]:
    """An engine may hand over GPUs without saying so (the toolkit's hook alone): tried where this machine has some."""
    nodes = Path(subject.driver_root, "dev")
    return ("gpus",) if (nodes / "nvidiactl").exists() or (nodes / "dxg").exists() else ()
