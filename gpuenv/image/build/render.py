"""Renders the plan of an image from a choice: labels, Dockerfile and the rest of the build context."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from string import Template

from gpuenv.data import data_path
from gpuenv.image import labels as label_names
from gpuenv.image.build.packages import optional_library
from gpuenv.image.build.plan import Choice, ImageKind, ImagePlan
from gpuenv.install.lockfile import lock_text
from gpuenv.install.plan import Pin
from gpuenv.model.redaction import cut_text

REPOSITORY = "gpuenv-cupy"
DOCKERFILE, LOCK, TIDY, SBOM = "Dockerfile", "requirements.txt", "tidy.py", "sbom.cdx.json"
FILES = (DOCKERFILE, LOCK, TIDY, SBOM)  # of a build context
_MARK = "written by gpuenv build-image"  # ends the first line of a Dockerfile
TEMPLATES = {
    ImageKind.WHEELS: "wheels.Dockerfile",
    ImageKind.RUNTIME: "nvidia.Dockerfile",
    ImageKind.DEVEL: "nvidia.Dockerfile",
}
_OCI = "org.opencontainers.image."
_EMPTY_KERNEL_CACHE = (
    "the kernel cache starts empty: CuPy asks for a device before it compiles anything, so that it cannot be filled "
    "without a GPU (seen with 14.2.0; the code of 13.6.0 does the same)"
)
_CACHE = "--mount=type=cache,target=/root/.cache/pip "
# The mount that makes a secret visible to the installer, and to nothing else.
_SECRETS = {
    "pip": "--mount=type=secret,id=pip,target=/etc/pip.conf ",
    "ca": "--mount=type=secret,id=ca,target=/run/secrets/ca.crt ",
    "netrc": "--mount=type=secret,id=netrc,target=/root/.netrc ",
}
SECRETS = tuple(_SECRETS)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


class RenderError(ValueError):
    """A text that cannot be written in a Dockerfile."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Options for rendering a plan: SOURCE_DATE_EPOCH, and the names of the build secrets, which need ``mounts``.

    With ``mounts``, those of BuildKit, the installer's cache stays outside of the image.
    """

    created: int
    mounts: bool = False
    secrets: tuple[str, ...] = ()


def template(name: str) -> str:
    """A file of ``images/``."""
    return (data_path("images") / name).read_text(encoding="utf-8")


def plan_image(
    choice: Choice,
    options: Rendering,
    *,
    tag: str,
    pins: tuple[Pin, ...],
    user_labels: Mapping[str, str],
    matrix_revision: str,
) -> ImagePlan:
    """The plan of one image; without pins, its wheels are not resolved yet.

    Raises:
        RenderError: for a label that cannot be written in a Dockerfile.
    """
    lock = digest_of(lock_text(pins)) if pins else None
    labels = {**user_labels, **_labels_of(choice, lock, options.created, matrix_revision)}
    notes = [_EMPTY_KERNEL_CACHE]
    if "@" not in choice.base.pinned:
        base = choice.base.reference
        notes.insert(0, f"no digest of {base} is known: it is pinned to the one that the engine has or finds")
    if beyond := [str(entry) for entry in choice.stated if entry not in choice.capabilities]:
        notes.append(f"compute capability {', '.join(beyond)} runs on code of an older one")
    return ImagePlan(
        tag=tag,
        choice=choice,
        pins=pins,
        lock=lock,
        labels=labels,
        dockerfile=render(template(TEMPLATES[choice.kind]), choice, labels, options),
        created=options.created,
        builder=None,
        secrets=options.secrets,
        notes=tuple(notes),
    )


def _labels_of(choice: Choice, lock: str | None, created: int, matrix_revision: str) -> dict[str, str]:
    """The labels of an image, without the result of the verification."""
    labels = {
        f"{_OCI}title": f"CuPy {choice.cupy} with CUDA {choice.cuda}",
        f"{_OCI}description": f"{choice.line} {choice.cupy}, CUDA {choice.cuda}, Python {choice.python}; "
        + ("CUDA from wheels" if choice.kind is ImageKind.WHEELS else f"on NVIDIA's {choice.kind.value} image"),
        f"{_OCI}version": choice.cupy,
        f"{_OCI}created": datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"{_OCI}base.name": choice.base.reference.split("@")[0],
        label_names.MATRIX: matrix_revision,
        label_names.LINE: choice.line,
        label_names.CUPY: choice.cupy,
        label_names.CUDA: str(choice.cuda),
        label_names.COMPUTE_CAPABILITIES: ",".join(map(str, choice.stated or choice.capabilities)),
        label_names.MINIMUM_DRIVER: str(choice.minimum_driver),
        label_names.LEFT_OUT: ",".join(label_names.LEFT_OUT_FILES),
    }
    if choice.base.digest:
        labels[f"{_OCI}base.digest"] = choice.base.digest
    if lock:
        labels[label_names.LOCK] = lock
    return labels


def files_of(plan: ImagePlan) -> dict[str, str]:
    """The files of the build context, by name."""
    files = {DOCKERFILE: plan.dockerfile, LOCK: lock_text(plan.pins), TIDY: template(TIDY)}
    if plan.lock:
        from gpuenv.image.build.sbom import bill  # noqa: PLC0415 - its library is of an extra

        files[SBOM] = bill(plan.choice, plan.pins, plan.lock, plan.created)
    return files


def is_own(dockerfile: str) -> bool:
    """Whether a Dockerfile begins as one that ``render`` returns."""
    first = dockerfile.partition("\n")[0]
    return first.startswith("# ") and first.endswith(_MARK)


def tag_for(given: str | None, choice: Choice, *, several: bool) -> str:
    """The name of an image: ``given`` or the default; of several images, each is a tag of the given repository."""
    if given is None or several:
        return f"{given or REPOSITORY}:{choice.name}"
    return given


def digest_of(text: str) -> str:
    """``sha256:...`` of a text."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def render(template: str, choice: Choice, labels: Mapping[str, str], options: Rendering) -> str:
    """The text of the Dockerfile.

    Raises:
        RenderError: for a label that cannot be written in a Dockerfile.
    """
    certificate = "PIP_CERT=/run/secrets/ca.crt " if "ca" in options.secrets else ""
    mounts = "".join(_SECRETS[name] for name in options.secrets)
    return Template(template).substitute(
        title=f"CuPy {choice.cupy} ({choice.line}) with CUDA {choice.cuda}, {_MARK}",
        base=choice.base.pinned,
        root="USER 0:0\n" if choice.base.given else "",  # the user of a custom base is not known
        python=choice.python,
        created=options.created,
        mounts=(_CACHE + mounts if options.mounts else "") + (f"export {certificate}&& " if certificate else ""),
        cache="" if options.mounts else " --no-cache-dir",
        admits=choice.admits,
        libraries=_library_path(choice),
        labels="LABEL " + " \\\n      ".join(_label(*entry) for entry in sorted(labels.items())),
    )


