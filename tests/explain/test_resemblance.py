"""What a text is like by its words alone, and the table behind it."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from gpuenv.explain.records import Explanation
from gpuenv.explain.resemblance import likenesses
from gpuenv.explain.table import NO_FAULT, TABLE, Table, read_table, shipped
from gpuenv.explain.words import terms_of
from gpuenv.model.causes import Cause
from tests.cli.program import gpuenv
from tests.eval import scan_cache
from tests.eval.learn import digest, samples
from tests.eval.score import SETS, Case, load
from tests.explain.test_signatures import OF_ONE_REPORT

if TYPE_CHECKING:
    from pathlib import Path

SURE = "Failed to initialize NVML: Driver/library version mismatch"


def explained(text: str) -> Explanation:
    return scan_cache.cached_explanation(text.encode())


@pytest.fixture(scope="module")
def guessed() -> tuple[Case, ...]:
    """Reports in which no message is known, nor a traceback."""
    cases = [case for name in SETS for case in load(name) if "Traceback" not in case.error_text]
    found = tuple(case for case in cases if explained(case.error_text).is_guess)
    assert len(found) >= 2
    return found


def test_a_text_without_a_message_is_like_those_of_its_cause(guessed: tuple[Case, ...]) -> None:
    for case in guessed:
        said = explained(case.error_text)
        read = "\n".join(
            line.text for line in scan_cache.cached_scan(case.error_text.encode()).latest
        )  # without the times of a log
        assert case.root_cause in [entry.cause.value for entry in said.causes]
        assert sum(entry.confidence for entry in said.causes) <= 0.6
        for entry in said.causes:
            assert entry.signatures == ()
            assert entry.words
            assert set(entry.words) <= set(terms_of(read))
            text = " ".join(case.error_text.split())
            assert all(" ".join(line.text.split()) in text for line in entry.lines)  # runs of spaces are shown shorter
            assert entry.would_decide
            assert entry.fix


def test_a_message_that_is_known_leaves_no_room_for_a_guess(guessed: tuple[Case, ...]) -> None:
    for case in guessed:
        beside = explained(f"{case.error_text}\n{SURE}").causes
        assert beside[0].cause is explained(SURE).causes[0].cause
        assert [entry.words for entry in beside] == [()] * len(beside)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "error",
        "the gpu",
        "Traceback (most recent call last):\nKeyError: 'gpu'",
        "the weather is not good and the train is late, no error there",
        "for (int i = 0; i < n; ++i) {\n  // cuda error: not found\n  gpu[i] = missing;\n}\nreturn false;",
        "zzz qqq cuda xxx error yyy",
    ],
)
def test_nothing_is_said_of_a_text_that_is_like_no_other(text: str) -> None:
    assert explained(text).causes == ()


def test_where_no_word_is_known_nothing_is_like_it() -> None:
    table = Table(("out-of-memory", NO_FAULT), (0.0, -1.0), {}, "")
    assert likenesses("cuda error", table) == ()


def test_a_text_is_likest_what_its_words_weigh_most_for() -> None:
    words = dict.fromkeys(("cuda", "error", "cuda error"), (100, 0, 100, 1, -50))
    words |= dict.fromkeys(("b", "c", "d", "b c", "c d"), (100, 1, 100, 2, -200))
    table = Table(("out-of-memory", "no-driver", NO_FAULT), (0.0, 0.0, 0.0), words, "")
    first, second = likenesses("a CUDA error: b c d", table)
    assert (first.cause, second.cause) == (Cause.NO_DRIVER, Cause.OUT_OF_MEMORY)
    assert first.chance + second.chance == pytest.approx(1)
    assert second.words == ("error", "cuda error")
    assert likenesses("a CUDA error", table) == (), "too few words that are known"


def test_a_guess_is_told_as_one(tmp_path: Path, guessed: tuple[Case, ...]) -> None:
    text, cause = guessed[0].error_text, guessed[0].root_cause
    report = tmp_path / "report.txt"
    report.write_text(text, encoding="utf-8")
    done = gpuenv("explain", report)
    assert done.returncode == 1
    assert done.stdout.startswith("No known error message")
    assert cause in done.stdout
    assert "wording only: " in done.stdout
    done = gpuenv("run", "--", "sh", "-c", f"cat {report} >&2; exit 3")
    assert (done.returncode, done.stderr) == (3, text)


def test_the_table_is_of_the_texts_that_are_here() -> None:
    """If not, make learn writes it anew; a word is of two origins at least, so that it is of no report alone."""
    given = samples()
    assert shipped().learnt_from == digest(given)
    origins: dict[str, set[str]] = defaultdict(set)
    for sample in given:
        for term in terms_of(sample.text):
            origins[term].add(sample.origin)
    assert {term for term in shipped().words if len(origins[term]) < 3} == set()
    assert [term for term in shipped().words if OF_ONE_REPORT.search(term)] == []
    assert [term for term in shipped().words if term.isdigit()] == []


def test_the_table_names_causes_that_there_are() -> None:
    table = shipped()
    assert {*table.causes} <= {*(cause.value for cause in Cause), NO_FAULT}
    assert len(table.causes) == len(table.biases) >= 80
    places = {place for word in table.words for place, _ in table.weights(word)}
    assert places <= set(range(len(table.causes)))
    assert read_table(json.dumps(json.loads(TABLE.read_text(encoding="utf-8")))) == table


def test_a_guess_beside_a_message_is_none() -> None:
    """A message that leaves a doubt, in a text that is like others: it is known, and the exit code is 0."""
    said = [explained(case.error_text) for name in SETS for case in load(name)]
    beside = [one for one in said if any(entry.words for entry in one.causes) and any(e.signatures for e in one.causes)]
    assert len(beside) >= 5
    assert [one.is_guess for one in beside] == [False] * len(beside)
