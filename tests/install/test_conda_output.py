"""Outputs of conda and mamba as in their sources, and the command lines that produce them.

conda: ``conda.cli.install.handle_txn`` (actions: LINK and UNLINK as ``dist_fields_dump``, FETCH as whole records),
``conda.exceptions`` (``error``, ``exception_name``, ``message``), ``conda.history``. mamba and micromamba:
``libmamba/src/core/transaction.cpp`` (``MTransaction::log_json``: whole records) and ``install.cpp``
(``solver_problems``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuenv.install.backends.conda import CondaRefusal, CondaTool, clean_url, parse_change, tool_version

DIST = {
    "base_url": "https://conda.anaconda.org/conda-forge",
    "build_number": 0,
    "build_string": "py311h1_0",
    "channel": "conda-forge",
    "dist_name": "cupy-14.1.1-py311h1_0",
    "name": "cupy",
    "platform": "linux-64",
    "version": "14.1.1",
}
RECORD = {
    "build": "py311h1_0",
    "build_number": 0,
    "build_string": "py311h1_0",
    "channel": "conda-forge",
    "depends": ["python"],
    "fn": "cupy-14.1.1-py311h1_0.conda",
    "md5": "0" * 32,
    "name": "cupy",
    "sha256": "a" * 64,
    "size": 40_000_000,
    "subdir": "linux-64",
    "url": "https://conda.anaconda.org/conda-forge/linux-64/cupy-14.1.1-py311h1_0.conda",
    "version": "14.1.1",
}
MUTEX = {**DIST, "name": "_libgcc_mutex", "version": "0.1"}


def conda_output(**more: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps({"success": True, "prefix": "/env", "dry_run": True, **more})


@pytest.mark.parametrize("entry", [DIST, RECORD], ids=["conda", "mamba"])
def test_a_dry_run_is_parsed_into_its_changes(entry: dict[str, Any]) -> None:
    old = {**entry, "version": "13.6.0"}
    actions = {"FETCH": [RECORD], "LINK": [entry, MUTEX], "UNLINK": [old], "PREFIX": "/env"}
    change = parse_change(conda_output(actions=actions))
    assert [(pin.name, pin.release) for pin in change.link] == [("cupy", "14.1.1"), ("_libgcc_mutex", "0.1")]
    assert change.unlink == {"cupy": "13.6.0"}
    assert change.fetch == 40_000_000
    assert change.link[0].sha256 == (("a" * 64,) if entry is RECORD else ())


def test_text_and_progress_before_the_json_are_skipped() -> None:
    """conda writes its progress as objects, each ended by a NUL byte; a plugin may print other text."""
    text = 'WARNING: {old}\n{"fetch": "cupy", "finished": false, "maxval": 1, "progress": 0.5}\n\0'
    change = parse_change(text + conda_output(actions={"LINK": [DIST], "UNLINK": [], "FETCH": []}))
    assert [pin.name for pin in change.link] == ["cupy"]


def test_an_up_to_date_environment_needs_no_changes() -> None:
    for message in ("All requested packages already installed.", "All requested packages already installed"):
        change = parse_change(json.dumps({"message": message, "success": True}))
        assert (change.link, dict(change.unlink)) == ((), {})


@pytest.mark.parametrize(
    ("output", "unfit", "message"),
    [
        ({"error": "x", "exception_name": "LibMambaUnsatisfiableError", "message": "no\n way"}, True, "no way"),
        ({"error": "no cupy", "exception_name": "PackagesNotFoundError"}, True, "no cupy"),
        ({"error": "x", "exception_name": "UnsatisfiableError", "message": "conflict"}, True, "conflict"),
        ({"success": False, "solver_problems": ["nothing provides cupy 99", "b"]}, True, "nothing provides cupy 99 b"),
        ({"error": "x", "exception_name": "CondaHTTPError", "message": "HTTP 000 FAILED"}, False, "HTTP 000"),
        ({"success": False}, False, "no message"),
    ],
)  # fmt: skip
def test_an_error_is_raised_with_its_message_and_kind(output: dict[str, Any], message: str, *, unfit: bool) -> None:
    with pytest.raises(CondaRefusal, match=message) as caught:
        parse_change(json.dumps(output))
    assert caught.value.unfit is unfit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[1, 2]",
        '{"other": 1}',
        "{" * 100_000,
        conda_output(actions="x"),
        conda_output(actions={"LINK": "x"}),
        conda_output(actions={"LINK": [1]}),
        conda_output(actions={"LINK": [{"name": "--yes", "version": "1"}]}),
        conda_output(actions={"LINK": [{"name": "a\nb", "version": "1"}]}),
        conda_output(actions={"LINK": [{"name": "a", "version": "1; touch x"}]}),
        conda_output(actions={"LINK": [{"name": "a"}]}),
    ],
)
def test_unexpected_output_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|is no|LINK|actions"):
        parse_change(text)


@pytest.mark.parametrize(
    ("printed", "version"),
    [("conda 25.9.1\n", "25.9.1"), ("mamba 1.5.1\nconda 23.7.4\n", "1.5.1"), ("2.3.2\n", "2.3.2"), ("Oops\n", None)],
)
def test_the_version_of_a_program_is_read_from_its_output(printed: str, version: str | None) -> None:
    assert tool_version(printed) == version


HISTORY = """==> 2026-01-01 00:00:00 <==
# cmd: /opt/conda/bin/conda create -n x python
# conda version: 25.9.1
+conda-forge/linux-64::python-3.11.7-0
# update specs: ['python']
==> 2026-01-02 00:00:00 <==
# cmd: /opt/conda/bin/conda update --all
# conda version: 25.9.1
==> 2026-01-03 00:00:00 <==
-conda-forge/linux-64::python-3.11.7-0
+conda-forge/linux-64::python-3.11.8-0
"""


def test_revisions_are_counted_as_each_program_counts_them() -> None:
    """conda counts an entry that changed nothing, mamba does not."""
    assert CondaTool("conda", "conda", "25").revision(HISTORY) == 2
    assert CondaTool("micromamba", "micromamba", "2").revision(HISTORY) == 1
    assert CondaTool("conda", "conda", "25").revision("") is None


def test_command_lines_separate_options_from_values() -> None:
    """Prefix and specifications are separate arguments, so that leading dashes make no options of them."""
    tool = CondaTool("/opt/conda/bin/conda", "conda", "25.9.1")
    specs = ("cupy=14.1.1", "cuda-version=12")
    dry_run = tool.install_command("/my env", specs, "conda-forge", dry_run=True, freeze=True, offline=False)
    assert dry_run == (
        *("/opt/conda/bin/conda", "install", "--prefix=/my env", "--yes", "--json", "--quiet"),
        *("--channel=conda-forge", "--freeze-installed", "--dry-run", "cupy=14.1.1", "cuda-version=12"),
    )
    install = tool.install_command("/e", ("cupy",), "c", dry_run=False, freeze=False, offline=True)
    assert install[6:] == ("--channel=c", "--offline", "cupy")
    assert tool.revert_command("/e", 3, offline=False)[6:] == ("--revision=3",)
    assert tool.revert_command("/e", 3, offline=True)[6:] == ("--offline", "--revision=3")
    assert tool.explicit_command("/e", Path("/f.txt"), offline=False)[6:] == ("--file=/f.txt",)
    assert tool.explicit_command("/e", Path("/f.txt"), offline=True)[6:] == ("--offline", "--file=/f.txt")
    assert tool.remove_command("/e", ("a", "b"))[1:] == (
        "remove",
        "--prefix=/e",
        "--yes",
        "--json",
        "--quiet",
        "--force",
        "a",
        "b",
    )


def test_variables_that_change_the_command_are_removed() -> None:
    variables = {"CONDA_DRY_RUN": "1", "MAMBA_TARGET_PREFIX": "/x", "CONDA_CHANNELS": "mine", "HTTPS_PROXY": "p"}
    cleaned = CondaTool("c", "conda", "1").environment(variables)
    assert cleaned == {"CONDA_CHANNELS": "mine", "HTTPS_PROXY": "p", "NO_COLOR": "1"}


def test_credentials_and_tokens_are_removed_from_urls() -> None:
    assert clean_url("https://a:b@host/t/tk-1/c/noarch/x-1-0.conda") == "https://host/c/noarch/x-1-0.conda"
    assert clean_url("file:///c/noarch/x-1-0.conda") == "file:///c/noarch/x-1-0.conda"
