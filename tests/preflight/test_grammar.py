"""The grammar of requirements, and the messages for invalid ones."""

from __future__ import annotations

import re

import pytest

from gpuenv.preflight.requirements import KEYS, Clause, Origin, RequirementError, parse_requirement


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_key_has_a_valid_example(key: object) -> None:
    requirement_key = KEYS[getattr(key, "name", "")]
    assert parse_requirement(requirement_key.example).key == requirement_key.name
    assert len(requirement_key.meaning) > 10


@pytest.mark.parametrize(
    ("text", "key", "clauses"),
    [
        ("gpu>=1", "gpu", [(">=", "1")]),
        (" gpu  >=  1 ", "gpu", [(">=", "1")]),
        ("cupy>=14,<15", "cupy", [(">=", "14"), ("<", "15")]),
        ("cupy >= 14 , < 15", "cupy", [(">=", "14"), ("<", "15")]),
        ("name~=H100|H200", "name", [("~=", "H100|H200")]),
        ("nvlink", "nvlink", [("==", "on")]),
        ("mig==off", "mig", [("==", "off")]),
        ("cupy==none", "cupy", [("==", "none")]),
        ("python>=3.11,<3.14", "python", [(">=", "3.11"), ("<", "3.14")]),
        ("line==cupy-cuda112", "line", [("==", "cupy-cuda112")]),
        ("line!=cupy-rocm-5-0", "line", [("!=", "cupy-rocm-5-0")]),
    ],
)
def test_a_requirement_is_parsed_into_a_key_and_comparisons(
    text: str, key: str, clauses: list[tuple[str, str]]
) -> None:
    requirement = parse_requirement(text)
    assert (requirement.key, requirement.clauses) == (key, tuple(Clause(*clause) for clause in clauses))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpus>=1", "did you mean gpu, as in gpu>=1?"),
        ("line==cupy-cuda129", "expected one of cupy-cuda11x, cupy-cuda12x,"),
        ("gpu_count>=1", "did you mean gpu,"),
        ("compute-capability>=8", "did you mean cc,"),
        ("free_memory>=1GiB", "did you mean free-memory,"),
        ("memroy>=1GiB", "did you mean memory,"),
        ("vram>=1GiB", "did you mean memory,"),
        ("no-other-process", "did you mean no-other-processes,"),
        ("cuda>=12.4", "did you mean driver-cuda,"),
        ("Drvier>=550", "did you mean driver,"),
        ("zzzzzz>=1", "one of gpu, cc, name"),
        (
            "cupy-cuda12x[ctk]>=13,<14; os_name=='posix'",
            "separate requirements: 'line==cupy-cuda12x' and 'cupy>=13,<14'",
        ),
        ("CuPy_CUDA11x", "separate requirements: 'line==cupy-cuda11x'"),
        ("gpu=1", "did you mean ==?"),
        ("gpu", "expected a comparison, as in gpu>=1"),
        ("gpu>=", "expected an operator and a value"),
        ("gpu>=1,", "expected an operator and a value"),
        ("gpu>=1,,<3", "expected an operator and a value"),
        ("gpu>=one", "expected a whole number like 2"),
        ("gpu>=-1", "expected a whole number like 2"),
        ("gpu>=1.5", "expected a whole number like 2"),
        ("gpu>=99999999999999999999", "expected a whole number like 2"),
        ("gpu~=1", "gpu cannot be compared with ~="),
        ("cc>=banana", "no compute capability"),
        ("memory>=40", "expected a size with its unit"),
        ("memory>=40XiB", "expected a size like 80GiB"),
        ("memory>=0GiB", "expected a positive size"),
        ("memory>=1e400", "expected a size"),
        ("driver>=12.4", "no CUDA version"),
        ("driver-cuda>=550", "no CUDA version"),
        ("mig==perhaps", "expected on or off"),
        ("mig>=on", "mig cannot be compared with >="),
        ("os==amiga", "expected one of linux, windows, darwin"),
        ("line==cupy-cuda12", "expected one of cupy-cuda11x, cupy-cuda12x"),
        ("name~=", "expected an operator and a value"),
        ("name~=|", "expected a name"),
        ("cupy>=banana", "expected a version like 14.2.0"),
        ("cupy>=none", "none can be compared only with == or !="),
        ("python>=3.14t", "free-threaded"),
        ("", "expected a requirement like gpu>=1"),
        ("   ", "expected a requirement like gpu>=1"),
        (">=1", "expected a requirement like gpu>=1"),
        ("gpu>=1" + " " * 500, "in less than 200 characters"),
        ("a" * 5000, "in less than 200 characters"),
        ("gpu>=1\x1b[2J", "expected a whole number"),
    ],
)
def test_an_invalid_requirement_is_reported_with_its_origin(text: str, expected: str) -> None:
    with pytest.raises(RequirementError, match=re.escape(expected)) as error:
        parse_requirement(text, Origin(file="ci/gpuenv.toml", line=7))
    assert str(error.value).startswith("ci/gpuenv.toml: line 7: ")
    assert str(error.value).isprintable()
