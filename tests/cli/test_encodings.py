"""Input files in encodings of editors and PowerShell: byte order marks, UTF-16 and CRLF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.cli.install_offers import read_lock
from gpuenv.cli.sources import read_snapshot
from gpuenv.data import data_path
from gpuenv.preflight.config import load_config
from gpuenv.simulate.profile import load as load_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MACHINE = '{"schema": "gpuenv.snapshot/1",\n"environment": {"LANG": "C"}}\n'
LOCK = f"# made elsewhere\ncupy-cuda12x==14.2.0 \\\n    --hash=sha256:{'0' * 64}\n"
PYLOCK = (
    'lock-version = "1.0"\n[[packages]]\nname = "cupy-cuda12x"\nversion = "14.2.0"\n'
    f'wheels = [{{url = "https://x.invalid/x.whl", hashes = {{sha256 = "{"0" * 64}"}}}}]\n'
)
READERS: dict[str, tuple[Callable[[], str], Callable[[Path], object]]] = {
    "machine.json": (lambda: MACHINE, read_snapshot),
    "requirements.txt": (lambda: LOCK, read_lock),
    "pylock.toml": (lambda: PYLOCK, read_lock),
    "gpuenv.toml": (lambda: 'require = ["gpu>=1"]\n', lambda path: load_config(path, "gpuenv.toml")),
    "mine.yaml": (lambda: (data_path("machines") / "l4-550.yaml").read_text(encoding="utf-8"), load_profile),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", list(READERS))
def test_a_file_is_read_identically_in_every_encoding(tmp_path: Path, name: str, encoding: str) -> None:
    text, read = READERS[name]
    path = tmp_path / name
    path.write_bytes(text().encode())
    expected = read(path)
    path.write_bytes(text().replace("\n", "\r\n").encode(encoding))
    assert read(path) == expected
