"""``nvidia-smi -q``, at length or as XML: from lines to what each says, with the section that it stands in. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.model.pattern import pattern
from gpuenv.paste.documents import DocumentReader
from gpuenv.paste.long_form import HEADING, LINE, Key, section_below, section_of
from gpuenv.paste.tables import LONG_GPU

GPU: Key = ("", "GPU")  # a GPU begins; the value is its address
INSTANCES: Key = ("", "instances")  # an instance of it begins, or it is said that there is none
OF_ALL = "the driver"  # the section of what is told before the first GPU
_NONE = "None"
_FIRST_BEHIND = ("Accounting Mode", "Driver Model", "Serial Number", "GPU UUID", "Minor Number")
_ATTACHED = pattern(r"Attached GPUs\s+: (\d{1,4})$")


class LongReader:
    """Takes lines; what stands in a section of MIG instances is told of no GPU."""

    def __init__(self) -> None:
        self._section = ""
        self._within_instances = False
        self._documents = DocumentReader()

    def look(self, line: str, *, is_open: bool) -> Iterator[tuple[Key, str]]:
        """What a line says: where it stands, and its value.

        Args:
            line: the line.
            is_open: whether the lines before it were of this output.
        """
        begin = LONG_GPU.match(line) if line.startswith("GPU ") else None
        attached = _ATTACHED.match(line) if line.startswith("Attached") else None
        if begin:
            self._section, self._within_instances = "", False
            yield GPU, begin[1]
        elif attached:
            yield (OF_ALL, "attached_gpus"), attached[1]
        elif is_open:
            yield from self._text(line)
        yield from self._elements(line)

    def _text(self, line: str) -> Iterator[tuple[Key, str]]:
        if HEADING.match(line):
            self._section = section_below(self._section, line)
            if line == "MIG Device":
                self._within_instances = True
                yield INSTANCES, line
        field = LINE.match(line)
        if field is None:
            return
        if field[1] in _FIRST_BEHIND:
            self._within_instances = False
        if field[1] == "MIG Devices" and field[2] == _NONE:
            yield INSTANCES, _NONE
        elif not self._within_instances:
            yield (self._section, field[1]), field[2]

    def _elements(self, line: str) -> Iterator[tuple[Key, str]]:
        for path, text in self._documents.look(line):
            if path[0] != "gpu":
                yield (OF_ALL, path[0]), text
            elif len(path) == 1:
                yield GPU, text
            elif path[1:] == ("mig_devices",) and text == _NONE:
                yield INSTANCES, _NONE
            elif path[1:] == ("mig_devices", "mig_device"):
                yield INSTANCES, "MIG Device"
            elif "mig_devices" not in path:
                yield (section_of(path), path[-1]), text
