"""Two environments in one paste: which one is used, and the note about the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuenv.cli.explanation import explain_text
from gpuenv.cli.sources import MachineSource
from gpuenv.paste.error_text import scan_text
from gpuenv.paste.reader import read_paste
from gpuenv.paste.selection import environments, read_selection, select_environment

OLD = "Package       Version\n------------- -------\ncupy-cuda11x  13.6.0\nnumpy         1.26.4\n"
NEW = "Package       Version\n------------- -------\ncupy-cuda13x  14.2.0\nnumpy         2.3.4\n"
SMI = "| NVIDIA-SMI {0}        Driver Version: {0}      CUDA Version: {1}     |\n"
HOST, BOX = SMI.format("535.183.01", "12.2"), SMI.format("580.95.05", "13.0")
TRACEBACK = 'Traceback (most recent call last):\n  File "{}/lib/python3.11/site-packages/cupy/__init__.py", line 17\nImportError: CuPy failed\n'


def cupy(text: str) -> list[str]:
    return [name for name in read_paste(text).packages if name.startswith("cupy")]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (f"$ pip list\n{OLD}\n$ pip list\n{NEW}\nImportError: CuPy failed\n", "cupy-cuda13x"),
        (f"$ pip list\n{OLD}\n$ pip uninstall -y cupy-cuda11x\n$ pip install cupy-cuda13x\n$ pip list\n{NEW}\n{TRACEBACK.format('/x')}", "cupy-cuda13x"),
        (f"$ pip list\n{OLD}\n{TRACEBACK.format('/x')}\n$ pip install cupy-cuda13x\n$ pip list\n{NEW}\n", "cupy-cuda11x"),
        (f"$ pip list\n{OLD}\nImportError: a\n$ pip install cupy-cuda13x\n$ pip list\n{NEW}\nImportError: b\n", "cupy-cuda13x"),
        (f"$ pip list\n{OLD}\n$ pip list\n{NEW}\nImportError: b\nWhatever I try, it failed.\n", "cupy-cuda13x"),
        (f"$ pip list\n{OLD}\n$ pip uninstall -y cupy-cuda11x\n$ pip install cupy-cuda13x\n$ pip list\n{NEW}\n", "cupy-cuda13x"),
        (f"(a) $ pip list\n{OLD}\n(a) $ conda install -c conda-forge cupy\n(a) $ pip list\n{NEW}\n", "cupy-cuda13x"),
        (f"$ pip install cupy-cuda11x\n$ pip list\n{OLD}\n$ pip list\n{NEW}\n", "cupy-cuda11x"),
        (f"pip list\n{OLD}\npython -m pip install -U cupy-cuda13x\npip list\n{NEW}\n", "cupy-cuda13x"),
        (f"!pip list\n{OLD}\n!uv pip install cupy-cuda13x\n!pip list\n{NEW}\n", "cupy-cuda13x"),
        (f"$ pip list\n{OLD}\nThe update of pip did not install it.\n$ pip list\n{NEW}\n", "cupy-cuda11x"),
        (f"{TRACEBACK.format('/x')}\n$ pip list\n{OLD}\n$ pip install cupy-cuda13x\n$ pip list\n{NEW}\n", "cupy-cuda11x"),
        (f"(a) $ pip list\n{OLD}\n(b) $ pip install cupy-cuda13x\n(b) $ pip list\n{NEW}\n", "cupy-cuda11x"),
        (f"{TRACEBACK.format('/x')}\n$ pip list\n{OLD}\n$ pip list\n{NEW}\n", "cupy-cuda11x"),
        (f"(a) me@box:~$ pip list\n{OLD}\n(b) me@box:~$ pip list\n{NEW}\n(a) me@box:~$ python a.py\nImportError: x\n", "cupy-cuda11x"),
        (f"(old) me@box:~$ pip list\n{OLD}\n(new) me@box:~$ pip list\n{NEW}\n(new) me@box:~$ python a.py\n{TRACEBACK.format('/x')}", "cupy-cuda13x"),
        (f"(old) me@box:~$ pip list\n{OLD}\n(new) me@box:~$ pip list\n{NEW}\n(old) me@box:~$ python a.py\n{TRACEBACK.format('/x')}", "cupy-cuda11x"),
        (f"$ /srv/a/bin/pip list\n{OLD}\n$ /srv/b/bin/pip list\n{NEW}\n{TRACEBACK.format('/srv/b')}", "cupy-cuda13x"),
        (f"(a) $ pip list\n{OLD}\n(b) $ pip list\n{NEW}\n{TRACEBACK.format('/opt/conda/envs/b')}", "cupy-cuda13x"),
        (f"me@box:~$ pip list\n{OLD}\nroot@3f2a1b:/# pip list\n{NEW}\nroot@3f2a1b:/# python3 a.py\n{TRACEBACK.format('/usr')}", "cupy-cuda13x"),
        (f"### Host\n{OLD}\n### Container\n{NEW}\n### Error in the container\n{TRACEBACK.format('/usr')}", "cupy-cuda13x"),
        ("cupy-cuda11x==13.6.0\nnumpy==1.26.4\n\ncupy-cuda13x==14.2.0\nnumpy==2.3.4\nImportError: x\n", "cupy-cuda13x"),
        ("cupy-cuda11x==13.6.0\nnumpy==1.26.4\n\ncupy-cuda13x==14.2.0\nnumpy==2.3.4\n", "cupy-cuda11x"),
    ],
)  # fmt: skip
def test_the_environment_of_the_error_is_used_or_else_the_first(text: str, used: str) -> None:
    selection = select_environment(text)
    assert cupy(selection.text) == [used]
    assert selection.note is not None
    assert selection.note.startswith("the text has 2 environments: using the one at line ")
    assert selection.text.count("\n") + 1 == len(text.splitlines()), "the numbers of the lines stay"


@given(
    st.lists(
        st.sampled_from(
            [
                "numpy==1.26.4",
                "numpy==2.1.0",
                "scipy==1.9",
                "$ pip install x",
                "$ pip list",
                "",
                "Package  Version",
                "(b) $ ls",
                "ImportError: x",
                "On the host:",
            ]
        ),
        max_size=14,
    )
)
def test_any_order_of_lines_is_read(lines: list[str]) -> None:
    text = "\n".join(lines)
    selection = select_environment(text)
    assert selection.note is None or selection.note.startswith(f"the text has {len(environments(lines))} environments")
    assert sorted(f"{selection.text}\n{selection.rest}".split()) == sorted(text.split())


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        ("ImportError: x\n", "line 6 (the error is below it), not the one at line 1"),
        ("", "line 1 (the first, since the error names none of them), not the one at line 6"),
    ],
)
def test_the_note_says_why_an_environment_is_used(error: str, ending: str) -> None:
    note = select_environment(f"$ pip list\n{OLD}$ pip list\n{NEW}{error}").note
    assert (note or "").endswith(f"using the one at {ending}")


def test_only_one_of_two_drivers_is_used() -> None:
    selection = select_environment(
        f"me@host:~$ nvidia-smi\n{HOST}\nroot@pod:/# nvidia-smi\n{BOX}\nroot@pod:/# python a.py\nRuntimeError: no\n"
    )
    assert [entry.value for entry in read_paste(selection.text).values if entry.fact == "driver"] == ["580.95.05"]
    assert selection.note is not None
    assert "(pod)" in selection.note


@pytest.mark.parametrize(
    "text",
    [
        f"$ nvidia-smi\n{HOST}\n$ pip list\n{OLD}\nImportError: CuPy failed\n",
        f"$ nvidia-smi\n{HOST}\n$ nvidia-smi\n{HOST}\n",
        "$ pip freeze\nnumpy==2.1.0\n$ pip freeze | grep numpy\nnumpy==2.1.0\n",
        "",
    ],
)
def test_a_paste_with_one_environment_is_unchanged(text: str) -> None:
    assert select_environment(text).text == text
    assert select_environment(text).note is None


def test_facts_of_the_machine_are_taken_from_the_other_environments() -> None:
    host = f"me@host:~$ nvidia-smi\n{HOST}\nGPU 0: NVIDIA H100 (UUID: GPU-aaaa1111-2222-3333-4444-555566667777)\n"
    text = f"{host}$ pip list\n{OLD}root@pod:/# pip list\n{NEW}root@pod:/# python a.py\n{TRACEBACK.format('/usr')}"
    selection = select_environment(text)
    content = read_selection(selection)
    assert [name for name in content.packages if name.startswith("cupy")] == ["cupy-cuda13x"]
    assert [entry.value for entry in content.values if entry.fact == "driver"] == ["535.183.01"]
    assert [gpu.name for gpus in content.gpus.values() for gpu in gpus] == ["NVIDIA H100"]
    assert selection.note is not None


def test_an_explanation_names_the_environment_used() -> None:
    text = f"(new) $ nvidia-smi\n{BOX}(new) $ pip list\n{NEW}\n(old) $ nvidia-smi\n{HOST}(old) $ pip list\n{OLD}\n(old) $ python a.py\n"
    text += "cupy.cuda.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient\n"
    explanation = explain_text(
        scan_text([text.encode()]), MachineSource(None, None, (), no_probe=True, timeout=30.0, driver_root="/"), None
    )
    assert [note.split(" (named")[0] for note in explanation.notes] == [
        "the text has 2 environments: using the one at line 8 (old)"
    ]
    assert "driver=535.183.01" in explanation.facts
    assert not any("580.95.05" in fact for fact in explanation.facts)
