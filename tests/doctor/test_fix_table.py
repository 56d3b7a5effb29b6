"""The table of fixes: its form, its sources, and that Debian and Ubuntu have the packages that it names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from datetime import date
from typing import TYPE_CHECKING

from gpuenv.doctor.fixes.table import all_rows, branches_of, read_rows, rows_of, steps, steps_of
from gpuenv.explain.programs import program_fixes

if TYPE_CHECKING:
    from pathlib import Path

TASKS = {
    *("driver", "driver-open", "driver-branch", "hold-branch"),
    *("nvidia-repository", "nvidia-driver", "nvidia-driver-branch", "open-modules", "proprietary-modules"),
    *("libcuda", "firmware", "fabric-manager", "finish-update", "initramfs", "module-build", "kernel-update"),
    *("headers", "compiler", "enrol-key", "remove-driver", "container-toolkit", "configure-engine"),
    *("start-with-gpu", "start-with-compute", "lost-gpu", "request-gpu", "owner", "reinstall"),
    *("new-key", "sign-module", "signed-module", "block-nova", "block-nouveau", "transactional"),
}
VALUES = {
    "branch": 580,
    "version": "580.65.06",
    "open": "-open",
    "series": "generic-6.8",
    "release": "12",
    "repository": "debian12",
    "nvidia_arch": "x86_64",
    "headers": "linux-headers-6.1.0-50-amd64",
    "all_headers": "linux-headers-amd64",
    "kernel_image": "linux-image-amd64",
    "compiler": "gcc-12",
    "text": "Rebuild it.",
    "path": "/usr/lib64/libcuda.so.1",
    "devices": "--device /dev/nvidia0",
}
PROGRAMS = {
    *("akmods", "apt-get", "apt-mark", "curl", "dkms", "dnf", "dpkg", "dracut", "mkinitcpio", "mokutil", "nvidia-ctk"),
    *("git", "grubby", "kmodgenca", "ldconfig", "reboot", "transactional-update"),
    *("pacman", "rpm", "sh", "systemctl", "ubuntu-drivers", "update-initramfs", "wget", "zypper"),
    *("apptainer", "docker", "podman", "bsub", "qsub", "sbatch", "srun"),
}
DELETING = re.compile(r"\b(?:purge|remove|rm|-R|autoremove|uninstall|--clear)\b")


def test_every_row_has_a_known_task_a_filled_text_and_a_runnable_command() -> None:
    assert {row.task for row in all_rows()} == TASKS
    for row in all_rows():
        (step,) = steps((row,), **VALUES)
        assert step.text.endswith((".", " = 1")), row
        assert not re.search(r"[{}]", step.text + " ".join(step.command or ())), row
        assert bool(step.command) is bool(row.command), row
        words = [word for word in step.command or ("sudo", "sh") if word != "sudo"]
        assert words[0] in PROGRAMS, row
        assert len(row.text) <= 180, row


def test_rows_of_one_task_and_place_follow_each_other() -> None:
    keys = [(row.task, row.where, row.branches) for row in all_rows()]
    runs = [key for index, key in enumerate(keys) if index == 0 or keys[index - 1] != key]
    assert len(runs) == len(set(runs))


def test_branches_are_numbers_or_any() -> None:
    for row in all_rows():
        assert row.branches in ("", "any") or all(300 < branch < 1000 for branch in branches_of(row) or ())


def test_a_step_that_deletes_says_so_and_none_opens_a_folder_to_everybody() -> None:
    for row in all_rows():
        if DELETING.search(row.command):
            assert re.search(r"\b(?:Remove|delete)", row.text), row
        assert not re.search(r"chmod|0?777|a\+[rwx]", row.command), row


def test_every_row_cites_a_document_that_was_read_on_a_day() -> None:
    header, *documents = read_rows("fix_sources.csv")
    assert header == ["key", "read", "document"]
    assert all(date.fromisoformat(day) for _, day, _ in documents)
    cited = {row.source for row in all_rows()} | {row.source for row in program_fixes()}
    assert cited == {key for key, _, _ in documents}
    assert len(documents) == len({key for key, _, _ in documents})


def test_a_value_in_a_script_is_no_command_of_its_own(tmp_path: Path) -> None:
    (step,) = steps_of("reinstall", ("fedora",), path="/lib/$(touch made)/libcuda.so.1")
    sudo, *script = step.command or ()
    assert (sudo, *script[:2]) == ("sudo", "sh", "-c")
    subprocess.run(script, cwd=tmp_path, env={"PATH": os.defpath}, capture_output=True, check=False)
    assert [*tmp_path.iterdir()] == []


def test_the_most_specific_place_comes_first_and_a_command_of_an_unknown_value_is_left_out() -> None:
    assert rows_of("driver", ("debian 12", "debian"))[0].branches == "535"
    assert rows_of("driver", ("debian 14", "debian"))[0].branches == ""
    assert rows_of("enrol-key", ("gentoo",))[0].where == "*"
    assert rows_of("driver", ("gentoo",)) == ()
    (step,) = steps_of("headers", ("debian",), headers=None)
    assert step.command is None
    words = steps_of("configure-engine", ("docker",))[0].command or ()
    assert shlex.join(words) == "sudo nvidia-ctk runtime configure --runtime=docker"
