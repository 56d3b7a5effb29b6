"""Maps the failures of an engine to a message and a remedy: by the exception's cause, else by the engine's text.

The kinds of error are those that Docker 20.10, 26.1 and 28.5 and Podman 4.3 raised through the SDK when provoked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuenv.model.redaction import hide_secrets
from gpuenv.model.strings import Lines

_LONGEST = 1500
# How Docker's two builders and Podman report that a command of the build failed: such an engine runs, has its base,
# and a broken connection, a missing file or a refused login in that command's output is its own.
_COMMAND_FAILED = re.compile(
    r"returned a non-zero code|did not complete successfully|while running runtime: exit status"
)
_OUTPUT = re.compile(r"(?:#\d+ )?\d+\.\d+ (.*\S.*)")
# What the classic builder and Podman print between the output of the commands themselves.
_BUILDERS_OWN = re.compile(
    r"Step \d|STEP \d|--->|Removing intermediate container|The command '|# Executing \d+ build|Error: building at STEP"
    r"|building at STEP|time=\"|exit status \d"
)
_BROKEN = r"incompleteread|connection broken|response ended prematurely|unexpected eof|connection reset"
_CAUSES: tuple[tuple[type[BaseException], str, str], ...] = (
    (PermissionError, "this user may not use the engine's socket", "Join the group docker, or use a rootless engine."),
    (FileNotFoundError, "there is no engine: its socket is not there", "Start Docker or Podman, or set DOCKER_HOST."),
    (ConnectionRefusedError, "no engine answers on its socket", "Start Docker or Podman, or set DOCKER_HOST."),
    (TimeoutError, "the engine does not answer in time", "Look at the engine's log, or restart it."),
)
_Texts = tuple[tuple[str, str, str | None], ...]
_DISK_FULL: _Texts = (
    (
        r"no space left on device|ENOSPC|disk quota exceeded",
        "the disk is full",
        "Make room where the engine keeps its images: docker system df, docker image prune.",
    ),
)
# Of the engine itself, where no command of the build failed.
_OF_ENGINE: _Texts = (
    (
        r"invalid bind address format",
        "that is no address of an engine",
        "Write it as unix:///PATH or tcp://HOST:PORT (DOCKER_HOST, or the endpoint of the Docker context).",
    ),
    (
        r"install paramiko",
        "an engine behind ssh:// is not reached from here",
        (
            "Forward its socket: ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST, then "
            "DOCKER_HOST=unix:///tmp/docker.sock; or run gpuenv there."
        ),
    ),
    (
        (
            rf"{_BROKEN}|error reading from server: EOF|transport is closing|broken pipe|"
            r"cannot connect to the docker daemon"
        ),
        "the engine ended in the middle of the work",
        "Start it again; what was built so far is in its cache.",
    ),
    (
        r"\bx509: ",
        "the engine does not trust the registry's certificate",
        "Put the certificate of its authority into /etc/docker/certs.d/HOST/ca.crt, which Docker and Podman read.",
    ),
    (
        (
            r"(?:manifest|digest)[^\n]*(?:unknown|not found)|[^\n]*@sha256:[0-9a-f]+[^\n]*not found|unexpected digest|"
            r"failed to verify|content digest [^\n]*not found|no such image|: not found"
        ),
        "the base image, or that digest of it, does not exist",
        "Look at its name, tag and digest; --base names another one.",
    ),
    (
        r"pull access denied|unauthorized|authentication required|denied: requested access",
        "the registry asks for a login, or has no such image",
        "docker login REGISTRY, and look at the image's name.",
    ),
    (r"dockerfile parse error|unknown instruction|unknown flag", "the engine cannot read the Dockerfile", None),
)
# Of a command of the build: what shells, pip and Debian's venv print.
_OF_COMMAND: _Texts = (
    (
        r"\b\w*sh: (?:(?:line )?\d+: )?\S+: (?:command )?not found|ensurepip is not\s+available|No module named venv\b",
        "the base image lacks what the build runs",
        "It needs a Python with its venv module (kind wheels), or apt-get (the other kinds): --base names another one.",
    ),
    (
        r"exec format error",
        "the base image is for another processor",
        "--base names one for the platform of the image; docker image inspect tells which one a base is for.",
    ),
    (
        r"\b401 (?:Client )?Error\b|Credentials not correct",
        "the package index asks for a login",
        "Show the build yours with --pip-config FILE or --netrc FILE; neither is kept in the image.",
    ),
)
_TEXTS: _Texts = (
    (
        r"do not match the hashes|hash mismatch|hashes from the requirements",
        "a wheel is not the one that was locked",
        "Try again; if it stays so, ask who runs the package index.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate signed by unknown authority|UnknownIssuer|self.signed certificate",
        "a certificate is not trusted inside the build",
        "Show the build your certificates with --ca-bundle FILE; they are not kept in the image.",
    ),
    (
        (
            r"temporary failure in name resolution|temporary failure resolving|no such host|name or service not known|"
            r"could not resolve|dial tcp|network is unreachable|connection timed out|read timed out|i/o timeout|"
            rf"failed to establish a new connection|connection refused|newconnectionerror|no route to host|{_BROKEN}"
        ),
        "the network cannot be reached",
        "Look at the network and the proxy; a base that is there already needs none.",
    ),
    (
        r"no matching distribution found|could not find a version",
        "the package index has no such wheel",
        "Look at the index that the build uses; --pip-config FILE shows it yours.",
    ),
)


class EngineError(Exception):
    """The engine failed; ``remedy`` says what to do."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def engine_error(error: BaseException, doing: str) -> EngineError:
    """What an exception of the SDK means."""
    for root in _roots(error):
        for kind, message, remedy in _CAUSES:
            if isinstance(root, kind):
                return EngineError(f"{doing}: {message}", remedy)
    return error_from_text(str(getattr(error, "explanation", None) or error), doing)


