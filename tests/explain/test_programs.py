"""The program that fails in a text, and the table of the fixes for its users."""

from __future__ import annotations

import re
import shlex
import time

import pytest

from gpuenv.explain.programs import ABOUT_CUPY, Program, fixes_for, is_for_cupy, program_fixes, program_of
from gpuenv.model.causes import Cause
from tests.eval.score import SETS, load

# The reports of tests/eval, by id. What prints the last error or has the last frame counts, not what is mentioned.
REPORTS = {
    "abetlen-llama-cpp-python-225": Program.OTHER,
    "apache-mxnet-15669": Program.OTHER,
    "basujindal-stable-diffusion-217": Program.CONTAINER,
    "bitsandbytes-foundation-bitsandbytes-70": Program.TORCH,
    "bluer555-cr-gan-8": Program.TORCH,
    "chainer-chainer-42": Program.OTHER,  # a Chainer of PyCUDA
    "chflame163-comfyui-facesimilarity-10": Program.TORCH,
    "comfy-org-comfyui-7380": Program.TORCH,
    "containerd-containerd-6042": Program.CONTAINER,
    "cucim-171-ptx-breaks-cupy": Program.CUPY,
    "cupy-2604-torch-then-cupy-nvrtc7": Program.CUPY,
    "cupy-7253-win-pip-broken-without-toolkit": Program.CUPY,
    "cupy-7358-rocm51-hip-symbol": Program.CUPY,
    "cupy-cupy-3196": Program.CUPY,
    "cupy-cupy-7506": Program.TORCH,  # CuPy is imported first, PyTorch fails
    "dask-dask-image-157": Program.CUPY,
    "dphnai-sonar-458": Program.TORCH,
    "ecsplendid-rembg-greenscreen-11": Program.TORCH,
    "explosion-spacy-9475": Program.CUPY,
    "fooocus-4167-colab-py312-numpy": Program.CUPY,
    "ggml-org-llama-cpp-9665": Program.CONTAINER,
    "glotzerlab-signac-flow-115": Program.NUMBA,
    "hajimekawahara-exojax-277": Program.JAX,  # its log names files of TensorFlow
    "jax-ml-jax-15168": Program.JAX,
    "jax-ml-jax-16078": Program.JAX,
    "keras-team-keras-14032": Program.TENSORFLOW,
    "leon-sander-local-multimodal-ai-chat-31": Program.CONTAINER,
    "microsoft-onnxruntime-20049": Program.OTHER,
    "nixos-nixpkgs-420638": Program.CONTAINER,
    "numba-numba-548": Program.NUMBA,
    "nvidia-cudf-22130": Program.RAPIDS,
    "nvidia-cudf-496": Program.RAPIDS,
    "nvidia-cudf-6087": Program.RAPIDS,
    "nvidia-k8s-device-plugin-33": Program.CONTAINER,
    "openbmb-viscpm-3": Program.TORCH,
    "pylops-pylops-753": Program.NUMBA,
    "rapidsai-dask-cuda-443": Program.RAPIDS,
    "seldonio-alibi-detect-435": Program.NUMBA,
    "syllo-nvtop-125": Program.OTHER,
    "tensorflow-tensorflow-44040": Program.TENSORFLOW,
    "tensorflow-tensorflow-7072": Program.TENSORFLOW,
    "yuanzhoulvpi2017-documentsearch-4": Program.TORCH,
}
COMMANDS = {
    *("cmake", "compute-sanitizer", "conda", "docker", "env", "gpuenv", "nvcc", "nvidia-smi", "python", "sudo", "uv"),
    *("winget", "wsl.exe"),
}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {case.id: case.error_text for name in SETS for case in load(name)}


@pytest.mark.parametrize(("report", "program"), REPORTS.items())
def test_the_program_that_fails_in_a_report(report: str, program: Program, texts: dict[str, str]) -> None:
    assert program_of(texts[report]) is program


def test_a_hint_to_install_cupy_is_no_cupy() -> None:
    hint = "ImportError: please install cupy-cuda11x, see https://docs.cupy.dev\n"
    assert program_of(hint) is Program.OTHER
    assert program_of(f"{hint}Cannot use the GPU: CuPy is not installed (torch 2.9)") is Program.TORCH


