"""Texts of any size, encoding and decoration."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.explain import line_finder
from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import Scanner, scan
from gpuenv.explain.normalize import clean
from gpuenv.model.causes import Cause

ERROR = "cudaErrorNoKernelImageForDevice: no kernel image is available for execution on the device"
FOUND = "cuda.no-kernel-image"


def names(data: bytes) -> set[str]:
    return {hit.message.id for hit in scan(data).hits}


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[31;1m{}\x1b[0m",
        "2026-11-21T13:05:45.123456Z {}",
        "2026-11-21 13:05:45,123 {}",
        "Nov 21 13:05:45 node7 trainer[4711]: {}",
        "trainer-1  | {}",
        "[12345.678901] {}",
        "##[error]{}",
        "::error file=a.py::{}",
        "#12 34.56 {}",
        "2026-11-21T13:05:45.1+00:00 stderr F {}",
        "E1121 13:05:45.123456    1234 runner.cc:12] {}",
        "E   {}",
        "2026-11-21T13:05:45Z trainer-1  | \x1b[33mE   {}",
    ],
)
def test_log_prefixes_and_colours_are_removed(line: str) -> None:
    assert clean(line.format("CUDA failed")).removeprefix("runner.cc:12] ") == "CUDA failed"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_any_encoding_is_read(encoding: str) -> None:
    text = f"température élevée\r\n{ERROR}\r\nfin\r\n"
    assert FOUND in names(text.encode(encoding))


@pytest.mark.parametrize(
    "line",
    [
        "AttributeError: module &#39;cupy&#39; has no attribute &#x27;bool8&#x27;",
        "AttributeError: module \u2018cupy\u2019 has no attribute \u2018bool8\u2019",
        r"b'AttributeError: module \'cupy\' has no attribute \'bool8\''",
        "AttributeError:\u00a0module 'cupy' has&nbsp;no\u00a0attribute 'bool8'",
    ],
)
def test_typographic_and_escaped_quotes_are_normalized(line: str) -> None:
    assert [hit.message.id for hit in scan(line.encode()).hits if hit.message.causes]


def test_lines_are_numbered_as_an_editor_does() -> None:
    scanner = scan(b"one\r\ntwo\r\n" + ERROR.encode() + b"\r\nfour")
    (hit,) = [hit for hit in scanner.hits if hit.message.id == FOUND]
    assert hit.line.number == 3
    assert scanner.lines_read == 4


def test_a_wrapped_message_is_read() -> None:
    for width in (40, 62, 75):
        wrapped = "\n".join(ERROR[start : start + width] for start in range(0, len(ERROR), width))
        assert FOUND in names(wrapped.encode()), wrapped
    assert "docker.no-device-driver" in names(b'docker: could not select\n  device driver "" with capabilities')


def test_a_secret_that_a_terminal_broke_is_not_quoted() -> None:
    secret = "Zx8kQ2pLw9sT4vBn3mK7"  # noqa: S105 - made up
    line = f"ERROR: {ERROR} (from https://__token__:glpat-{secret}@a.example/simple) {ERROR}"
    for width in range(118, 148):
        scanner = scan("\n".join(line[start : start + width] for start in range(0, len(line), width)).encode())
        quoted = "".join(entry.text for entry in (*scanner.latest, *(hit.line for hit in scanner.hits)))
        assert FOUND in {hit.message.id for hit in scanner.hits}
        assert not [piece for n in range(len(secret) - 3) if (piece := secret[n : n + 4]) in quoted], width
    (hit,) = scan(f"password=aaaa\n{ERROR}\nnext".encode()).hits
    assert hit.line.text == ERROR


def test_a_line_without_an_end_is_read() -> None:
    assert FOUND in names(b"x" * 3_000_000 + b" " + ERROR.encode() + b" " + b"y" * 3_000_000)


def test_random_bytes_yield_no_cause() -> None:
    noise = random.Random(7).randbytes(3_000_000)  # noqa: S311 - no secret
    assert explanation(scan(noise)).causes == ()
    assert FOUND in names(noise + b"\n" + ERROR.encode() + b"\n" + noise)


def test_an_empty_text_yields_no_cause() -> None:
    for data in (b"", b"\n", b"\0\0", b"\xff\xfe", b"\xef\xbb\xbf"):
        assert explanation(scan(data)).causes == ()


def test_a_long_text_is_searched_completely() -> None:
    filler = b"".join(b"step %d of the training, loss 0.123\n" % number for number in range(40_000))
    scanner = scan(filler + ERROR.encode() + b"\n" + filler)
    (hit,) = [hit for hit in scanner.hits if hit.message.id == FOUND]
    assert hit.line.number == 40_001
    assert scanner.lines_read == 80_001


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (r'msg="no runtime for \"nvidia\" is configured"', "docker.no-runtime"),
        ("TypeError: Unsupported type &lt;class 'numpy.ndarray'&gt;", "cupy.unsupported-type"),
        ("ERROR: Installation has failed.  Please see\n  '/var/log/nvidia-installer.log'", "installer.failed"),
    ],
)
def test_a_line_of_a_long_text_is_found_in_any_form(line: str, name: str) -> None:
    filler = b"step\n" * 100_000
    assert name in names(line.encode())
    assert name in names(filler + line.encode() + b"\n" + filler)


def test_a_word_that_a_message_needs_is_found_far_from_it() -> None:
    needy = b"TypeError: float16 is unsupported in linalg\n"
    filler = b"all is fine\n" * 30_000
    assert "cupy.type-refused" in names(filler + needy + filler + b"import cupy\n" + filler)
    assert names(filler + needy + filler) == set()


def test_a_long_text_of_one_error_is_searched_quickly() -> None:
    """20 MB once took 20 s: each of its lines was read with the three after it."""
    begun = time.process_time()
    assert scan(f"{ERROR}\n".encode() * (20_000_000 // len(ERROR))).lines_read > 100_000
    assert time.process_time() - begun < 5


def test_a_text_of_too_many_different_lines_is_searched_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_finder, "_MOST_SEARCHED", 3 << 20)
    monkeypatch.setattr(line_finder, "_END", 2 << 20)
    filler = b"".join(b"step %s\n" % random.Random(n).randbytes(60).hex().encode() for n in range(100_000))  # noqa: S311
    scanner = scan(filler + ERROR.encode() + b"\n" + b"the end\n")
    (hit,) = [hit for hit in scanner.hits if hit.message.id == FOUND]
    assert hit.line.number == 100_001
    assert scanner.lines_read == 100_002
    assert 5_000_000 < scanner.skipped < len(filler)
    assert "were not searched" in explanation(scanner).notes[0]


def test_hits_of_a_repeated_line_are_limited() -> None:
    scanner = scan(b"".join(b"%d %s\n" % (number, ERROR.encode()) for number in range(5000)))
    assert 1 <= len([hit for hit in scanner.hits if hit.message.id == FOUND]) <= 3


@given(st.binary(max_size=3000), st.integers(min_value=1, max_value=700))
@settings(max_examples=60, deadline=None)
def test_any_bytes_in_any_pieces_are_accepted(noise: bytes, size: int) -> None:
    data = noise + b"\n" + ERROR.encode() + b"\n" + noise
    scanner = Scanner()
    for start in range(0, len(data), size):
        scanner.feed(data[start : start + size])
    scanner.close()
    result = explanation(scanner).causes
    assert sum(entry.confidence for entry in result) <= 1.01
    assert all(0 <= entry.confidence <= 1 for entry in result)


@pytest.mark.parametrize(
    ("piece", "end"),
    [
        (
            '{"name":"cupy-cuda12x","url":"https://example/cupy_cuda12x-14.2.0-cp312.whl"},',
            ' "we have no wheels for that"',
        ),
        (":/usr/src/nvidia-580.95.05/nvidia-uvm/x.c", " dkms bad exit status"),
        ("cupy-cuda12x numpy<2 ", "cupy depends on numpy"),
        ("nvidia-cublas-cu12 torch ", "have conflicting dependencies"),
    ],
)
def test_a_long_line_does_not_backtrack(piece: str, end: str) -> None:
    """Several gaps without a bound, before a word that a line holds many times, once took minutes."""
    line = (piece * 200)[: 4000 - len(end)] + end
    begun = time.process_time()
    scan(line.encode())
    assert time.process_time() - begun < 3


def test_a_repeated_line_with_another_number_is_read() -> None:
    """A log repeats its lines with other numbers; an Xid is no such number, and neither is a driver's version."""
    line = "XidCriticalError: Xid=%d on Device=GPU-0, the device will go unhealthy.\nnext\n"
    scanner = scan((line % 13 + line % 79 + line % 13).encode())
    assert [dict(hit.values)["xid"] for hit in scanner.hits if hit.message.id == "nvrm.xid"] == ["13", "79"]
    (first, *_) = explanation(scanner).causes
    assert first.cause is Cause.GPU_HARDWARE_FAULT
    assert first.title.endswith("Xid 79")


