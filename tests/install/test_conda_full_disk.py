"""A disk that is full after conda has finished: the former packages are restored, and the reason is reported."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.install.conda_sandbox import FORMER, conda
from tests.install.mounts import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.install.conda_sandbox import Conda

__all__ = ["conda"]
# Does as it is told, and leaves no room where the journals are; --revision and --file are asked for on the way back.
FILLS = """#!/bin/sh
{sound} "$@"
code=$?
case " $* " in *" --dry-run "*|*" --version "*) ;; *) head -c 4M /dev/zero >{journals}/filling 2>/dev/null ;; esac
exit $code
"""


@contextmanager
def small(conda: Conda) -> Iterator[Path]:
    """Room for a few journals alone."""
    with mounted(conda.prefix / ".gpuenv", "-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs") as journals:
        yield journals


def fill_afterwards(conda: Conda, journals: Path) -> None:
    program = conda.folder / "conda/conda"
    sound = conda.folder / "sound/conda"
    sound.parent.mkdir()
    program.rename(sound)
    program.write_text(FILLS.format(sound=sound, journals=journals), encoding="utf-8")
    program.chmod(0o755)


def test_a_disk_that_is_full_at_the_end_is_a_failure_of_the_install(conda: Conda) -> None:
    before = conda.files()
    with small(conda) as journals:
        fill_afterwards(conda, journals)
        code, told = conda.install()
        assert (code, told["schema"], told["status"]) == (4, "gpuenv.outcome/1", "restored"), told
        assert "No space left" in told["message"]
        assert "the former packages were restored" in told["message"]
        assert conda.packages() == FORMER
    assert conda.files() == before


def test_what_cannot_be_put_back_for_want_of_room_is_put_back_when_there_is_some(conda: Conda) -> None:
    """The list of the exact packages has no room either: conda's revisions lead nowhere in one that is deaf."""
    before = conda.files()
    with small(conda) as journals:
        fill_afterwards(conda, journals)
        code, told = conda.install(DEAF="1")
        assert (code, told["status"]) == (4, "not-restored"), told
        assert any("No space left" in text for text in told["not_restored"])
        (journals / "filling").unlink()
        (conda.folder / "sound/conda").replace(conda.folder / "conda/conda")
        done = conda.gpuenv("rollback", "--python", conda.prefix, "--list", DEAF="1")
        assert done.returncode == 0, done.stderr
        assert "was rolled back" in done.stderr
        assert conda.packages() == FORMER
        assert conda.files() == before


def test_a_rollback_without_room_to_note_it_changes_nothing(conda: Conda) -> None:
    with small(conda) as journals:
        assert conda.install()[0] == 0
        subprocess.run(["dd", "if=/dev/zero", f"of={journals}/filling", "bs=4k"], check=False, capture_output=True)
        done = conda.gpuenv("rollback", "--python", conda.prefix, "--format", "json", "--no-redact")
        told = json.loads(done.stdout)
        assert (done.returncode, told["status"]) == (4, "failed"), done.stderr
        assert "No space left" in told["message"]
        assert told["message"].endswith("; nothing was changed")
        assert "Free space" in told["remedy"]
        assert conda.packages()["cupy"] == "14.1.1"
