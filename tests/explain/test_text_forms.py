"""The form of a text does not change its first cause."""

from __future__ import annotations

from functools import cache

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import Scanner, scan
from tests.eval.score import load
from tests.explain.text_forms import FORMS

REPORTS = ("established", "collected", "gathered", "fetched", "reported", "recent", "unseen", "further", "unconfirmed")
# Four lines of a wrapped message are seen together; a traceback of which every line is wrapped is not put together.
WRAPPED = ("cut", "filled")


def first(text: str) -> str | None:
    causes = explanation(scan(text.encode())).causes
    return causes[0].cause.value if causes else None


@cache
def plain() -> dict[str, str | None]:
    return {text: first(text) for text in (case.error_text for name in REPORTS for case in load(name))}


@pytest.mark.parametrize("form", FORMS)
def test_the_first_cause_is_the_same_in_any_form(form: str) -> None:
    same_letters = {text: cause for text, cause in plain().items() if form != "bytes" or text.isascii()}
    changed = [text for text, cause in same_letters.items() if first(FORMS[form](text)) != cause]
    allowed = 0.02 * len(plain()) if any(word in form for word in WRAPPED) else 0
    assert len(changed) <= allowed, changed


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_windows_path_is_not_split_at_backslash_n(quote: str) -> None:
    text = rf"{quote}OSError: [WinError 126] C:\app\site-packages\nvidia\cublas\bin\nvrtc64_120_0.dll{quote}"
    assert {hit.line.text for hit in scan(text.encode()).hits} == {text}


def test_lines_of_an_escaped_string_keep_its_line_number() -> None:
    record = r'{"level": "error", "msg": "Traceback\n  File \"a.py\"\nImportError: libcudart.so.12: cannot open shared'
    scanner = scan(b"one\n" + (record + r' object file: No such file or directory\n"}' + "\nthree\n").encode())
    assert {hit.line.number for hit in scanner.hits} == {2}
    assert scanner.lines_read == 3


@pytest.mark.parametrize("text", [r'{"msg": "\ud83d no \udc00"}', r'{"msg": "a' + '"' * 9000, "{" * 5000, "[" * 5000])
def test_garbage_in_a_form_is_accepted(text: str) -> None:
    assert first(text) is None
    assert first(text + r"\n") is None


def test_small_pieces_yield_the_same_hits() -> None:
    for case in load("reported")[::4]:
        text = FORMS["cut at 80"](case.error_text).encode()
        scanner = Scanner()
        for start in range(0, len(text), 7):
            scanner.feed(text[start : start + 7])
        scanner.close()
        assert scanner.hits == scan(text).hits, case.id