def test_contradicting_numbers_of_one_fact_are_dropped() -> None:
    table = "| NVIDIA-SMI %s   Driver Version: %s   CUDA Version: %s |\n|----|\n"
    result = table % ("535.104.05", "535.104.05", "12.2")
    assert scan(result.encode()).stated.facts == ("driver=535.104.05", "driver-cuda=12.2")
    assert scan((result + table % ("550.144.03", "550.144.03", "12.4")).encode()).stated.facts == ()


def test_a_message_repeated_with_other_numbers_is_no_surer() -> None:
    line = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating %d,000 bytes (allocated so far: %d bytes).\n"
    once = explanation(scan((line % (8, 1)).encode())).causes
    often = explanation(scan("".join(line % (8 + n, n) for n in range(1, 200)).encode())).causes
    assert often[0].cause is once[0].cause is Cause.OUT_OF_MEMORY
    assert often[0].confidence == pytest.approx(once[0].confidence, abs=0.05)  # the words of two lines count a little


def test_the_pieces_of_a_long_text_do_not_change_the_result() -> None:
    """Each line of its beginning is looked at, whether it comes from a file or, in small pieces, through a pipe."""
    lines = [f"all is fine {'abcdefghij'[n % 10] * (n % 97)} and goes on" for n in range(9000)]
    text = "\n".join([*lines[:200], "it was CUDA 12.4 here", *lines[200:], ERROR]).encode()
    found = []
    for size in (len(text), 1 << 19, 1 << 16, 1000):
        scanner = Scanner()
        for start in range(0, len(text), size):
            scanner.feed(text[start : start + size])
        scanner.close()
        found.append((scanner.hits, scanner.latest, scanner.stated.facts, scanner.lines_read))
    assert len(text) > 1 << 18
    assert all(each == found[0] for each in found)
