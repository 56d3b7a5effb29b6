"""Strict loading of matrix.yaml: all faults are reported at once, each with its line, and nothing is guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load, parse
from gpuenv.matrix.strict_yaml import YamlError
from gpuenv.matrix.strict_yaml import parse as parse_yaml
from gpuenv.matrix.tables import Matrix, SourceKind
from gpuenv.matrix.validate import MatrixError
from gpuenv.model.codec import encode

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")


def _line_of(needle: str, text: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if needle in line)


def _broken(change: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    text = change(TEXT)
    assert text != TEXT
    with pytest.raises(MatrixError) as caught:
        parse(text, "m.yaml")
    return text, caught.value.faults


def test_every_row_cites_a_listed_source(matrix: Matrix) -> None:
    for source in matrix.sources.values():
        assert source.citation
        assert source.seen
    cited = {row.source for row in matrix.driver_branches} | {row.source for row in matrix.cuda_minors}
    cited |= {row.source for row in matrix.products} | {row.source for row in matrix.generations}
    cited |= {release.source for line in matrix.wheel_lines for release in line.releases}
    assert cited <= set(matrix.sources)


def test_every_release_cites_a_binary(matrix: Matrix) -> None:
    for line in matrix.wheel_lines:
        for release in line.releases:
            source = matrix.sources[release.source]
            assert source.kind is SourceKind.BINARY
            assert (source.file or "").startswith(f"{line.name.replace('-', '_')}-{release.cupy}-")


def test_supported_capabilities_are_a_set_not_a_range(matrix: Matrix) -> None:
    """No 8.8 before 13.0, 10.1 in 12.8 and 12.9 alone, 10.3 from 12.9, 10.7 from 13.4."""
    minors: dict[str, list[str]] = {}
    for row in matrix.cuda_minors:
        for capability in row.capabilities:
            minors.setdefault(str(capability), []).append(str(row.cuda))
    assert minors["8.8"][0] == "13.0"
    assert minors["10.1"] == ["12.8", "12.9"]
    assert minors["10.3"][0] == "12.9"
    assert minors["10.7"][0] == "13.4"
    assert minors["5.0"][-1] == "12.9"
    assert minors["7.0"][-1] == "12.9"
    assert minors["3.7"][-1] == "11.8"


def test_an_invalid_digest_is_a_fault() -> None:
    def cut(text: str) -> str:
        source = "  broken: {kind: binary, seen: '2026-11-21', file: x.whl, sha256: '12'}"
        return text.replace("\nsources:\n", f"\nsources:\n{source}\n", 1)

    text, faults = _broken(cut)
    assert len(faults) == 1
    assert f"line {_line_of('broken: ', text)}:" in faults[0]
    assert "64 hexadecimal digits" in faults[0]


def test_an_unknown_key_is_reported_with_its_line() -> None:
    text, faults = _broken(lambda text: text.replace("requires_python:", "requires_snake:", 1))
    assert f"line {_line_of('requires_snake', text)}:" in faults[0]
    assert "unknown key" in faults[0]


def test_all_schema_faults_are_reported_at_once_each_with_its_line() -> None:
    changes = {
        "{branch: 545, ": "{brunch: 545, ",
        "    ptx: '9.5'\n": "    ptx: '9.5'\n    foo: bar\n",
        "{major: 12, linux: '525.60.13'": "{major: 12, linux: nothing",
        "name: Hopper, capabilities: ['9.0']": "name: Hopper, capabilities: [many]",
    }

    def corrupt(text: str) -> str:
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new, 1)
        return text

    text, faults = _broken(corrupt)
    assert len(faults) == len(changes)
    for new, fault in zip(("brunch", "linux: nothing", "foo: bar", "[many]"), faults, strict=True):
        assert fault.startswith(f"m.yaml: line {_line_of(new, text)}: ")


def test_all_yaml_extensions_are_reported_at_once() -> None:
    def corrupt(text: str) -> str:
        text = text.replace("{branch: 545, ", "{branch: 545, branch: 546, ", 1)
        return text.replace("{branch: 590, ", "{branch: !mine 590, ", 1) + "more: &a [x]\nyet: *a\n"

    text, faults = _broken(corrupt)
    for fault, mark in zip(faults, ("branch: 546", "!mine", "more: &a"), strict=True):
        assert f"line {_line_of(mark, text)}:" in fault  # an alias is reported at its anchor


def test_all_contradictions_are_reported_at_once() -> None:
    def contradict(text: str) -> str:
        text = text.replace("cuda: '12.6', first", "cuda: '11.9', first")
        return text.replace("source: banners}", "source: hearsay}", 1)

    _, faults = _broken(contradict)
    assert any("reports an older CUDA" in fault for fault in faults)
    assert any("hearsay" in fault for fault in faults)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "{major: 13, linux: '580.65.06'",
            "{major: 13, linux: '520.65.06'",
            "CUDA 13 has no newer driver floor than CUDA 12",
        ),
        ("  - name: cupy-cuda12x\n", "  - name: cupy-cuda11x\n", "cupy-cuda11x occurs twice"),
        ("  - name: cupy-cuda12x\n", "  - name: cupy-cudax\n", "cupy-cudax is no wheel line of CuPy"),
        ("    cuda_major: 12\n", "    cuda_major: 13\n", "first_cuda 12.0 is outside CUDA 13"),
        ("    first_cuda: '12.0'\n", "    first_cuda: '11.8'\n", "first_cuda 11.8 is outside CUDA 12"),
        (
            "    first_cuda: '11.2'\n",
            "    first_cuda: '11.2'\n    last_cuda: '12.1'\n",
            "last_cuda 12.1 is not between 11.2",
        ),
        (
            "    cuda_major: 12\n    first_cuda: '12.0'\n",
            "    cuda_major: 11\n    first_cuda: '11.8'\n",
            "overlap",
        ),
        ("    first_cuda: '12.0'\n", "    first_cuda: '12.7'\n", "first_cuda 12.7 is not among the CUDA minors"),
        (
            "  - cupy: '14.1.1'\n    cuda: '12.9'\n",
            "  - cupy: '14.9.9'\n    cuda: '12.9'\n",
            "no wheel line for CUDA 12.9 has CuPy 14.9.9",
        ),
        ("    cuda: '12.9'\n    pythons: [cp310,", "    cuda: '12.9'\n    pythons: ['3',", "3 is no ABI tag"),
        ("    rocm: '7.0'\n", "    rocm: newest\n", "newest is no release of ROCm; expected one like 7.0"),
        (
            "    cupy: '13.6.0'\n    source: c",
            "    cupy: '13.6.9'\n    source: c",
            "cupy-cuda12x 13.6.9 is not among the wheel lines",
        ),
        ("without: [cp314t]", "without: [cp39]", "without cp39: the release has no wheel with this tag"),
        ("versions: '==2.15.0'\n", "versions: newest\n", "newest is no version range"),
        (
            "versions: '==2.15.0'\n    cuda_major: 13\n",
            "versions: '==2.15.0'\n    cuda_major: 12\n",
            "CUDA 13.2 is outside CUDA 12",
        ),
        ("cupy: '==14.0.0'", "cupy: bad", "bad is no version range"),
        ("first: '535.54.03'", "first: '545.54.03'", "its first release 545.54.03 is of another branch"),
        (
            "built_with: '12.9'\n        source: cupy-cuda12x-14.2.0",
            "built_with: '13.0'\n        source: cupy-cuda12x-14.2.0",
            "built with",
        ),
        ("nvrtc_caps: {'12.0': '9.0', ", "nvrtc_caps: {'13.0': '9.0', ", "a cap from NVRTC 13.0 on, outside CUDA 12"),
        ("requires_python: '>=3.10'", "requires_python: '>=3.11'", "cp310 is outside >=3.11"),
        ("requires_python: '>=3.10'", "requires_python: 'newest'", "newest is no version range"),
        (
            "{name: Hopper, capabilities: ['9.0']",
            "{name: Ada, capabilities: ['9.0']",
            "capability 9.0 is hopper, not Ada",
        ),
        ("{name: Turing, capabilities: ['7.5']", "{name: Turing, capabilities: ['7.5', '9.0']", "occurs twice"),
        ("linux: '595.45.04'", "linux: '585.45.04'", "CUDA 13.2 has an older driver than CUDA 13.1"),
    ],
)
def test_an_inconsistent_matrix_is_rejected(old: str, new: str, message: str) -> None:
    _, faults = _broken(lambda text: text.replace(old, new, 1))
    assert any(message in fault for fault in faults), faults
    assert all(re.match(r"m\.yaml: line \d+: ", fault) for fault in faults)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "line 2: the key a occurs a second time"),
        ("a: &x [1]\nb: *x\n", "an alias"),
        ("a: !!python/object:os.system x\n", "line 1: the tag"),
        ("a: !mine x\n", "line 1: the tag !mine"),
        ("a: [1, 2\nb: 3\n", "line 2"),
        ("? [1]\n: 2\n", "line 1: a key that is not text"),
    ],
)
def test_yaml_extensions_are_rejected(text: str, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cuda: '10.1'", "cuda: 10.1", "must be quoted: '10.1'"),
        ("first: '450.36.06'", "first: 450.36.06", "must be quoted"),
        ("until: '2026-06'", "until: 2026-06", "must be quoted"),
        ("requires_python: '>=3.9'", "requires_python: =3.9", "must be quoted"),
        ("{'10.0': '7.5'}", "{10.0: '7.5'}", "must be quoted"),
        ("toolkit_wheels: true", "toolkit_wheels: yes", "must be quoted"),
        ("toolkit_wheels: true", "toolkit_wheels: 'true'", "expected true or false, found 'true'"),
        ("branch: 545,", "branch: '545',", "expected a whole number, found '545'"),
        ("windows: '580'", "windows: 580", "expected text, found 580"),
    ],
)
def test_values_of_another_kind_are_rejected(old: str, new: str, message: str) -> None:
    text, faults = _broken(lambda text: text.replace(old, new, 1))
    assert len(faults) == 1
    assert message in faults[0]
    assert f"line {_line_of(new, text)}:" in faults[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("revision: '2026-", "revision: '2026.", "expected a day, such as"),
        ("revision: '2026-11-29'", "revision: '20261129'", "expected a day, such as"),
        ("numpy: '<1.29,>=1.20'", f"numpy: '<{'9' * 5000}'", "is no version range"),
        ("title: Public nvidia-smi output", 'title: "a\\Nb"', "control characters"),
        (
            "reference: 'nvidia/cuda:13.1.0-base-ubuntu24.04'",
            "reference: 'nvidia/cuda RUN x'",
            "no reference of an image",
        ),
        ("ctk: {requirement: ", "'c]': {requirement: ", "c] is no name of an extra"),
        ("requirement: 'cuda-toolkit[", "requirement: 'cuda toolkit[", "is no requirement"),
    ],
)
def test_hostile_and_malformed_texts_are_rejected(old: str, new: str, message: str) -> None:
    _, faults = _broken(lambda text: text.replace(old, new, 1))
    assert any(message in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("own/base:(", "is no regular expression"),
        ("own/base:(?P<cude>.*)", "cude is no group of a pattern"),
        ("own/(?P<image>[a-z]+):.*", "image and release stand together"),
    ],
)
def test_a_pattern_of_a_base_image_is_checked(pattern: str, message: str) -> None:
    row = f"base_images:\n  - {{pattern: '{pattern}', source: banners}}\n\ncompanions:\n"
    _, faults = _broken(lambda text: text.replace("companions:\n", row, 1))
    assert any(message in fault and "base_images[0]" in fault for fault in faults), faults


def test_a_matrix_without_rows_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    data = encode(load(data_path("matrix.yaml")))
    path.write_text(json.dumps({**data, "wheel_lines": [], "conda_builds": [], "images": []}), encoding="utf-8")
    with pytest.raises(MatrixError, match="wheel_lines: has no rows"):
        load(path)
    path.write_text(json.dumps(data)[:-1] + ', "revision": "2999-01-01"}', encoding="utf-8")
    with pytest.raises(MatrixError, match="a key occurs twice"):
        load(path)


def test_scalars_are_read_as_text() -> None:
    document = parse_yaml("version: 12.10\nanswer: no\nnothing: null\nquoted: 'null'\noctal: 0777\n")
    assert document.value == {"version": "12.10", "answer": "no", "nothing": None, "quoted": "null", "octal": "0777"}


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, "a: " + "{b: " * 1000, "- " * 1000 + "x", "? " * 1000 + "x"),
        "\n".join(" " * n + "a:" for n in range(0, 900, 3)),
        "\n".join(" " * n + "a:" for n in range(100)),
        f"# {']' * 100_000}\n{'[' * 100_000}",
        f"- '{']' * 20_000}'\n- {'[' * 20_000}{']' * 20_000}",
    ],
)
def test_deep_nesting_is_rejected_at_little_cost(text: str) -> None:
    with pytest.raises(YamlError, match=r"line \d+: nested more than 50 levels deep"):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["a: b # " + "[" * 100, f"a: '{'{' * 100}'", "a: |\n" + "  echo '\\033[32m'\n" * 100])
def test_brackets_in_comments_and_texts_are_not_nesting(text: str) -> None:
    assert parse_yaml(text).value


def test_an_alias_bomb_is_rejected() -> None:
    bomb = "a: &a [x, x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )
    with pytest.raises(YamlError, match="alias"):
        parse_yaml(bomb)


@pytest.mark.parametrize("text", ["", "[]", "schema: gpuenv.matrix/2\n", "just words"])
def test_another_file_is_rejected_as_a_matrix(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MatrixError, match=r"gpuenv\.matrix/1"):
        load(path)
