"""The Dockerfile of a plan, from the template of its kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Template

from gpuenv.image.build.records import Choice

SBOM = "sbom.cdx.json"
_CACHE = "--mount=type=cache,target=/root/.cache/pip "
# Where a secret is shown to the installer, and to nothing else.
_SECRETS = {
    "pip": "--mount=type=secret,id=pip,target=/etc/pip.conf ",
    "ca": "--mount=type=secret,id=ca,target=/run/secrets/ca.crt ",
    "netrc": "--mount=type=secret,id=netrc,target=/root/.netrc ",
}
SECRETS = tuple(_SECRETS)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


class RenderError(ValueError):
    """A text that no Dockerfile can hold."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Options for rendering a plan.

    Attributes:
        created: SOURCE_DATE_EPOCH.
        mounts: BuildKit will build it: the installer's cache is kept outside of the image.
        secrets: the secrets that the installer is shown; they need ``mounts``.
        sbom: whether there is a bill of materials.
    """

    created: int
    mounts: bool = False
    secrets: tuple[str, ...] = ()
    sbom: bool = True


def render(template: str, choice: Choice, labels: Mapping[str, str], how: Rendering) -> str:
    """The text of the Dockerfile.

    Raises:
        RenderError: for a label that no Dockerfile can hold.
    """
    certificate = "PIP_CERT=/run/secrets/ca.crt " if "ca" in how.secrets else ""
    mounts = "".join(_SECRETS[name] for name in how.secrets)
    return Template(template).substitute(
        title=f"CuPy {choice.cupy} ({choice.line}) with CUDA {choice.cuda}, written by gpuenv build-image",
        base=choice.base.pinned,
        root="USER 0:0\n" if choice.base.given else "",  # the user of a custom base is not known
        python=choice.python,
        created=how.created,
        mounts=(_CACHE + mounts if how.mounts else "") + (f"export {certificate}&& " if certificate else ""),
        cache="" if how.mounts else " --no-cache-dir",
        sbom=f" {SBOM}" if how.sbom else "",
        admits=choice.admits,
        labels=_labels(labels.items()),
    )


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    rows = [f"{_named(name)}={_quoted(value)}" for name, value in sorted(labels)]
    return "LABEL " + " \\\n      ".join(rows)


def _named(name: str) -> str:
    """The name of a label.

    Raises:
        RenderError: for what is no name of one.
    """
    if not _NAME.fullmatch(name):
        raise RenderError(f"{name[:60]!r} is no name of a label: expected letters, digits, '.', '-', '_' and '/'")
    return name


def _quoted(text: str) -> str:
    """A text in double quotes, in which neither a variable nor a quote nor a backslash means anything.

    Raises:
        RenderError: for a line break or another control character, which would end the instruction.
    """
    if _CONTROL.search(text):
        raise RenderError(f"{text[:60]!r}: a label cannot hold a line break or another control character")
    return '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"'
