"""Snapshots of Windows and macOS: the same causes, with fixes for these systems."""

from __future__ import annotations

import itertools

import pytest

from gpuenv.doctor.fixes.adaptation import adapt_for_container, adapt_for_system
from gpuenv.matrix.assume import assume
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding, Fix, Severity
from gpuenv.model.nvidia import Cuda, Nvml
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import ComputeMode, LibraryOrigin, Snapshot, Source, SourceState
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

HEALTHY = ("os=windows", "arch=x86_64", "python=3.12", "gpu=RTX 4090", "numpy=2.3.4", "cupy=cupy-cuda12x==14.2.0")
ABSENT = tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda", "nvidia-smi"))
LINUX_COMMANDS = ("sudo", "modprobe", "dmesg", "reboot", "env", "apt-get", "systemctl", "python3")


def windows(*options: str) -> Snapshot:
    snapshot = assume(Snapshot(), [*HEALTHY, "driver=581.15", *options], MATRIX)
    answered = (*(Source(name, SourceState.ANSWERED) for name in ("nvml", "libcuda")),)
    return snapshot._replace(sources=answered, gpu_count=known(1, "nvml"))


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    return diagnosis_of(snapshot).findings


def with_driver(snapshot: Snapshot, **fields: Reading[int]) -> Snapshot:
    return snapshot._replace(driver=snapshot.driver._replace(**fields))  # type: ignore[arg-type]


HUNG = windows()._replace(sources=(Source("nvml", SourceState.TIMED_OUT), Source("libcuda", SourceState.ANSWERED)))
HIDDEN = windows()._replace(
    visible_count=known(0, "libcuda"), environment={"CUDA_VISIBLE_DEVICES": "-1"}, gpu_count=known(1, "nvml")
)
PROHIBITED = windows()._replace(
    gpus=tuple(
        gpu._replace(compute_mode=known(ComputeMode.PROHIBITED, "nvml"), ordinal=known(0, "libcuda"))
        for gpu in windows().gpus
    )
)
BROKEN = windows()._replace(
    target=windows().target._replace(
        python=Reading(),
        executable=known(r"C:\venv\Scripts\python.exe", "--python"),
        venv_python=known("3.12.4", "pyvenv.cfg"),
    ),
    sources=(*windows().sources, Source("target", SourceState.FAILED)),
)
NO_DRIVER = windows()._replace(driver=Snapshot().driver, gpus=(), gpu_count=Reading(), sources=ABSENT)


@pytest.mark.parametrize(
    ("snapshot", "cause", "commands"),
    [
        (HUNG, Cause.DRIVER_UNRESPONSIVE, ["gpuenv doctor --timeout 120"]),
        (with_driver(windows(), cuda_init=known(int(Cuda.UNKNOWN), "libcuda")), Cause.CUDA_INITIALIZATION_FAILED, []),
        (
            with_driver(windows(), nvml_init=known(int(Nvml.LIB_RM_VERSION_MISMATCH), "nvml")),
            Cause.DRIVER_LIBRARY_VERSION_MISMATCH,
            ["shutdown /r /t 0"],
        ),
        (HIDDEN, Cause.VISIBLE_DEVICES_HIDE_GPU, ["rundll32 sysdm.cpl,EditEnvironmentVariables"]),
        (PROHIBITED, Cause.COMPUTE_MODE_EXCLUSIVE, ["nvidia-smi -i 0 -c DEFAULT"]),
        (
            BROKEN,
            Cause.TARGET_ENVIRONMENT_BROKEN,
            [r"py -3.12 -m venv --upgrade --without-pip C:\venv", r"py -m venv C:\venv-new"],
        ),
        (NO_DRIVER, Cause.NO_DRIVER, []),
    ],
    ids=lambda value: value.value if isinstance(value, Cause) else "",
)
def test_windows_gets_windows_commands(snapshot: Snapshot, cause: Cause, commands: list[str]) -> None:
    result = findings(snapshot)
    (primary,) = [finding for finding in result if finding.primary]
    assert (primary.cause, [" ".join(fix.command) for fix in primary.fix if fix.command]) == (cause, commands)
    assert primary.fix
    arguments = itertools.chain.from_iterable(fix.command or () for finding in result for fix in finding.fix)
    assert not {*arguments} & {*LINUX_COMMANDS}


def test_windows_gets_lines_for_powershell() -> None:
    target = BROKEN.target._replace(starts_without=known("variables", "x"))
    (primary,) = [finding for finding in findings(BROKEN._replace(target=target)) if finding.primary]
    assert [fix.shell_line for fix in primary.fix] == ["Remove-Item Env:PYTHON*"]


def test_a_healthy_windows_machine_has_no_findings() -> None:
    assert findings(windows()) == ()


def test_linux_paths_are_not_named_on_windows() -> None:
    full = windows().target._replace(kernel_cache_fault=known("no space is left", "the target"))
    fixes = [fix.text for finding in findings(windows()._replace(target=full)) for fix in finding.fix]
    assert fixes
    assert not any("/tmp/" in text for text in fixes)  # noqa: S108 - must not appear


