"""Installations that are half there, damaged, twice there, or not to be written to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.environments.making import BOTH, NUMPY, SOUND, TWELVE, add, give_away, site, write
from tests.environments.table import Odd, Place

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

RIGHT = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}
NOBODY = 65534


def metadata_of_an_older_release(sandbox: Sandbox) -> Place:
    """An upgrade that was cut short after the new files had come."""
    older = sandbox.target("older", "cupy-cuda12x==13.6.0")
    target = sandbox.target("upgraded", *SOUND)
    name = "cupy_cuda12x-13.6.0.dist-info"
    shutil.copytree(site(older) / name, site(target) / name)
    return Place(target)


def metadata_of_an_older_numpy(sandbox: Sandbox) -> Place:
    older = sandbox.target("older", "numpy==1.26.4")
    target = sandbox.target("numpies", *SOUND)
    shutil.copytree(site(older) / "numpy-1.26.4.dist-info", site(target) / "numpy-1.26.4.dist-info")
    return Place(target)


def metadata_removed(sandbox: Sandbox) -> Place:
    target = sandbox.target("unowned", *SOUND)
    shutil.rmtree(site(target) / "cupy_cuda12x-14.2.0.dist-info")
    return Place(target)


def package_removed(sandbox: Sandbox) -> Place:
    target = sandbox.target("hollow", *SOUND)
    shutil.rmtree(site(target) / "cupy")
    return Place(target)


def half_uninstalled(sandbox: Sandbox) -> Place:
    """Pip renames what it removes, and was ended before it removed it."""
    target = sandbox.target("half", *SOUND)
    for name in ("cupy", "cupyx", "cupy_backends", "cupy_cuda12x-14.2.0.dist-info"):
        (site(target) / name).rename(site(target) / f"~{name[1:]}")
    return Place(target)


def power_cut(sandbox: Sandbox) -> Place:
    """A file system that had made the names and not yet written the contents."""
    target = sandbox.target("cut", *SOUND)
    for name in ("METADATA", "RECORD", "WHEEL"):
        (site(target) / "cupy_cuda12x-14.2.0.dist-info" / name).write_bytes(b"")
    return Place(target)


def links_into_a_pruned_cache(sandbox: Sandbox) -> Place:
    target = sandbox.target("links", NUMPY)
    cache = sandbox.folder / "other-cache"
    add(sandbox, target / "bin/python", TWELVE, UV_LINK_MODE="symlink", UV_CACHE_DIR=str(cache))
    assert (site(target) / "cupy/__init__.py").is_symlink()
    shutil.rmtree(cache)
    return Place(target)


def one_byte(sandbox: Sandbox) -> Place:
    target = sandbox.target("byte", *SOUND)
    file = site(target) / "cupy/part3.py"
    text = file.read_bytes()
    file.unlink()  # uv may have linked it
    file.write_bytes(b"%" + text[1:])
    return Place(target)


def long_and_foreign(sandbox: Sandbox) -> Place:
    """With a link to itself, and a file of the user's own among CuPy's."""
    parts = ["Ünïcödé 日本語 " + "x" * 60] * 3
    (sandbox.folder / Path(*parts)).mkdir(parents=True)
    target = sandbox.target("/".join([*parts, "env"]), *BOTH)
    (site(target) / "cupy/loop").symlink_to(".")
    write(site(target) / "cupy/mine.py", "# of my own\n")
    return Place(target)


def old_metadata_beside(sandbox: Sandbox) -> Place:
    """Of before 2018: an author's name in Latin-1."""
    target = sandbox.target("latin", *BOTH)
    info = site(target) / "oldtool-0.3.dist-info"
    info.mkdir()
    head = "Metadata-Version: 2.0\nName: oldtool\nVersion: 0.3\nAuthor: Jos\xe9 M\xfcller\n"
    (info / "METADATA").write_bytes(head.encode("latin-1"))
    (site(target) / "another_tool-1.0-py3.11.egg-info").write_bytes(
        head.replace("oldtool", "another-tool").encode("latin-1")
    )
    return Place(target)


def copied_from_conda(sandbox: Sandbox) -> Place:
    target = sandbox.target("copied", *BOTH)
    write(site(target) / "cupy_cuda11x-13.6.0.dist-info/INSTALLER", "conda\n")
    return Place(target)


def read_only(sandbox: Sandbox) -> Place:
    target = sandbox.target("read-only", *BOTH)
    site(target).chmod(0o555)
    return Place(target)


def of_somebody_else(sandbox: Sandbox) -> Place:
    target = sandbox.target("theirs", "cupy-cuda13x==14.2.0", NUMPY)
    give_away(target, NOBODY)
    return Place(target)


def toolless(sandbox: Sandbox) -> Place:
    """An image made smaller: neither tests nor compiled caches nor licences, and no INSTALLER."""
    target = sandbox.target("slim", *BOTH)
    for info in site(target).glob("*.dist-info"):
        for name in ("INSTALLER", "REQUESTED", "WHEEL"):
            (info / name).unlink(missing_ok=True)
    return Place(target)


LEFTOVERS = (
    Odd(
        "metadata of an older release beside the newer files",
        metadata_of_an_older_release,
        "corrupt-installation|multiple-cupy-packages",
        error=False,
        mended=RIGHT,
    ),
    Odd(
        "metadata of an older NumPy beside the newer files",
        metadata_of_an_older_numpy,
        "corrupt-installation",
        error=False,
        mended=RIGHT,
    ),
    Odd("files without metadata", metadata_removed, "corrupt-installation", mended=RIGHT),
    Odd("metadata without files", package_removed, "corrupt-installation", mended=RIGHT),
    Odd("half uninstalled", half_uninstalled, "cupy-not-installed|corrupt-installation", mended=RIGHT),
    Odd("empty metadata after a power cut", power_cut, "corrupt-installation|cupy-not-installed", mended=RIGHT),
    Odd("links into a cache that was pruned", links_into_a_pruned_cache, "corrupt-installation", mended=RIGHT),
    Odd("one byte changed", one_byte, "corrupt-installation", error=False, mended=RIGHT, options=("--deep",)),
    Odd("two lines at a long path without ASCII", long_and_foreign, "multiple-cupy-packages", mended=RIGHT),
    Odd("two lines beside metadata in Latin-1", old_metadata_beside, "multiple-cupy-packages", mended=RIGHT),
    Odd("two lines in an image made smaller", toolless, "multiple-cupy-packages", mended=RIGHT),
    Odd(
        "two lines in a venv, one of them copied from conda",
        copied_from_conda,
        "multiple-cupy-packages",
        unsaid=("conda install", "conda remove"),
        code=7,
    ),
    Odd(
        "two lines in a folder that may not be written",
        read_only,
        "multiple-cupy-packages",
        without_rights=True,
        code=7,
        install=7,
    ),
    Odd(
        "a wrong line in an environment of somebody else",
        of_somebody_else,
        "gpu-removed-from-toolkit",
        first="cupy-cuda12x",
        without_rights=True,
        code=7,
        install=7,
    ),
)
