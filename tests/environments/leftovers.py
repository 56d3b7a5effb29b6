"""Incomplete, damaged, duplicate or read-only installations."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.environments.builders import (
    CUPY,
    CUPY_AND_NUMPY,
    NUMPY,
    TWO_CUPYS,
    change_owner,
    install,
    site_packages,
    write,
)
from tests.environments.cases import BuiltEnvironment, EnvironmentCase

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

FIXED = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}
NOBODY_UID = 65534


def metadata_of_an_older_release(sandbox: Sandbox) -> BuiltEnvironment:
    """An upgrade that was interrupted after the new files were installed."""
    older = sandbox.target("older", "cupy-cuda12x==13.6.0")
    target = sandbox.target("upgraded", *CUPY_AND_NUMPY)
    name = "cupy_cuda12x-13.6.0.dist-info"
    shutil.copytree(site_packages(older) / name, site_packages(target) / name)
    return BuiltEnvironment(target)


def metadata_of_an_older_numpy(sandbox: Sandbox) -> BuiltEnvironment:
    older = sandbox.target("older", "numpy==1.26.4")
    target = sandbox.target("numpies", *CUPY_AND_NUMPY)
    shutil.copytree(site_packages(older) / "numpy-1.26.4.dist-info", site_packages(target) / "numpy-1.26.4.dist-info")
    return BuiltEnvironment(target)


def files_without_metadata(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("unowned", *CUPY_AND_NUMPY)
    shutil.rmtree(site_packages(target) / "cupy_cuda12x-14.2.0.dist-info")
    return BuiltEnvironment(target)


def metadata_without_files(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("hollow", *CUPY_AND_NUMPY)
    shutil.rmtree(site_packages(target) / "cupy")
    return BuiltEnvironment(target)


def interrupted_uninstall(sandbox: Sandbox) -> BuiltEnvironment:
    """pip was ended after renaming the files, before removing them."""
    target = sandbox.target("half", *CUPY_AND_NUMPY)
    for name in ("cupy", "cupyx", "cupy_backends", "cupy_cuda12x-14.2.0.dist-info"):
        (site_packages(target) / name).rename(site_packages(target) / f"~{name[1:]}")
    return BuiltEnvironment(target)


def empty_metadata(sandbox: Sandbox) -> BuiltEnvironment:
    """The file system has created the files without their content."""
    target = sandbox.target("cut", *CUPY_AND_NUMPY)
    for name in ("METADATA", "RECORD", "WHEEL"):
        (site_packages(target) / "cupy_cuda12x-14.2.0.dist-info" / name).write_bytes(b"")
    return BuiltEnvironment(target)


def links_into_a_pruned_cache(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("links", NUMPY)
    cache = sandbox.folder / "other-cache"
    install(sandbox, target / "bin/python", CUPY, UV_LINK_MODE="symlink", UV_CACHE_DIR=str(cache))
    assert (site_packages(target) / "cupy/__init__.py").is_symlink()
    shutil.rmtree(cache)
    return BuiltEnvironment(target)


def changed_byte(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("byte", *CUPY_AND_NUMPY)
    file = site_packages(target) / "cupy/part3.py"
    text = file.read_bytes()
    file.unlink()  # uv may have linked it to its cache
    file.write_bytes(b"%" + text[1:])
    return BuiltEnvironment(target)


def long_non_ascii_path(sandbox: Sandbox) -> BuiltEnvironment:
    """With a link loop, and a file of the user among CuPy's."""
    parts = ["Ünïcödé 日本語 " + "x" * 60] * 3
    (sandbox.folder / Path(*parts)).mkdir(parents=True)
    target = sandbox.target("/".join([*parts, "env"]), *TWO_CUPYS)
    (site_packages(target) / "cupy/loop").symlink_to(".")
    write(site_packages(target) / "cupy/mine.py", "# of the user\n")
    return BuiltEnvironment(target)


def latin_1_metadata(sandbox: Sandbox) -> BuiltEnvironment:
    """Metadata from before 2018 with an author's name in Latin-1."""
    target = sandbox.target("latin", *TWO_CUPYS)
    info = site_packages(target) / "oldtool-0.3.dist-info"
    info.mkdir()
    head = "Metadata-Version: 2.0\nName: oldtool\nVersion: 0.3\nAuthor: Jos\xe9 M\xfcller\n"
    (info / "METADATA").write_bytes(head.encode("latin-1"))
    (site_packages(target) / "another_tool-1.0-py3.11.egg-info").write_bytes(
        head.replace("oldtool", "another-tool").encode("latin-1")
    )
    return BuiltEnvironment(target)


