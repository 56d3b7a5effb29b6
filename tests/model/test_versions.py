"""Version numbers of drivers, CUDA, GPUs, C libraries and Python: spellings and order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion


@pytest.mark.parametrize("text", ["sm_90", "9.0", "90", "sm_90a", "compute_90"])
def test_a_compute_capability_has_several_spellings(text: str) -> None:
    assert ComputeCapability.parse(text) == ComputeCapability(9, 0)


@pytest.mark.parametrize(("text", "printed"), [("100", "10.0"), ("sm_103", "10.3"), ("12.1", "12.1"), ("120", "12.0")])
def test_a_compute_capability_may_have_a_two_digit_major(text: str, printed: str) -> None:
    assert str(ComputeCapability.parse(text)) == printed


@pytest.mark.parametrize("text", ["12.4", "v12.4", "cu124", "12.4.1", "CUDA 12.4"])
def test_a_cuda_version_has_several_spellings(text: str) -> None:
    assert CudaVersion.parse(text) == CudaVersion(12, 4)


@pytest.mark.parametrize("number", [0, -1, 999, 1_000_000])
def test_an_implausible_number_is_not_a_cuda_version(number: int) -> None:
    with pytest.raises(ValueError, match="no CUDA version number"):
        CudaVersion.from_number(number)


def test_a_driver_version_keeps_its_text_and_compares_by_part() -> None:
    version = DriverVersion.parse("535.104.05")
    assert str(version) == "535.104.05"
    assert version.branch == 535
    assert not version.is_bare_branch
    assert DriverVersion.parse("580").is_bare_branch
    assert DriverVersion.parse("418.87") < DriverVersion.parse("418.100")
    assert DriverVersion.parse("580.95.05") == DriverVersion.parse("580.95.5")


@pytest.mark.parametrize(
    ("text", "tag", "printed"),
    [("3.12", "cp312", "3.12"), ("3.14t", "cp314t", "3.14t"), ("python3.9.1", "cp39", "3.9.1")],
)
def test_a_python_version_has_a_tag_and_a_text(text: str, tag: str, printed: str) -> None:
    version = PythonVersion.parse(text)
    assert version.tag == tag
    assert str(version) == printed


@pytest.mark.parametrize("text", ["glibc-2.36", "glibc 2.36", "glibc=2.36", "GLIBC-2.36"])
def test_a_c_library_has_several_spellings(text: str) -> None:
    assert Libc.parse(text) == Libc("glibc", 2, 36)


def test_c_libraries_compare_by_number() -> None:
    assert Libc.parse("glibc-2.5") < Libc.parse("glibc-2.17")


@given(st.text(max_size=20))
def test_any_text_is_parsed_or_rejected_with_an_example(text: str) -> None:
    for kind in (ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion):
        message = _error_of(kind.parse, text)
        assert message is None or "expected one like" in message


def _error_of(parse: Callable[[str], object], text: str) -> str | None:
    try:
        value = parse(text)
    except ValueError as error:
        return str(error)
    return None if parse(str(value)) == value else "its text is parsed as another value"


@given(st.integers(1, 99), st.integers(0, 99))
def test_cuda_versions_from_numbers_and_texts_agree(major: int, minor: int) -> None:
    assert CudaVersion.from_number(major * 1000 + minor * 10) == CudaVersion.parse(f"{major}.{minor}")
