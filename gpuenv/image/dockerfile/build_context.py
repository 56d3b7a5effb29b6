"""The build context: the one place where a Dockerfile's check looks into the user's folder."""

from __future__ import annotations

import fnmatch
import posixpath
from dataclasses import dataclass, field
from pathlib import Path

from gpuenv.files import TooLargeError, read_regular
from gpuenv.image.dockerfile.dockerignore import IgnorePattern, is_ignored, patterns_of

_LARGEST, _MOST_FILES, _MOST_LOOKS, _MOST_ENTRIES = 1 << 20, 50, 50_000, 5000
_COPIES = "what stages copy from each other"


def context_of(folder: Path, dockerfile: Path) -> BuildContext:
    """A build context as BuildKit sends it: without what .dockerignore keeps out."""
    for path in (dockerfile.with_name(f"{dockerfile.name}.dockerignore"), folder / ".dockerignore"):
        try:
            text = read_regular(path, _LARGEST).decode("utf-8", "replace")
        except TooLargeError as error:
            return BuildContext(folder, passed_over={path.name: str(error.strerror)})
        except OSError:
            continue
        return BuildContext(folder, ignored=patterns_of(text), ignored_by=str(path))
    return BuildContext(folder)


@dataclass(slots=True, eq=False)
class BuildContext:
    """A build context, by itself: another one of the same folder may have read other files.

    Attributes:
        folder: where it is.
        read: the files that were read, as they are named below it.
        passed_over: files that are outside or too large, with the reason.
        missing: what is installed from and is not there, behind the file and line that say so.
        ignored: the lines of its .dockerignore.
        ignored_by: the name of that file.
        kept_out: the files that it keeps out of a build, and that are installed from.
        held_back: the files that it keeps out and a step would copy.
    """

    folder: Path
    read: list[str] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    missing: list[tuple[str, int, str]] = field(default_factory=list)
    ignored: tuple[IgnorePattern, ...] = ()
    ignored_by: str = ".dockerignore"
    kept_out: list[str] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)
    _listed: dict[str, list[str]] = field(default_factory=dict)
    _looks: int = 0
    _entries: int = 0

    def may_list(self, name: str) -> bool:
        """Whether one more entry of a list of packages may be read."""
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            self.passed_over[name] = f"the lists have more than {_MOST_ENTRIES} entries together"
        return self._entries <= _MOST_ENTRIES

    def may_look(self) -> bool:
        """Whether one more stage may be searched: copies between stages may have too many paths."""
        self._looks += 1
        if self._looks > _MOST_LOOKS:
            self.passed_over[_COPIES] = "there are too many ways to where something comes from"
        return self._looks <= _MOST_LOOKS

    def text(self, name: str, largest: int = _LARGEST) -> str | None:
        """The text of a file in the context; none if it is missing, too large or outside."""
        root = self.folder.resolve()
        try:
            path = (self.folder / name).resolve()
            if not path.is_relative_to(root):
                self.passed_over[name] = "it lies outside of the build context"
                return None
            if not path.is_file():
                return None
            if is_ignored(name, self.ignored):
                self.kept_out += [] if name in self.kept_out else [name]
                return None
            if len({*self.read, name}) > _MOST_FILES:
                self.passed_over[name] = "it is one of too many"
                return None
            found = read_regular(path, largest).decode("utf-8", "replace").replace("\r\n", "\n")
        except (OSError, ValueError) as error:
            self.passed_over[name] = str(getattr(error, "strerror", None) or error)
            return None
        if name not in self.read:
            self.read.append(name)
        return found

    def names(self, pattern: str) -> list[str]:
        """The entries of the context's folders that a pattern of COPY names."""
        folder, base = posixpath.split(pattern)
        return [posixpath.join(folder, name) for name in fnmatch.filter(self.entries(folder), base)]

    def entries(self, folder: str) -> list[str]:
        """The names in a folder of the context; none where there is no such folder."""
        if folder not in self._listed:
            try:
                self._listed[folder] = sorted(entry.name for entry in (self.folder / folder).iterdir())
            except (OSError, ValueError):
                self._listed[folder] = []
        return self._listed[folder]

    def has(self, name: str) -> bool:
        """Whether there is such a file, even outside, which ``text`` then reports."""
        try:
            return (self.folder / name).is_file()
        except (OSError, ValueError):
            return False

    def sends(self, name: str) -> bool:
        """Whether a build receives such a file."""
        return self.has(name) and not is_ignored(name, self.ignored)

    def is_folder(self, name: str) -> bool:
        """Whether there is such a folder."""
        try:
            return (self.folder / name).is_dir()
        except (OSError, ValueError):
            return False
