"""The engine, the builder and the secrets with which ``gpuenv build-image`` builds images."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.command_errors import extra_command, progress
from gpuenv.cli.sources import own_environment
from gpuenv.files import is_file
from gpuenv.image.build.packages import pip_configuration
from gpuenv.image.engine.buildkit import BuildkitCommand, find_cli
from gpuenv.image.engine.errors import EngineError

if TYPE_CHECKING:
    from gpuenv.cli.commands.build_image import BuildImageOptions
    from gpuenv.image.build.build import BuildSession
    from gpuenv.image.engine.container_engine import Engine

# Variables of pip and uv that name certificates.
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


def open_build_session(opts: BuildImageOptions, stack: ExitStack) -> BuildSession:
    """Connects to the engine, and finds its builder and the secrets; ``stack`` closes what this opens.

    Raises:
        EngineError: when there is no engine, or its builder lacks a required feature.
    """
    try:
        from gpuenv.image.build.build import BuildSession
        from gpuenv.image.engine.container_engine import connect
    except ImportError as error:
        message = f"building needs the image extra of gpuenv: {error}"
        raise EngineError(message, extra_command("image")) from error

    variables = own_environment()
    engine = connect(variables, opts.timeout)
    stack.callback(engine.close)
    cli = _find_buildkit(engine, opts.builder.value, variables)
    # An engine may support GPUs without reporting it (a hook of the toolkit): try if this machine has GPUs.
    nodes = Path(opts.driver_root, "dev")
    has_gpus = (nodes / "nvidiactl").exists() or (nodes / "dxg").exists()
    return BuildSession(
        engine=engine,
        cli=cli,
        secrets=_find_secrets(opts, stack, has_buildkit=cli is not None),
        environment=os.environ,
        gpu_ways=engine.facts.gpu_ways or (("gpus",) if has_gpus else ()),
        announce=progress,
        verbose=opts.verbose,
        fresh=opts.no_cache,
        push=opts.push,
        seconds=opts.build_timeout,
    )


def _find_buildkit(engine: Engine, builder: str, variables: Mapping[str, str]) -> BuildkitCommand | None:
    """The docker command with BuildKit; None selects the classic builder.

    Raises:
        EngineError: when ``--builder buildkit`` is passed, and there is none.
    """
    cli = None
    if engine.facts.has_buildkit and builder != "classic":
        # Every docker on PATH: a later one may have the BuildKit plug-in that the first lacks.
        folders = filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep))
        programs = dict.fromkeys(str(Path(folder, "docker")) for folder in folders)
        cli = find_cli([path for path in programs if os.access(path, os.X_OK)], variables, engine.facts.host)
    if cli is None and builder == "buildkit":
        message = f"{engine.facts.label}: no docker command with BuildKit is on PATH"
        raise EngineError(message, "Install docker-buildx, or pass --builder classic.")
    return cli


def _find_secrets(opts: BuildImageOptions, stack: ExitStack, *, has_buildkit: bool) -> dict[str, Path]:
    """The files of the build secrets: the named ones, else this machine's index and certificates.

    Raises:
        EngineError: when the classic builder would leave them in the image.
    """
    secrets = {name: path.resolve() for name, path in opts.secrets.items()}
    index = None if opts.public_index or "pip" in secrets else pip_configuration(os.environ)
    if index is not None:
        secrets["pip"] = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuenv-image-")), "pip.conf")
        secrets["pip"].touch(0o600)
        secrets["pip"].write_text(index, encoding="utf-8")
    paths = (os.environ.get(name) for name in _CERTIFICATES)
    certificates = next((Path(path) for path in paths if path and is_file(path)), None)
    if has_buildkit and certificates is not None and "ca" not in secrets:
        secrets["ca"] = certificates.resolve()
    if secrets and not has_buildkit:
        raise EngineError(
            f"the classic builder would leave the secrets ({', '.join(secrets)}) in the image",
            "Install docker-buildx for BuildKit; --public-index does without this machine's own index.",
        )
    return secrets
