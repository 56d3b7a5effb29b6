"""The same lines with the markup and prefixes of users, trackers and logs."""

from __future__ import annotations

import json

import pytest

from tests.paste.pasted_facts import snapshot_of, wrong

TEXT = """\
OS                           : Linux-6.8.0-40-generic-x86_64-with-glibc2.39
Python Version               : 3.12.4
CuPy Version                 : 13.2.0
CUDA Build Version           : 12050
CUDA Driver Version          : 12040
NVRTC Version                : (12, 4)

| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|   0  NVIDIA RTX A6000               Off |   00000000:61:00.0 Off |                  Off |
| 30%   33C    P8             20W /  300W |       2MiB /  49140MiB |      0%      Default |
==============NVSMI LOG==============
Driver Version                            : 550.90.07
GPU 00000000:61:00.0
    MIG Mode
        Current                           : Disabled
    FB Memory Usage
        Total                             : 49140 MiB
"""
EXPECTED: dict[str, str | None] = {
    "host.os": "linux",
    "host.libc": "glibc-2.39",
    "target.python": "3.12.4",
    "cupy": "cupy-cuda12x 13.2.0",
    "driver.version": "550.90.07",
    "driver.cuda": "12.4",
    "gpus": "NVIDIA RTX A6000 8.6 48",
}


def each_line(before: str, after: str = "") -> str:
    return "".join(f"{before}{line}{after}\n" for line in TEXT.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT, id="as it is"),
        pytest.param(each_line("     "), id="indented"),
        pytest.param(f"- Output:\n    ```\n{each_line('    ')}    ```\n", id="a fence in a list"),
        pytest.param(each_line("> > "), id="quoted twice"),
        pytest.param(each_line("2025-03-02T10:11:12.3725444Z "), id="a log of CI"),
        pytest.param(each_line("app-1  | "), id="compose"),
        pytest.param(each_line("\x1b[32m", "\x1b[0m"), id="colours"),
        pytest.param(TEXT.replace("\n", "<br>\n").replace("  ", "&nbsp; "), id="HTML"),
        pytest.param(f"<details><pre>\n{each_line(' ')}</pre></details>", id="details"),
        pytest.param(json.dumps({"level": "info", "message": TEXT}), id="a string of JSON"),
        pytest.param("`" + TEXT.replace("\n\n", "`\n\n`").strip() + "`", id="backticks"),
        pytest.param(TEXT.replace("\n", "\r\n"), id="Windows"),
        pytest.param(TEXT.replace("|", "\u2502"), id="lines for bars"),
        pytest.param(TEXT.replace("|", "\u00a6"), id="the broken bars of another code page"),
    ],
)
def test_markup_around_an_output_changes_no_fact(text: str) -> None:
    assert wrong(text, EXPECTED) == {}


def test_lost_spaces_change_no_fact() -> None:
    lost = "\n".join(" ".join(line.split()) for line in TEXT.partition("====")[0].splitlines())
    assert wrong(lost, EXPECTED) == {}


def test_a_very_long_line_is_read() -> None:
    """CuPy 14 lists all files of a folder in which a library is missing."""
    listing = "\\n".join(f"    libother.so.{number}" for number in range(2000))
    line = (
        f"cuBLAS Version : ImportError('Failure finding \"libcublasLt.so\": No such file\\n  listdir:\\n{listing}\\n')"
    )
    text = f"{TEXT}{line}\n"
    assert wrong(text, EXPECTED) == {}
    (missing,) = (entry for entry in snapshot_of(text).target.libraries if entry.path is None)
    assert (missing.name, missing.error) == ("cublas", 'Failure finding "libcublasLt.so": No such file')