@pytest.mark.parametrize("cupy", ["none", "cupy-cuda12x==14.2.0"])
@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_macos_has_no_driver_to_install(arch: str, cupy: str) -> None:
    snapshot = assume(Snapshot(), ["os=darwin", f"arch={arch}", "python=3.12", f"cupy={cupy}"], MATRIX)
    result = findings(snapshot._replace(sources=ABSENT))
    assert [finding.cause for finding in result if finding.primary] == [Cause.NO_NVIDIA_GPU]
    assert "Linux or Windows" in result[0].fix[0].text
    assert Cause.NO_DRIVER not in {finding.cause for finding in result}


def test_fixes_are_unchanged_on_linux() -> None:
    fixes = (Fix("Look.", ("sudo", "dmesg")), Fix("Unset it.", ("env", "-u", "NAME", "python")))
    assert adapt_for_system(fixes, "linux") == adapt_for_system(fixes, None) == fixes
    assert adapt_for_system((), "windows") == ()


@pytest.mark.parametrize(
    ("fix", "text", "command"),
    [
        (Fix("Start it.", ("sudo", "systemctl", "x")), "On the host: start it.", ("sudo", "systemctl", "x")),
        (Fix("Install it.", ("sudo", "apt-get", "x")), "On the host: install it.", None),
        (Fix("MIG is on.", ("sudo", "nvidia-smi")), "On the host: MIG is on.", ("sudo", "nvidia-smi")),
        (Fix("Or, on the node, do it.", ("sudo", "x")), "Or, on the node, do it.", ("sudo", "x")),
        (Fix("Restart the host.", ("sudo", "reboot")), "Restart the host.", ("sudo", "reboot")),
        (Fix("Install it.", ("uv", "pip", "x")), "Install it.", ("uv", "pip", "x")),
    ],
)
def test_driver_fixes_in_a_container_are_for_the_host(fix: Fix, text: str, command: tuple[str, ...] | None) -> None:
    assert adapt_for_container([fix]) == (fix._replace(text=text, command=command),)


def test_wsl_is_restarted_instead_of_loading_nvidia_uvm() -> None:
    snapshot = assume(Snapshot(), [*HEALTHY[1:], "os=linux", "wsl=yes", "driver=581.15"], MATRIX)
    answered = tuple(Source(name, SourceState.ANSWERED) for name in ("nvml", "libcuda"))
    snapshot = snapshot._replace(sources=answered, gpu_count=known(1, "nvml"))
    wsl = known(LibraryOrigin.WSL, "its path")
    failing = snapshot.driver._replace(cuda_init=known(int(Cuda.UNKNOWN), "libcuda"), cuda_origin=wsl)
    (primary,) = [finding for finding in findings(snapshot._replace(driver=failing)) if finding.primary]
    assert primary.cause is Cause.CUDA_INITIALIZATION_FAILED
    assert primary.fix[0].command == ("wsl.exe", "--shutdown")
    assert not any("modprobe" in " ".join(fix.command or ()) for fix in primary.fix)


@pytest.mark.parametrize(
    ("module", "path", "severity"),
    [
        (r"C:\venv\Lib\site-packages\cupy.py", "", Severity.ERROR),
        (r"D:\work\cupy.py", r"C:\tools;D:\work", Severity.ERROR),
        (r"D:\work\cupy.py", "", Severity.WARNING),  # in the current folder alone
    ],
)
def test_a_file_that_hides_cupy_on_the_path_of_windows_is_an_error(module: str, path: str, severity: Severity) -> None:
    snapshot = windows()
    installed = snapshot.target.cupy[0]._replace(module=r"C:\venv\Lib\site-packages\cupy\__init__.py")
    target = snapshot.target._replace(
        cupy=(installed,), cupy_module=known(module, "the finders"), prefix=known(r"C:\venv", "sys.prefix")
    )
    (found,) = (
        entry
        for entry in findings(snapshot._replace(target=target, environment={"PYTHONPATH": path}))
        if entry.cause is Cause.CUPY_SHADOWED
    )
    assert found.severity is severity


def test_files_of_cupy_without_metadata_are_leftovers_on_windows_too() -> None:
    snapshot = assume(windows(), ["cupy=none"], MATRIX)
    module = r"C:\venv\Lib\site-packages\cupy\__init__.py"
    target = snapshot.target._replace(cupy_module=known(module, "the finders"), prefix=known(r"C:\venv", "sys.prefix"))
    answered = (*snapshot.sources, Source("target", SourceState.ANSWERED))
    (found,) = findings(snapshot._replace(target=target, sources=answered, assumed=()))
    assert found.cause is Cause.CORRUPT_INSTALLATION
    (by_hand,) = (fix for fix in found.fix if "Delete" in fix.text or "delete" in fix.text)
    assert by_hand.text.endswith(r"from C:\venv\Lib\site-packages.")
    assert by_hand.command is None
