"""Installations that are half there, damaged, twice there, or not to be written to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.environments.making import BOTH, NUMPY, SOUND, TWELVE, add, give_away, site, write
from tests.environments.table import Odd, Place

if TYPE_CHECKING:
    from tests.install.sandbox import Ground

RIGHT = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}
NOBODY = 65534


def metadata_of_an_older_release(ground: Ground) -> Place:
    """An upgrade that was cut short after the new files had come."""
    older = ground.target("older", "cupy-cuda12x==13.6.0")
    target = ground.target("upgraded", *SOUND)
    name = "cupy_cuda12x-13.6.0.dist-info"
    shutil.copytree(site(older) / name, site(target) / name)
    return Place(target)


def metadata_of_an_older_numpy(ground: Ground) -> Place:
    older = ground.target("older", "numpy==1.26.4")
    target = ground.target("numpies", *SOUND)
    shutil.copytree(site(older) / "numpy-1.26.4.dist-info", site(target) / "numpy-1.26.4.dist-info")
    return Place(target)


def metadata_removed(ground: Ground) -> Place:
    target = ground.target("unowned", *SOUND)
    shutil.rmtree(site(target) / "cupy_cuda12x-14.2.0.dist-info")
    return Place(target)


def package_removed(ground: Ground) -> Place:
    target = ground.target("hollow", *SOUND)
    shutil.rmtree(site(target) / "cupy")
    return Place(target)


def half_uninstalled(ground: Ground) -> Place:
    """Pip renames what it removes, and was ended before it removed it."""
    target = ground.target("half", *SOUND)
    for name in ("cupy", "cupyx", "cupy_backends", "cupy_cuda12x-14.2.0.dist-info"):
        (site(target) / name).rename(site(target) / f"~{name[1:]}")
    return Place(target)


def power_cut(ground: Ground) -> Place:
    """A file system that had made the names and not yet written the contents."""
    target = ground.target("cut", *SOUND)
    for name in ("METADATA", "RECORD", "WHEEL"):
        (site(target) / "cupy_cuda12x-14.2.0.dist-info" / name).write_bytes(b"")
    return Place(target)


def links_into_a_pruned_cache(ground: Ground) -> Place:
    target = ground.target("links", NUMPY)
    cache = ground.folder / "other-cache"
    add(ground, target / "bin/python", TWELVE, UV_LINK_MODE="symlink", UV_CACHE_DIR=str(cache))
    assert (site(target) / "cupy/__init__.py").is_symlink()
    shutil.rmtree(cache)
    return Place(target)


def one_byte(ground: Ground) -> Place:
    target = ground.target("byte", *SOUND)
    file = site(target) / "cupy/part3.py"
    text = file.read_bytes()
    file.unlink()  # uv may have linked it
    file.write_bytes(b"%" + text[1:])
    return Place(target)


def long_and_foreign(ground: Ground) -> Place:
    """With a link to itself, and a file of the user's own among CuPy's."""
    parts = ["Ünïcödé 日本語 " + "x" * 60] * 3
    (ground.folder / Path(*parts)).mkdir(parents=True)
    target = ground.target("/".join([*parts, "env"]), *BOTH)
    (site(target) / "cupy/loop").symlink_to(".")
    write(site(target) / "cupy/mine.py", "# of my own\n")
    return Place(target)


def old_metadata_beside(ground: Ground) -> Place:
    """Of before 2018: an author's name in Latin-1."""
    target = ground.target("latin", *BOTH)
    info = site(target) / "oldtool-0.3.dist-info"
    info.mkdir()
    head = "Metadata-Version: 2.0\nName: oldtool\nVersion: 0.3\nAuthor: Jos\xe9 M\xfcller\n"
    (info / "METADATA").write_bytes(head.encode("latin-1"))
    (site(target) / "another_tool-1.0-py3.11.egg-info").write_bytes(
        head.replace("oldtool", "another-tool").encode("latin-1")
    )
    return Place(target)


def copied_from_conda(ground: Ground) -> Place:
    target = ground.target("copied", *BOTH)
    write(site(target) / "cupy_cuda11x-13.6.0.dist-info/INSTALLER", "conda\n")
    return Place(target)


def read_only(ground: Ground) -> Place:
    target = ground.target("read-only", *BOTH)
    site(target).chmod(0o555)
    return Place(target)


def of_somebody_else(ground: Ground) -> Place:
    target = ground.target("theirs", "cupy-cuda13x==14.2.0", NUMPY)
    give_away(target, NOBODY)
    return Place(target)


def toolless(ground: Ground) -> Place:
    """An image made smaller: neither tests nor compiled caches nor licences, and no INSTALLER."""
    target = ground.target("slim", *BOTH)
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
