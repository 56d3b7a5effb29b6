"""Caches and data that another user can change are not used: owner, mode and links of every folder on the way."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.files import others_reach, own_folder, own_temporary_folder, read_own
from gpuenv.install.own_folders import ConfigurationIgnoredError, with_own_folders
from tests.cli.program import gpuenv
from tests.simulate.commands import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHER = 12345
MACHINE = "amd-mi300x-without-cupy"  # without a toolkit to compile
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root: changes owners")


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="own-folders-") as folder:
        home = Path(folder).resolve() / "base/home"
        home.mkdir(parents=True)
        yield home


def give(path: Path) -> None:
    os.chown(path, OTHER, OTHER, follow_symlinks=False)


def link(path: Path, target: Path) -> None:
    shutil.move(path, target)
    path.symlink_to(target)


def give_a_link_of_another_user(path: Path) -> None:
    link(path, path.with_name("moved"))
    give(path)


def link_into_a_folder_of_another_user(path: Path) -> None:
    other = path.parent / "other"
    other.mkdir()
    link(path, other / "x")
    give(other)


def link_through_a_link_of_another_user(path: Path) -> None:
    give_a_link_of_another_user(path)
    path.rename(path.with_name("second"))
    path.symlink_to("second")


def let_another_group_write(path: Path) -> None:
    os.chown(path, -1, OTHER)
    path.chmod(0o770)


ATTACKS = {
    "owner": give,
    "every user writes": lambda path: path.chmod(0o777),
    "another group writes": let_another_group_write,
    "a link of another user": give_a_link_of_another_user,
    "a link to another user's": link_into_a_folder_of_another_user,
    "a link to a link of another user": link_through_a_link_of_another_user,
}
attacks = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


@attacks
@pytest.mark.parametrize("part", [".", "a", "a/b", "a/b/file", ".."])
def test_every_part_of_a_path_is_judged(home: Path, attack: Callable[[Path], None], part: str) -> None:
    path = home / "a/b/file"
    path.parent.mkdir(parents=True)
    path.write_text("x", encoding="utf-8")
    assert others_reach(path) is None
    assert read_own(path, 1) == b"x"
    messages: list[str] = []
    assert own_folder(path.parent, messages.append) == path.parent
    attack(Path(os.path.normpath(home / part)))
    assert others_reach(path)
    with pytest.raises(OSError, match=r"another user|writable by|Too many"):
        read_own(path, 1)
    assert own_folder(path, messages.append) is None
    assert len(messages) == 1


def test_links_and_sticky_folders_of_trusted_users_are_allowed(home: Path) -> None:
    (home / "real").mkdir()
    (home / "link").symlink_to("../home/./real")
    (home / "absolute").symlink_to(home / "link")
    (home / "loop").symlink_to("loop")
    home.chmod(0o1777)
    for name in ("real/x", "link/x", "absolute/../real/missing/x"):
        assert others_reach(home / name) is None
    assert "is writable by every user" in str(others_reach(home))
    assert "too many links" in str(others_reach(home / "loop"))
    give(home / "real")
    assert "another user" in str(others_reach(home / "absolute/x"))


def test_a_link_of_ones_own_is_not_read_as_a_cached_file(home: Path) -> None:
    (home / "file").write_text("x", encoding="utf-8")
    (home / "link").symlink_to("file")
    with pytest.raises(OSError, match="symbolic links"):
        read_own(home / "link", 1)


@pytest.mark.parametrize(
    ("attack", "part"),
    [
        pytest.param(attack, part, marks=[] if attack == "owner" and part != ".local" else pytest.mark.long)
        for attack in ATTACKS
        for part in (".local", ".local/share/gpuenv", ".local/share/gpuenv/matrix.yaml")
    ],
)
def test_a_matrix_that_another_user_can_change_is_ignored(home: Path, attack: str, part: str) -> None:
    matrix = home / ".local/share/gpuenv/matrix.yaml"
    matrix.parent.mkdir(parents=True)
    text = data_path("matrix.yaml").read_text(encoding="utf-8")
    matrix.write_text(re.sub(r"revision: '.*'", "revision: '2999-01-01'", text), encoding="utf-8")
    ATTACKS[attack](home / part)
    result = gpuenv("matrix", "show", environment={"HOME": str(home), "PATH": os.environ["PATH"]})
    assert result.returncode == 0
    assert "2999" not in result.stdout
    assert result.stderr.count(f"{matrix} is not used: ") == 1


def state(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the stub driver."""
    folder = tmp_path_factory.mktemp("made")
    assert simulate(MACHINE, "true", cache=folder).returncode == 0
    return folder


def loaded(cache: Path, **variables: str) -> tuple[str, str]:
    """The digest of the library that a command on a machine loads, and the messages."""
    result = simulate(MACHINE, "sh", "-c", "echo $LD_AUDIT; sha256sum < $LD_AUDIT", cache=cache, **variables)
    path, digest = result.stdout.splitlines()
    assert not Path(path).is_relative_to(cache.parent.parent)
    return digest, result.stderr


@pytest.mark.parametrize(
    ("attack", "part"),
    [
        ("owner", "gpuenv"),
        *(
            pytest.param(attack, part, marks=pytest.mark.long)
            for attack in ATTACKS
            for part in ("gpuenv", "gpuenv/stub-*", "gpuenv/stub-*/libgpuenv-audit.so")
            if (attack, part) != ("owner", "gpuenv")
        ),
    ],
)
def test_the_stub_of_another_user_is_neither_loaded_nor_changed(home: Path, made: Path, attack: str, part: str) -> None:
    cache = home / "cache"
    shutil.copytree(made, cache, symlinks=True)
    own, _ = loaded(cache)
    (library,) = cache.rglob("libgpuenv-audit.so")
    library.write_bytes(b"\x7fELF of the other user")
    sums = library.with_name("SHA256SUMS")
    sums.write_text(sums.read_text().replace(own.split()[0], hashlib.sha256(library.read_bytes()).hexdigest()))
    (place,) = cache.glob(part)
    ATTACKS[attack](place)
    before = state(cache)
    digest, messages = loaded(cache)
    assert digest == own
    assert messages.count(" is not used: ") == 1
    if not part.endswith(".so"):
        assert state(cache) == before


