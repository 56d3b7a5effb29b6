"""The probe and the installer pick the same one of two metadata folders of one name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from gpuenv.install.environment import read_installed
from gpuenv.probe.context import script
from tests.probe.pythons import python

NEW, OLD = "14.2.0", "13.6.0"
# Possible contents of RECORD: part.py has 5 bytes, "odd, part.py" has 3, gone.py does not exist.
RECORDS = {
    "right": b"tool/part.py,sha256=x,5\n",
    "of another size": b"tool/part.py,sha256=x,6\n",
    "two of another size": b'tool/part.py,sha256=x,6\n"tool/odd, part.py",,4\n',
    "gone": b"tool/gone.py,,5\n",
    "gone, and one right": b"tool/gone.py,,5\ntool/part.py,,5\n",
    "quoted": b'"tool/odd, part.py",sha256=x,3\n',
    "quoted, of another size": b'"tool/odd, part.py",sha256=x,4\n',
    "without sizes": b"tool/part.py,,\n",
    "without sizes, gone": b"tool/gone.py,,\n",
    "its own metadata alone": b"tool-1.dist-info/METADATA,,9999\n",
    "ends of lines of Windows": b"tool/part.py,,5\r\n",
    "empty": b"",
    "no text": b"tool/part\xff.py,,5\n",
    "no text, and one right": b"tool/part.py,,5\ntool/odd\xff.py,,5\n",
}
PROBE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from interpreter import matching_metadata
for pair in json.load(sys.stdin):
    print(json.dumps(matching_metadata([{"path": path} for path in pair])["path"]))
"""


def write_pair(folder: Path, records: tuple[str | None, str | None], newer: int) -> list[str]:
    """Writes two metadata folders of one name and their files; ``newer`` is the index of the newer one."""
    (folder / "tool").mkdir(parents=True)
    (folder / "tool/part.py").write_bytes(b"x = 1")
    (folder / "tool/odd, part.py").write_bytes(b"y=1")
    folders = []
    for index, (release, record) in enumerate(zip((OLD, NEW), records, strict=True)):
        info = folder / f"tool-{release}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tool\nVersion: {release}\n", encoding="utf-8")
        if record is not None:
            (info / "RECORD").write_bytes(RECORDS[record])
        moment = 1_700_000_000 + (100 if index == newer else 0)
        os.utime(info, (moment, moment))
        folders.append(str(info))
    return folders


@pytest.mark.parametrize("version", ["2.7", ".".join(map(str, sys.version_info[:2]))])
def test_the_probe_and_the_installer_pick_the_same_metadata(tmp_path: Path, version: str) -> None:
    records = [*RECORDS, None]
    cases = [(one, other, number % 2) for number, (one, other) in enumerate(product(records, records))]
    pairs = [
        write_pair(tmp_path / str(number), (one, other), newer) for number, (one, other, newer) in enumerate(cases)
    ]
    command = [str(python(version)), "-B", "-c", PROBE, script("")]
    result = subprocess.run(command, input=json.dumps(pairs), capture_output=True, text=True, check=True)
    probed = [json.loads(line) for line in result.stdout.splitlines()]
    installed = [read_installed([str(Path(pair[0]).parent)])[0].metadata for pair in pairs]
    differing = [
        (case, Path(one).name, Path(other).name)
        for case, one, other in zip(cases, probed, installed, strict=True)
        if one != other
    ]
    assert differing == []
    assert {Path(path).name for path in probed} == {f"tool-{NEW}.dist-info", f"tool-{OLD}.dist-info"}
