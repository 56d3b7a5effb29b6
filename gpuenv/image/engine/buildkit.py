"""Builds with BuildKit through the engine's command line, since the SDK supports no secrets."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuenv.image.engine.build_output import Progress
from gpuenv.image.engine.docker_contexts import docker_environment
from gpuenv.image.engine.errors import EngineError, error_from_text
from gpuenv.probe.children import ChildGroup, Ending, run_child

_QUICK = 20.0  # seconds for a question to the command line
_LAST_WITH_BUILDKIT_INSIDE = 22  # docker 23 and newer leave it to the plug-in buildx
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True, slots=True)
class BuildkitCommand:
    """The beginning of a build command with BuildKit, and the caller's variables with the engine's address."""

    words: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def is_plugin(self) -> bool:
        """Whether it is buildx, which reports the image's id for both image stores of the engine."""
        return "buildx" in self.words


@dataclass(frozen=True, slots=True)
class BuildkitOptions:
    """The options of a build: labels in addition to the Dockerfile's, build arguments, the file of each secret.

    ``platform`` is None for the engine's own; ``fresh`` builds without the cache.
    """

    labels: Mapping[str, str]
    arguments: Mapping[str, str]
    secrets: Mapping[str, Path]
    platform: str | None
    fresh: bool = False


def find_cli(programs: Sequence[str], environment: Mapping[str, str], host: str) -> BuildkitCommand | None:
    """Finds the first of some ``docker`` programs that builds with BuildKit."""
    own = {
        **docker_environment(environment),
        "DOCKER_HOST": host,
        "DOCKER_BUILDKIT": "1",
        "DOCKER_CLI_HINTS": "false",
        "NO_COLOR": "1",
    }
    own.pop("DOCKER_CONTEXT", None)
    for program in programs:
        buildx = run_child([program, "buildx", "version"], own, time.monotonic() + _QUICK)
        if buildx.ending is Ending.EXITED and buildx.exit_code == 0:
            return BuildkitCommand((program, "buildx", "build", "--builder=default", "--provenance=false"), own)
        version = run_child([program, "--version"], own, time.monotonic() + _QUICK)
        match = _VERSION.search(version.stdout)
        if match and int(match[1]) <= _LAST_WITH_BUILDKIT_INSIDE:
            return BuildkitCommand((program, "build"), own)
    return None


def command(cli: BuildkitCommand, build: BuildkitOptions, folder: str, answer: str) -> tuple[str, ...]:
    """The command line; it contains no secret, since every user of the machine can see it."""
    words = [*cli.words, "--progress=plain", f"--{'metadata-file' if cli.is_plugin else 'iidfile'}={answer}"]
    words += [f"--label={name}={value}" for name, value in sorted(build.labels.items())]
    words += [f"--build-arg={name}" for name in sorted(build.arguments)]  # the values go through the environment
    words += [f"--secret=id={name},src={path}" for name, path in sorted(build.secrets.items())]
    words += [f"--platform={build.platform}"] if build.platform else []
    words += ["--no-cache"] if build.fresh else []
    return (*words, folder)


def build_with(
    cli: BuildkitCommand, build: BuildkitOptions, files: Mapping[str, str], progress: Progress, deadline: float
) -> str:
    """Builds an image from the files of its context and returns its id; the deadline is one of ``time.monotonic``.

    Raises:
        EngineError: if the build fails.
        KeyboardInterrupt: if interrupted; the build has ended.
    """
    with tempfile.TemporaryDirectory(prefix="gpuenv-image-") as name:
        folder, answer = Path(name, "context"), Path(name, "image-id")
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        group = ChildGroup()
        try:
            words = [*command(cli, build, str(folder), str(answer))]
            done = run_child(words, {**cli.environment, **build.arguments}, deadline, group, progress.feed)
        finally:
            group.close()
        progress.feed("\n")
        if done.ending is Ending.TIMED_OUT:
            raise EngineError("building: the time limit is over", "Raise the limit with --build-timeout SECONDS.")
        if done.ending is not Ending.EXITED or done.exit_code != 0:
            raise error_from_text(progress.log or done.stderr or str(done.error), "the build failed")
        return _image_of(cli, answer)


def _image_of(cli: BuildkitCommand, answer: Path) -> str:
    """The image's id, from the file that the command line wrote."""
    try:
        text = answer.read_text(encoding="utf-8").strip()
        found = json.loads(text)["containerimage.digest"] if cli.is_plugin else text
    except (OSError, ValueError, LookupError, TypeError):
        found = None
    if not isinstance(found, str) or not found:
        raise EngineError("building: the command line did not report the id of the image", "Try --builder classic.")
    return found