def test_the_last_of_several_programs_counts() -> None:
    torch, cupy = "torch.OutOfMemoryError: CUDA out of memory.\n", "cupy.cuda.memory.OutOfMemoryError: out of memory\n"
    assert (program_of(torch + cupy), program_of(cupy + torch)) == (Program.CUPY, Program.TORCH)
    assert program_of("$ docker run --gpus all pytorch/pytorch\n") is Program.TORCH
    assert program_of("$ docker run nvidia/cuda nvidia-smi\nexecutable file not found") is Program.CONTAINER
    assert program_of("") is Program.OTHER


@pytest.mark.parametrize("unit", ["torch/", "torch.", "cupy.", "cupy/", "//", "STATUS_", "Numba", "site-packages/jax/"])
def test_a_long_line_takes_no_long_time(unit: str) -> None:
    start = time.monotonic()
    program_of(unit * (1_000_000 // len(unit)))
    assert time.monotonic() - start < 20


def test_every_row_names_a_cause_and_programs_and_says_what_to_do() -> None:
    causes, programs = {cause.value for cause in Cause}, {program.value for program in Program} | {"*"}
    for row in program_fixes():
        assert row.cause in causes, row
        assert set(row.programs.split("; ")) <= programs, row
        assert row.text.endswith("."), row
        assert len(row.text) <= 190, row
        assert not (row.command and row.shell_line), row


def test_rows_of_one_cause_follow_each_other() -> None:
    causes = [row.cause for row in program_fixes()]
    runs = [cause for index, cause in enumerate(causes) if index == 0 or causes[index - 1] != cause]
    assert len(runs) == len(set(runs))


def test_every_command_is_an_argv_list_of_a_known_program_and_every_shell_line_parses() -> None:
    for row in program_fixes():
        words = shlex.split(row.command)
        assert not words or words[0] in COMMANDS, row
        assert not set(words) & {"&&", "|", ";", ">"}, row
        assert not row.shell_line or shlex.split(row.shell_line), row


def test_no_row_names_a_host_or_removes_something_without_saying_so() -> None:
    for row in program_fixes():
        assert not re.search(r"https?:|index-url|\w\.(?:org|com|io)\b(?!/gpu)", " ".join(row)), row
        if "uninstall" in row.command:
            assert "ninstall" in row.text, row


def test_only_users_of_cupy_are_sent_to_cupy() -> None:
    for cause in set(Cause) - ABOUT_CUPY:
        for program in set(Program) - {Program.CUPY}:
            fixes = fixes_for(cause, program)
            assert fixes, (cause, program)
            assert [fix for fix in fixes if is_for_cupy(fix)] == [], (cause, program)


def test_the_first_fix_goes_on_from_no_other() -> None:
    first = {fixes_for(cause, program)[0].text for cause in Cause for program in Program}
    assert [text for text in first if re.match(r"(?:Or|Else|Then|If the error persists|If not)\b", text)] == []


def test_a_program_without_rows_has_the_fixes_of_the_cause() -> None:
    assert fixes_for(Cause.OUT_OF_MEMORY, Program.CUPY) == Cause.OUT_OF_MEMORY.fix
    assert fixes_for(Cause.DRIVER_LIBRARY_VERSION_MISMATCH, Program.TORCH) == Cause.DRIVER_LIBRARY_VERSION_MISMATCH.fix
    assert fixes_for(Cause.CUPY_NOT_INSTALLED, Program.OTHER) == Cause.CUPY_NOT_INSTALLED.fix
    assert [is_for_cupy(fix) for fix in Cause.OUT_OF_MEMORY.fix] == [False, True]


def test_nobody_gets_the_same_fix_twice() -> None:
    for cause in Cause:
        for program in Program:
            fixes = fixes_for(cause, program)
            assert len(fixes) == len(set(fixes)), (cause, program)


def test_the_container_s_variable_is_not_the_one_of_cuda() -> None:
    first, *_ = fixes_for(Cause.VISIBLE_DEVICES_HIDE_GPU, Program.CONTAINER)
    assert "NVIDIA_VISIBLE_DEVICES" in first.text
    assert "--gpus" in first.text
    assert "CUDA_VISIBLE_DEVICES" not in first.text
    assert first.command == ("nvidia-smi", "-L")
