"""Values in messages decide the cause: names of libraries and modules, capabilities of Tegra boards."""

from __future__ import annotations

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.scan import scan
from gpuenv.model.causes import Cause


def first(text: str) -> Cause | None:
    causes = explanation(scan(text.encode())).causes
    return causes[0].cause if causes else None


@pytest.mark.parametrize(
    ("library", "cause"),
    [
        ("libcurand.so.10", Cause.CUDA_LIBRARY_MISSING),  # of CUDA 11, 12 and 13
        ("libcufft.so.11", Cause.CUDA_LIBRARY_MISSING),  # of CUDA 12
        ("libcusolver.so.11", Cause.CUDA_LIBRARY_MISSING),  # of CUDA 11 and 12
        ("libcufft.so.10", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
        ("libcusparse.so.11", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
        ("libcublas.so.11", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
    ],
)
def test_a_low_number_in_a_library_name_is_not_always_an_old_cuda(library: str, cause: Cause) -> None:
    text = f"ImportError: {library}: cannot open shared object file: No such file or directory"
    assert first(text) is cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("nvidia: Loading of unsigned module is rejected", Cause.DRIVER_KERNEL_INCOMPATIBLE),
        (
            "Lockdown: modprobe: unsigned module loading is restricted\nmodprobe nvidia",
            Cause.DRIVER_KERNEL_INCOMPATIBLE,
        ),
        ("vboxdrv: loading of unsigned module is rejected", None),
        ("NVIDIA-SMI 580.95.05 works\nvboxdrv: loading of module with unavailable key is rejected", None),
        ("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7", None),
    ],
)
def test_a_refused_foreign_module_is_not_a_driver_fault(text: str, cause: Cause | None) -> None:
    assert first(text) is cause


@pytest.mark.parametrize("number", [87, 101, 110])  # Orin, and Thor, which CUDA 13 calls 11.0
def test_a_tegra_board_is_recognized_by_its_capability(number: int) -> None:
    text = f"NVIDIA X with CUDA capability sm_{number} is not compatible with the current PyTorch installation."
    assert first(text) is Cause.JETSON_TEGRA


def test_no_fix_installs_an_unresolved_wheel_line() -> None:
    """Beside the CuPy that is there, that of another CUDA would be a second one in the environment."""
    installs = [fix.command for cause in Cause for fix in cause.fix if fix.command and "install" in fix.command]
    assert [command for command in installs if any(word.startswith("cupy") for word in command)] == []
