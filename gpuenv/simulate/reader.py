"""The values of a profile, each asked for with what is expected of it, so that a slip is named and not passed over."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from gpuenv.matrix.strict_yaml import Plain

E = TypeVar("E", bound=Enum)

_MIB = 1024 * 1024
_BELOW = "paths below the machine's root, such as etc/os-release"
_CLASSES = {"3d": "0x030200", "vga": "0x030000", "bridge": "0x068000"}


class ProfileError(ValueError):
    """A profile that does not say what it should; the message names the file, the line and the key."""


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping of the file, and where it stands; every reader raises ``ProfileError`` for another kind of value."""

    where: str
    values: Mapping[str, Plain]

    def fault(self, key: str, expected: str) -> ProfileError:
        """What was expected of a key, and what stands there."""
        found = f"found {self.values[key]!r}" if key in self.values else "it is missing"
        return ProfileError(f"{self.where}: {key}: expected {expected}; {found}")

    def only(self, *known: str) -> Part:
        """The part itself, where it has no key but these."""
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.5)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ProfileError(f"{self.where}: {key} is no key here{hint}; known are {', '.join(known)}")
        return self

    def optional(self, key: str) -> str | None:
        """A text, or None."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.fault(key, "a text")

    def text(self, key: str, default: str | None = None) -> str:
        """A text that must be there, or has a default."""
        value = self.optional(key)
        if value is not None:
            return value
        if default is None:
            raise self.fault(key, "a text")
        return default

    def of_form(self, key: str, form: str, expected: str, default: str | None = None) -> str:
        """A text that the regular expression ``form`` describes whole, in ASCII, or the default."""
        value = self.text(key, default)
        if value != default and not re.fullmatch(form, value, re.ASCII):
            raise self.fault(key, expected)
        return value

    def file_name(self, key: str, default: str | None = None) -> str:
        """A text that is to be a part of a file's name."""
        return self.of_form(key, r"\w[\w.+~-]*", "letters, digits, dots and dashes", default)

    def place(self, key: str) -> str | None:
        """A path below the machine's root, or None."""
        value = self.optional(key)
        if value is not None and not _is_below(value):
            raise self.fault(key, _BELOW)
        return value

    def unless_none(self, key: str) -> str | None:
        """A text that must be there; ``none`` says that there is nothing."""
        value = self.text(key)
        return None if value == "none" else value

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        value = self.text(key, None if default is None else str(default))
        if not re.fullmatch(r"\d+", value):
            raise self.fault(key, "a whole number")
        return int(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """``yes`` or ``no``."""
        value = self.text(key, "yes" if default else "no")
        if value not in ("yes", "no"):
            raise self.fault(key, "yes or no")
        return value == "yes"

    def one_of(self, key: str, kind: type[E], default: E | None = None) -> E:
        """A value of an enumeration."""
        value = self.text(key, None if default is None else str(default.value))
        try:
            return kind(value)
        except ValueError:
            raise self.fault(key, " or ".join(str(member.value) for member in kind)) from None

    def mebibytes(self, key: str) -> int | None:
        """``81559 MiB``, or ``none``."""
        value = self.text(key)
        match = re.fullmatch(r"(\d+) MiB", value)
        if value != "none" and match is None:
            raise self.fault(key, "'<number> MiB' or none")
        return int(match[1]) * _MIB if match else None

    def cuda(self, key: str, default: str | None = None) -> int:
        """``12.4`` as the driver's number 12040."""
        match = re.fullmatch(r"(\d+)\.(\d)", self.text(key, default))
        if match is None:
            raise self.fault(key, "a CUDA version such as 12.4")
        return int(match[1]) * 1000 + int(match[2]) * 10

    def pci_class(self) -> str:
        """The PCI class that a word stands for."""
        value = self.text("class")
        if value not in _CLASSES:
            raise self.fault("class", " or ".join(_CLASSES))
        return _CLASSES[value]

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one."""
        value = self.values.get(key)
        found: list[Plain] = value if isinstance(value, list) else [] if value is None else [value]
        texts = tuple(item for item in found if isinstance(item, str))
        if len(texts) != len(found):
            raise self.fault(key, "a list of texts")
        return texts

    def mapping(self, key: str) -> dict[str, str]:
        """A mapping of texts."""
        values = self.part(key).values
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        if len(texts) != len(values):
            raise self.fault(key, "a mapping of texts")
        return texts

    def places(self, key: str) -> dict[str, str]:
        """A mapping of texts by a path below the machine's root."""
        texts = self.mapping(key)
        for path in texts:
            if not _is_below(path):
                raise ProfileError(f"{self.where}: {key}: expected {_BELOW}; found {path!r}")
        return texts

    def part(self, key: str) -> Part:
        """A mapping within this one; an empty one where it is missing."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fault(key, "a mapping")
        return Part(f"{self.where}: {key}", value or {})

    def parts(self, key: str) -> tuple[Part, ...]:
        """A list of mappings."""
        value = self.values.get(key)
        entries = value if isinstance(value, list) else []
        parts = tuple(
            Part(f"{self.where}: {key}[{number}]", entry)
            for number, entry in enumerate(entries)
            if isinstance(entry, dict)
        )
        if (value is not None and not isinstance(value, list)) or len(parts) != len(entries):
            raise self.fault(key, "a list of mappings")
        return parts


def _is_below(path: str) -> bool:
    """Whether a path, as it is written, names something below the folder that it is joined to."""
    return all(part not in ("", ".", "..") for part in path.split("/")) and "\0" not in path