def _library_path(choice: Choice) -> str:
    """LD_LIBRARY_PATH with the folders of the optional libraries, as a line of an ENV.

    CuPy loads those of wheels itself, but not all: 14.2.0 with cuda-pathfinder 1.9.1 loads libcutensor.so.2 and then
    lacks libcutensorMg.so.2; 13.4.1 and older look for the exact release that they were built with.
    """
    rows = (optional_library(name, choice.cupy, choice.cuda.major) for name in choice.libraries)
    folders = [f"/opt/cupy/lib/python{choice.python}/site-packages/{row.folder}" for row in rows if row is not None]
    rest = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    return f' \\\n    LD_LIBRARY_PATH="{":".join(folders)}{rest}"' if folders else ""


def _label(name: str, value: str) -> str:
    """A label as ``NAME="VALUE"``, with variables, quotes and backslashes escaped."""
    if not _NAME.fullmatch(name):
        raise RenderError(
            f"{cut_text(name, 60)!r} is not a name of a label: expected letters, digits, '.', '-', '_' and '/'"
        )
    if _CONTROL.search(value):
        raise RenderError(f"{cut_text(value, 60)!r}: a label cannot contain a line break or another control character")
    return f'{name}="' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def pack(files: Mapping[str, str], created: int) -> bytes:
    """A tar file of texts, without user names or current times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(files.items()):
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), 0o644, created
            tar.addfile(info, io.BytesIO(data))
        end = tar.offset
    # Two empty blocks end it. Padding to a tape's record is never read, and Podman, whose reader is gone by then, calls
    # that a broken pipe.
    return buffer.getvalue()[: end + 2 * tarfile.BLOCKSIZE]