def copied_from_conda(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("copied", *TWO_CUPYS)
    write(site_packages(target) / "cupy_cuda11x-13.6.0.dist-info/INSTALLER", "conda\n")
    return BuiltEnvironment(target)


def read_only_site_packages(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("read-only", *TWO_CUPYS)
    site_packages(target).chmod(0o555)
    return BuiltEnvironment(target)


def environment_of_another_user(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("theirs", "cupy-cuda13x==14.2.0", NUMPY)
    change_owner(target, NOBODY_UID)
    return BuiltEnvironment(target)


def slimmed_environment(sandbox: Sandbox) -> BuiltEnvironment:
    """As in a size-optimised image: without INSTALLER and other metadata files."""
    target = sandbox.target("slim", *TWO_CUPYS)
    for info in site_packages(target).glob("*.dist-info"):
        for name in ("INSTALLER", "REQUESTED", "WHEEL"):
            (info / name).unlink(missing_ok=True)
    return BuiltEnvironment(target)


def record_with_windows_line_ends(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("crlf", *TWO_CUPYS)
    for record in site_packages(target).glob("cupy*.dist-info/RECORD"):
        text = record.read_bytes()
        record.unlink()
        record.write_bytes(text.replace(b"\n", b"\r\n") + b"\r\n")
    return BuiltEnvironment(target)


def unowned_numpy(sandbox: Sandbox) -> BuiltEnvironment:
    """A copied folder with a file of the user in it."""
    target = sandbox.target("copied-numpy", *CUPY_AND_NUMPY)
    shutil.rmtree(site_packages(target) / "numpy-2.1.0.dist-info")
    write(site_packages(target) / "numpy/mine.py", "# of the user\n")
    return BuiltEnvironment(target)


LEFTOVERS = (
    EnvironmentCase(
        "metadata of an older release next to the newer files",
        metadata_of_an_older_release,
        "corrupt-installation|multiple-cupy-packages",
        error=False,
        fixed_versions=FIXED,
    ),
    EnvironmentCase(
        "metadata of an older NumPy next to the newer files",
        metadata_of_an_older_numpy,
        "corrupt-installation",
        error=False,
        fixed_versions=FIXED,
    ),
    EnvironmentCase("files without metadata", files_without_metadata, "corrupt-installation", fixed_versions=FIXED),
    EnvironmentCase("metadata without files", metadata_without_files, "corrupt-installation", fixed_versions=FIXED),
    EnvironmentCase(
        "interrupted uninstall", interrupted_uninstall, "cupy-not-installed|corrupt-installation", fixed_versions=FIXED
    ),
    EnvironmentCase(
        "empty metadata after a power cut",
        empty_metadata,
        "corrupt-installation|cupy-not-installed",
        fixed_versions=FIXED,
    ),
    EnvironmentCase(
        "links into a cache that was pruned", links_into_a_pruned_cache, "corrupt-installation", fixed_versions=FIXED
    ),
    EnvironmentCase(
        "one byte changed", changed_byte, "corrupt-installation", error=False, fixed_versions=FIXED, options=("--deep",)
    ),
    EnvironmentCase(
        "two lines at a long non-ASCII path", long_non_ascii_path, "multiple-cupy-packages", fixed_versions=FIXED
    ),
    EnvironmentCase(
        "two lines next to metadata in Latin-1", latin_1_metadata, "multiple-cupy-packages", fixed_versions=FIXED
    ),
    EnvironmentCase(
        "two lines in a size-optimised image", slimmed_environment, "multiple-cupy-packages", fixed_versions=FIXED
    ),
    EnvironmentCase(
        "two lines in a venv, one of them copied from conda",
        copied_from_conda,
        "multiple-cupy-packages",
        forbidden_words=("conda install", "conda remove"),
        fix_exit_code=7,
    ),
    EnvironmentCase(
        "two lines in a read-only folder",
        read_only_site_packages,
        "multiple-cupy-packages",
        unprivileged=True,
        fix_exit_code=7,
        install_exit_code=7,
    ),
    EnvironmentCase(
        "a wrong line in another user's environment",
        environment_of_another_user,
        "gpu-removed-from-toolkit",
        first_fix="cupy-cuda12x",
        unprivileged=True,
        fix_exit_code=7,
        install_exit_code=7,
    ),
    EnvironmentCase(
        "two lines with RECORDs with Windows line ends",
        record_with_windows_line_ends,
        "multiple-cupy-packages",
        fixed_versions=FIXED,
    ),
    EnvironmentCase(
        "a NumPy without metadata", unowned_numpy, "numpy-incompatible|corrupt-installation", fixed_versions=FIXED
    ),
)