@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=pytest.mark.long) for name in ("a byte", "mode", "link", "digests")]
)
def test_a_damaged_stub_is_compiled_again(home: Path, made: Path, damage: str) -> None:
    cache = home / "cache"
    shutil.copytree(made, cache, symlinks=True)
    first, messages = loaded(cache)
    assert "compiling" not in messages
    (library,) = cache.rglob("libgpuenv-audit.so")
    if damage == "a byte":
        library.write_bytes(library.read_bytes() + b"\0")
    elif damage == "mode":
        library.chmod(0o666)
    elif damage == "link":
        link(library, home / "elsewhere")
    else:
        library.with_name("SHA256SUMS").unlink()
    repaired, messages = loaded(cache)
    assert (repaired, "compiling" in messages) == (first, True)
    assert "compiling" not in loaded(cache)[1]


@pytest.mark.parametrize(
    ("variable", "part"),
    [
        ("HOME", "."), ("HOME", ".."), ("HOME", ".cache"), ("HOME", ".cache/uv"), ("HOME", ".cache/pip"),
        ("HOME", ".config/pip/pip.conf"), ("HOME", ".netrc"), ("HOME", ".condarc"), ("XDG_CACHE_HOME", "."),
        ("XDG_CACHE_HOME", "uv"), ("XDG_CONFIG_HOME", "uv/uv.toml"), ("XDG_DATA_HOME", "uv"),
        ("HOME", ".docker/config.json"), ("HOME", ".docker/cli-plugins"), ("XDG_RUNTIME_DIR", "."),
        ("XDG_RUNTIME_DIR", "podman"),
    ],
)  # fmt: skip
@attacks
def test_an_installer_gets_no_folder_that_another_user_can_change(
    home: Path, attack: Callable[[Path], None], variable: str, part: str
) -> None:
    place = Path(os.path.normpath(home / part))
    if not place.exists():
        place.mkdir(parents=True)
    messages: list[str] = []
    own = {variable: str(home), "PATH": "/bin"}
    assert with_own_folders(own, messages.append) == own
    assert messages == []
    attack(place)
    changed = with_own_folders(own, messages.append)
    assert changed.get(variable) != str(home)
    assert changed["PATH"] == "/bin"
    assert [f"without {variable}={home}" in text for text in messages] == [True]
    assert with_own_folders({"UV_CACHE_DIR": str(home)}, messages.append) == {"UV_CACHE_DIR": str(home)}


@pytest.mark.parametrize(
    ("variable", "part", "named_by"),
    [
        ("HOME", ".config/uv/uv.toml", "UV_CONFIG_FILE"),
        ("HOME", ".pip/pip.conf", "PIP_CONFIG_FILE"),
        ("HOME", ".condarc", "CONDARC"),
        ("XDG_CONFIG_HOME", "pip/pip.conf", "PIP_CONFIG_FILE"),
    ],
)
def test_the_users_own_index_is_not_lost_silently(home: Path, variable: str, part: str, named_by: str) -> None:
    """As in images whose home belongs to another user, in which every user has the group of root."""
    (home / part).parent.mkdir(parents=True, exist_ok=True)
    (home / part).write_text("index-url = 'https://index.example/simple'", encoding="utf-8")
    give(home)
    with pytest.raises(ConfigurationIgnoredError, match=f"{part} may name your index .* name the file with {named_by}"):
        with_own_folders({variable: str(home)}, print)
    with_own_folders({variable: str(home), named_by: str(home / part)}, print)
    give(home / part)  # as root, another user's choice is none
    with_own_folders({variable: str(home)}, print)


@pytest.mark.parametrize(
    ("attack", "part"),
    [
        pytest.param(attack, part, marks=[] if (attack, part) == ("owner", ".") else pytest.mark.long)
        for attack in ATTACKS
        for part in (".", "..")
    ],
)
def test_no_temporary_file_lies_where_another_user_can_replace_it(home: Path, attack: str, part: str) -> None:
    command = ("sh", "-c", "echo $TMPDIR $LD_AUDIT")
    variables = {"XDG_CACHE_HOME": "", "HOME": os.devnull, "PATH": os.environ["PATH"], "TMPDIR": str(home)}
    own = gpuenv("simulate", MACHINE, "--", *command, environment=variables)
    assert (own.stdout.count(str(home)), "TMPDIR" in own.stderr) == (2, False)
    ATTACKS[attack](Path(os.path.normpath(home / part)))
    result = gpuenv("simulate", MACHINE, "--", *command, environment=variables)
    assert str(home) not in result.stdout
    assert result.stderr.count(f"TMPDIR={home} is not used: ") == 1


def test_a_temporary_folder_with_the_sticky_bit_is_used(home: Path) -> None:
    messages: list[str] = []
    home.chmod(0o1777)
    assert own_temporary_folder({"TMPDIR": str(home)}, messages.append) is None
    home.chmod(0o777)
    variables = {"TMPDIR": str(home / "missing"), "TEMP": str(home)}
    assert own_temporary_folder(variables, messages.append) == "/tmp"  # noqa: S108 - where it exists
    begin = f"TEMP={home} is not used: {home} is writable by every user; "
    assert [text.startswith(begin) for text in messages] == [True]
