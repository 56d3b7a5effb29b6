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
# Runs conda, then fills the file system of the journals; --revision and --file are used for the rollback.
FILLS_DISK = """#!/bin/sh
{conda} "$@"
code=$?
case " $* " in *" --dry-run "*|*" --version "*) ;; *) head -c 4M /dev/zero >{journals}/filling 2>/dev/null ;; esac
exit $code
"""


@contextmanager
def small_journal_disk(conda: Conda) -> Iterator[Path]:
    """Mounts a file system with space for only a few journals."""
    with mounted(conda.prefix / ".gpuenv", "-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs") as journals:
        yield journals


def fill_disk_after_conda(conda: Conda, journals: Path) -> None:
    program = conda.folder / "conda/conda"
    original = conda.folder / "sound/conda"
    original.parent.mkdir()
    program.rename(original)
    program.write_text(FILLS_DISK.format(conda=original, journals=journals), encoding="utf-8")
    program.chmod(0o755)


def test_an_install_that_fills_the_disk_fails_and_is_restored(conda: Conda) -> None:
    before = conda.files()
    with small_journal_disk(conda) as journals:
        fill_disk_after_conda(conda, journals)
        code, outcome = conda.install()
        assert (code, outcome["schema"], outcome["status"]) == (4, "gpuenv.outcome/1", "restored"), outcome
        assert "No space left" in outcome["message"]
        assert "the former packages were restored" in outcome["message"]
        assert conda.packages() == FORMER
    assert conda.files() == before


def test_a_restore_that_lacks_space_is_finished_once_there_is_space(conda: Conda) -> None:
    """There is no space for the list of exact packages either, and conda ignores --revision."""
    before = conda.files()
    with small_journal_disk(conda) as journals:
        fill_disk_after_conda(conda, journals)
        code, outcome = conda.install(IGNORE_REVISION="1")
        assert (code, outcome["status"]) == (4, "not-restored"), outcome
        assert any("No space left" in text for text in outcome["not_restored"])
        (journals / "filling").unlink()
        (conda.folder / "sound/conda").replace(conda.folder / "conda/conda")
        result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix, IGNORE_REVISION="1")
        assert result.returncode == 0, result.stderr
        assert "was rolled back" in result.stderr
        assert conda.packages() == FORMER
        assert conda.files() == before


def test_a_rollback_without_space_for_its_journal_changes_nothing(conda: Conda) -> None:
    with small_journal_disk(conda) as journals:
        assert conda.install()[0] == 0
        subprocess.run(["dd", "if=/dev/zero", f"of={journals}/filling", "bs=4k"], check=False, capture_output=True)
        result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix, "--format", "json", "--no-redact")
        outcome = json.loads(result.stdout)
        assert (result.returncode, outcome["status"]) == (4, "failed"), result.stderr
        assert "No space left" in outcome["message"]
        assert outcome["message"].endswith("; nothing was changed")
        assert "Free space" in outcome["remedy"]
        assert conda.packages()["cupy"] == "14.1.1"
