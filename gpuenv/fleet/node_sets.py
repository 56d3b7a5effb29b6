"""Sets of node names, as Slurm and ClusterShell write them: ``node[0001-0799,0801],login1``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import product

from gpuenv.fleet.node_report import is_node_name
from gpuenv.model.redaction import cut_text

_MOST = 1_000_000  # names of a set
_NUMBERED = re.compile(r"([^.]*?)(\d+)([^\d.]*(?:\..*)?)")  # the last number of the first label of a host name
_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")


class NodeSetError(ValueError):
    """A text that is no set of node names."""


def natural_order(name: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """A sort key that puts ``node9`` before ``node10``."""
    parts = re.split(r"(\d+)", name)
    return tuple((text, int(number)) for text, number in zip(parts[::2], [*parts[1::2], "0"], strict=True)), name


def fold_nodes(names: Iterable[str]) -> str:
    """The names as one text, by ClusterShell if it is installed, which also folds several numbers of a name."""
    names = list(names)
    try:
        node_set = import_module("ClusterShell.NodeSet").NodeSet
    except ImportError:
        return fold_by_number(names)
    return str(node_set.fromlist(names))


def fold_by_number(names: Iterable[str]) -> str:
    """The names as one text, with ranges of the last number of the host name, as every Slurm reads it."""
    return ",".join(_folded(sorted(set(names), key=natural_order)))


def _folded(names: Iterable[str]) -> Iterator[str]:
    series: dict[tuple[str, str], list[str]] = {}
    for name in names:
        if found := _NUMBERED.fullmatch(name):
            series.setdefault((found[1], found[3]), []).append(found[2])
        else:
            yield name
    for (begin, end), numbers in series.items():
        ranges: list[list[str]] = []
        for number in numbers:
            if ranges and number == str(int(ranges[-1][-1]) + 1).zfill(len(ranges[-1][-1])):
                ranges[-1][1:] = [number]
            else:
                ranges.append([number])
        texts = ["-".join(each) for each in ranges]
        yield f"{begin}[{','.join(texts)}]{end}" if len(numbers) > 1 else f"{begin}{texts[0]}{end}"


def expand_nodes(text: str) -> tuple[str, ...]:
    """The names of a set.

    Raises:
        NodeSetError: for a text that is none, or has more than a million names.
    """
    names: dict[str, None] = {}
    if _PART.sub("", text).strip(", \n") or not text.strip():
        raise NodeSetError(f"{cut_text(text, 60)!r} is no set of nodes such as node[001-800],login1")
    for part in _PART.findall(text):
        pieces = re.split(r"\[([^\[\]]*)\]", part.strip())
        choices = [_numbers(piece) if place % 2 else [piece] for place, piece in enumerate(pieces)]
        count = len(names)
        for choice in choices:
            count = max(count, 1) * len(choice)
        if count > _MOST:
            raise NodeSetError(f"{cut_text(part, 60)!r} has more than {_MOST} nodes")
        names.update(dict.fromkeys(map("".join, product(*choices))))
    wrong = next((name for name in names if not is_node_name(name)), None)
    if wrong is not None:
        raise NodeSetError(f"{cut_text(wrong, 60)!r} is no name of a node")
    return tuple(names)


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        ends = _RANGE.fullmatch(part.strip())
        if ends is None:
            raise NodeSetError(f"[{cut_text(text, 60)}]: expected numbers and ranges, such as 001-800,805")
        first, last = ends[1], ends[2] or ends[1]
        if int(last) < int(first):
            raise NodeSetError(f"[{cut_text(text, 60)}]: {first}-{last} ends before it begins")
        if len(found) + int(last) - int(first) > _MOST:
            raise NodeSetError(f"[{cut_text(text, 60)}] has more than {_MOST} numbers")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found