def error_from_text(text: str, doing: str) -> EngineError:
    """The error that an engine's output describes; the output itself follows the message."""
    shown = tidy_text(text)
    whose = _OF_COMMAND if _COMMAND_FAILED.search(text) else _OF_ENGINE
    for pattern, message, remedy in (*_DISK_FULL, *whose, *_TEXTS):
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return EngineError(Lines((f"{doing}: {message}", *shown.split("\n"))), remedy)
    last = _last_line(shown) if _COMMAND_FAILED.search(text) else None
    first, *rest = shown.split("\n")
    return EngineError(Lines((f"{doing}: {last}", first, *rest) if last else (f"{doing}: {first}", *rest)))


def _last_line(log: str) -> str | None:
    """The last line that the failed command of a build printed; none if there is none, or it cannot be identified."""
    lines = [line.strip() for line in log.splitlines()]
    timed = [match[1] for line in lines if (match := _OUTPUT.fullmatch(line))]
    if timed or any(line.startswith("#") for line in lines):  # BuildKit marks the output of commands with seconds
        return timed[-1] if timed else None
    output = [line for line in lines if line and not (_BUILDERS_OWN.match(line) or _COMMAND_FAILED.search(line))]
    return output[-1] if output else None


def tidy_text(text: str) -> str:
    """An engine's output in ASCII, without colours and secrets, its end where it is long."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "\n")
    plain = re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", " ", plain)
    # Cut afterwards: the end of an address no longer tells where the password in it began.
    return hide_secrets(plain.strip().encode("ascii", "replace").decode())[-_LONGEST:]


def _roots(error: BaseException, depth: int = 0) -> Iterator[BaseException]:
    """An exception and all that is behind or inside it."""
    yield error
    if depth < 8:  # noqa: PLR2004 - deeper than any library nests them
        inside = [entry for entry in error.args if isinstance(entry, BaseException)]
        for entry in (error.__cause__, error.__context__, getattr(error, "reason", None), *inside):
            if isinstance(entry, BaseException) and entry is not error:
                yield from _roots(entry, depth + 1)
