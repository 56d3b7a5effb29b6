"""The profiles of ``gpuenv simulate``: shipped ones, the user's own, and invalid ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.data import data_path
from gpuenv.simulate.profile import ProfileError, load
from tests.cli.program import PROGRAM, gpuenv
from tests.simulate.commands import simulate

NAMES = sorted(path.stem for path in data_path("machines").glob("*.yaml"))


def test_every_machine_is_listed() -> None:
    result = gpuenv("simulate", "--list")
    assert result.returncode == 0
    assert [line.split(" ")[0] for line in result.stdout.splitlines()] == NAMES


def test_profiles_whose_environment_is_not_simulated_are_marked() -> None:
    """Commands see the caller's environment instead."""
    lines = {line.split(" ")[0]: line for line in gpuenv("simulate", "--list").stdout.splitlines()}
    marked = {name for name, line in lines.items() if line.endswith("(Its environment is not simulated.)")}
    assert marked >= {
        "two-cupy", "two-releases-of-one-line", "driver-too-old-wheel", "numpy1-cupy14", "v100-cuda13x-580", "no-cupy",
        "library-missing", "rocm-on-nvidia", "fedora-lib64", "conda-cupy-without-cuda-version", "newer-than-matrix",
    }  # fmt: skip
    assert not marked & {
        "no-gpu", "h100x8-550", "mismatch-535", "k80-580", "rtx5090-535", "libcuda-stub", "library-crash", "gpu-lost",
        "one-of-eight-lost", "slurm-host-numbers", "no-driver-h100",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["no-gpu", "two-cupy"])
def test_a_printed_profile_can_be_simulated(cache: Path, tmp_path: Path, name: str) -> None:
    printed = gpuenv("simulate", "--print", name)
    assert printed.returncode == 0
    assert printed.stdout == (data_path("machines") / f"{name}.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(printed.stdout, encoding="utf-8")
    assert simulate(str(tmp_path / "mine.yaml"), "true", cache=cache).returncode == 0
    missing = gpuenv("simulate", "--print", "no-gup")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "did you mean no-gpu" in missing.stderr


def test_the_example_profile_of_the_documentation_is_valid(cache: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/simulate.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    profile_file = tmp_path / "mine.yaml"
    profile_file.write_text(text, encoding="utf-8")
    assert "GPU 0: NVIDIA L4 (UUID: GPU-" in simulate(str(profile_file), "nvidia-smi", "-L", cache=cache).stdout
    probed = json.loads(simulate(str(profile_file), *PROGRAM, "probe", "--format", "json", cache=cache).stdout)
    assert probed["driver"]["version"]["value"] == "550.163.01"
    assert [gpu["compute_capability"]["value"] for gpu in probed["gpus"]] == ["8.9"]
    report = json.loads(simulate(str(profile_file), *PROGRAM, "doctor", "--format", "json", cache=cache).stdout)
    assert [f["code"] for f in report["findings"] if f["code"].startswith(("DRV", "GPU", "CTR"))] == []


VALID = (data_path("machines") / "h200-580.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("original", "misspelled", "line", "expected"),
    [
        ("about:", "abuot:", 1, "abuot: unknown key; did you mean about?"),
        ("  version: 580", "  verison: 580", 8, "verison: unknown key; did you mean version?"),
        ("module: open", "module: opne", 7, "module: expected open or proprietary"),
        ("capability: 9.0", "capabilty: 9.0", 12, "capabilty: unknown key; did you mean capability?"),
        ("  packages:", "  package:", 15, "package: unknown key; did you mean packages?"),
        ("toolkit: 13.0", "toolkit: 13.0\ntoolkit: 12.0", 14, "the key toolkit occurs a second time"),
        ("  cuda: 13.0", f"  cuda: {'9' * 5000}.0", 10, "cuda: expected a CUDA version such as 12.4"),
        ("memory: 143771 MiB", f"memory: {'9' * 5000} MiB", 12, "memory: expected '<number> MiB' or none"),
        ("exit_code: 0", f"exit_code: {'9' * 5000}", 16, "exit_code: expected a whole number"),
    ],
)
def test_an_error_in_a_profile_is_reported_with_its_line(
    tmp_path: Path, original: str, misspelled: str, line: int, expected: str
) -> None:
    path = tmp_path / "mine.yaml"
    assert VALID.count(original) == 1
    path.write_text(VALID.replace(original, misspelled), encoding="utf-8")
    message = refusal(path) or ""
    assert message.startswith(f"mine.yaml: line {line}: ")
    assert expected in message


def test_an_invalid_profile_ends_in_2(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(VALID.replace("about:", "abuot:"), encoding="utf-8")
    result = gpuenv("simulate", path, "--", "true")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("gpuenv: mine.yaml: line 1: ")


@settings(max_examples=150)
@given(st.data())
def test_every_text_is_a_profile_or_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    lines = VALID.splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(
        st.one_of(st.text(max_size=60), st.sampled_from(["", "- x", "{", "a: [", "gpus: 3", "\t", lines[number][::-1]]))
    )
    path = tmp_path_factory.mktemp("fuzz") / "mine.yaml"
    path.write_bytes("\n".join([*lines[:number], change, *lines[number + 1 :]]).encode("utf-8", "surrogatepass"))
    assert (refusal(path) or "mine.yaml: ").startswith("mine.yaml: ")


def refusal(path: Path) -> str | None:
    try:
        load(path)
    except ProfileError as error:
        return str(error)
    return None
