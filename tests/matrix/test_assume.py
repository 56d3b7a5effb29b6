"""Every key of --assume, its spellings, and the messages for invalid facts."""

from __future__ import annotations

import pytest

from gpuenv.matrix.assume import AssumeError, assume
from gpuenv.matrix.tables import Matrix
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import AmdGpu, Container, Snapshot
from tests.cli.snapshots import FIT


def _assume(matrix: Matrix, *facts: str) -> Snapshot:
    return assume(Snapshot(), facts, matrix)


def test_host_facts_are_normalized(matrix: Matrix) -> None:
    host = _assume(matrix, "os=Linux", "arch=amd64", "libc=glibc=2.36", "container=yes", "wsl=no").host
    assert (host.os.value, host.arch.value, str(host.libc.value)) == ("linux", "x86_64", "glibc-2.36")
    assert host.container.value is Container.OTHER
    assert host.wsl.value is False
    assert host.os.source == "assumed"


@pytest.mark.parametrize(("text", "name"), [("macOS", "darwin"), ("win32", "windows"), ("Windows", "windows")])
def test_an_operating_system_has_several_spellings(matrix: Matrix, text: str, name: str) -> None:
    assert _assume(matrix, f"os={text}").host.os.value == name


def test_a_driver_version_implies_its_cuda_level(matrix: Matrix) -> None:
    driver = _assume(matrix, "driver=535.104.05").driver
    assert str(driver.version.value) == "535.104.05"
    assert driver.branch.value == 535
    assert str(driver.cuda.value) == "12.2"


def test_a_bare_branch_means_its_first_release(matrix: Matrix) -> None:
    assert str(_assume(matrix, "driver=580").driver.version.value) == "580.65.06"


@pytest.mark.parametrize(
    "order", [("driver=535.104.05", "driver-cuda=13.0"), ("driver-cuda=13.0", "driver=535.104.05")]
)
def test_an_assumed_cuda_level_overrides_the_drivers_in_either_order(order: tuple[str, str], matrix: Matrix) -> None:
    assert str(_assume(matrix, *order).driver.cuda.value) == "13.0"


def test_repeated_gpus_are_all_assumed(matrix: Matrix) -> None:
    gpus = _assume(matrix, "gpu=V100", "gpu=h100").gpus
    assert [str(gpu.compute_capability.value) for gpu in gpus] == ["7.0", "9.0"]


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("V100", "7.0"),
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("rtx 5090", "12.0"),
        ("NVIDIA GeForce RTX 4090", "8.9"),
        ("GTX 1080 Ti", "6.1"),
        ("K80", "3.7"),
        ("T4", "7.5"),
        ("A100", "8.0"),
        ("GTX 980", "5.2"),
        ("L4", "8.9"),
        ("GB200", "10.0"),
        ("P100", "6.0"),
        ("rtx4090", "8.9"),
        ("GTX1080Ti", "6.1"),
        ("2080ti", "7.5"),
        ("A100 80GB", "8.0"),
        ("H100 SXM5", "9.0"),
        ("RTX 6000 Ada", "8.9"),
        ("Quadro RTX 6000", "7.5"),
    ],
)
def test_a_product_name_determines_the_compute_capability(name: str, capability: str, matrix: Matrix) -> None:
    assert str(_assume(matrix, f"gpu={name}").gpus[0].compute_capability.value) == capability


@pytest.mark.parametrize(
    ("name", "product", "gfx"),
    [
        ("MI300X", "AMD Instinct MI300X", "gfx942"),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X", "gfx942"),
        ("mi250x", "AMD Instinct MI250X", "gfx90a"),
        ("Radeon RX 7900 XTX", "AMD Radeon RX 7900 XTX", "gfx1100"),
        ("7900xt", "AMD Radeon RX 7900 XT", "gfx1100"),
        ("W7900", "AMD Radeon PRO W7900", "gfx1100"),
        ("RX 6700", "AMD Radeon RX 6700", "gfx1031"),
        ("Radeon 740M", "AMD Radeon 740M", "gfx1103"),
    ],
)
def test_an_amd_product_has_a_target(name: str, product: str, gfx: str, matrix: Matrix) -> None:
    snapshot = _assume(matrix, f"gpu={name}")
    assert snapshot.amd_gpus == (AmdGpu(0, product, gfx),)
    assert (snapshot.gpus, snapshot.gpu_count.value) == ((), 0)


def test_names_of_nvidia_products_stay_theirs(matrix: Matrix) -> None:
    assert _assume(matrix, "gpu=740M").gpus[0].name.value == "GeForce GT 740M"
    both = _assume(matrix, "gpu=H100", "gpu=MI100")
    assert (len(both.gpus), len(both.amd_gpus)) == (1, 1)


def test_the_target_and_the_rocm_of_an_amd_gpu_are_assumed(matrix: Matrix) -> None:
    snapshot = _assume(matrix, "gfx=gfx942", "rocm=7.0.2", "gpu-count=8")
    assert {gpu.gfx for gpu in snapshot.amd_gpus} == {"gfx942"}
    assert (len(snapshot.amd_gpus), snapshot.rocm.value) == (8, "7.0.2")
    assert not _assume(matrix, "gpu=MI300X", "rocm=none").rocm.known


def test_gpu_count_memory_and_capability_are_parsed(matrix: Matrix) -> None:
    snapshot = _assume(matrix, "gpu=H100", "gpu-count=8", "gpu-memory=80GiB")
    assert len(snapshot.gpus) == 8
    assert snapshot.gpus[7].memory_total.value == 80 * 2**30
    assert str(_assume(matrix, "compute-capability=sm_70").gpus[0].compute_capability.value) == "7.0"


def test_facts_of_the_target_are_parsed(matrix: Matrix) -> None:
    target = _assume(matrix, "python=3.14t", "cupy=cupy-cuda12x==14.2.0", "numpy=2.1.0", "package.torch=2.9.0").target
    assert str(target.python.value) == "3.14t"
    assert [(entry.distribution, entry.release) for entry in target.cupy] == [("cupy-cuda12x", "14.2.0")]
    assert target.numpy.value == "2.1.0"
    assert target.packages["torch"] == "2.9.0"


def test_none_means_absent(matrix: Matrix) -> None:
    snapshot = _assume(matrix, "driver=none", "gpu=none", "cupy=none", "toolkit=none")
    assert not snapshot.driver.version.known
    assert snapshot.gpus == ()
    assert snapshot.pci_gpus == ()
    assert snapshot.target.cupy == ()
    assert {"driver.version", "gpus", "target.cupy", "toolkits"} <= set(snapshot.assumed)


def test_environment_variables_are_set_and_removed(matrix: Matrix) -> None:
    snapshot = _assume(matrix, "env.CUDA_VISIBLE_DEVICES=-1")
    assert snapshot.environment == {"CUDA_VISIBLE_DEVICES": "-1"}
    assert assume(snapshot, ["env.CUDA_VISIBLE_DEVICES="], matrix).environment == {"CUDA_VISIBLE_DEVICES": ""}
    assert assume(snapshot, ["env.CUDA_VISIBLE_DEVICES=none"], matrix).environment == {}
    mounted = assume(snapshot, ["env.NVIDIA_VISIBLE_DEVICES=none"], matrix).environment
    assert mounted["NVIDIA_VISIBLE_DEVICES"] == "none"


@pytest.mark.parametrize(("value", "count"), [("0", 1), ("1,0", 2), ("0,7,1", 1), ("-1", 0), ("", 0), ("GPU-1", 0)])
def test_an_assumed_variable_hides_assumed_gpus(value: str, count: int, matrix: Matrix) -> None:
    snapshot = _assume(matrix, "gpu=V100", "gpu=H100", f"env.CUDA_VISIBLE_DEVICES={value}")
    assert snapshot.visible_count.value == count


@pytest.mark.parametrize(
    "requirement",
    ["cupy-cuda12x[ctk]==14.2.0", 'cupy_cuda12x == 14.2.0 ; platform_system == "Linux"', "CuPy-CUDA12x===14.2.0"],
)
def test_cupy_may_be_given_as_a_requirement(requirement: str, matrix: Matrix) -> None:
    target = _assume(matrix, f"cupy={requirement}").target
    assert [(entry.distribution, entry.release) for entry in target.cupy] == [("cupy-cuda12x", "14.2.0")]


def test_a_second_cupy_is_given_as_a_package(matrix: Matrix) -> None:
    target = _assume(matrix, "cupy=cupy_cuda12x == 14.2.0", "package.CuPy_CUDA13x=14.2.0").target
    assert [entry.distribution for entry in target.cupy] == ["cupy-cuda12x", "cupy-cuda13x"]


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ("drvier=580", "did you mean driver?"),
        ("driver", "expected KEY=VALUE"),
        ("driver=new", "is no driver version"),
        ("gpu=H1000", "no GPU named 'H1000' is known; did you mean h100"),
        ("gpu=MI300", "did you mean mi300x or mi300a"),
        ("gpu=Radeon RX 7900 XTY", "did you mean rx 7900 xt or rx 7900 xtx"),
        ("gpu=Radeon PRO", "is ambiguous: AMD Radeon"),
        ("gfx=942", "expected the target of an AMD GPU, such as gfx942"),
        ("rocm=seven", "expected a release of ROCm, such as 7.0, or none"),
        ("gpu-count=-1", "expected an integer"),
        ("gpu-memory=lots", "expected a size like 80GiB"),
        ("os=beos", "expected one of linux"),
        ("cupy=numpy==1.0", "expected a distribution of CuPy"),
        ("cupy=cupy-cuda12x", "expected a distribution of CuPy"),
        ("cupy=cupy-cuda12x=14.2.0", "expected a distribution of CuPy"),
        ("cupy=cupy-cuda12x[ctk]>=13,<14", "a range is not a fact: use preflight --require 'cupy<14,>=13'"),
        ("cupy=cupy-cuda12x==13.*", "a range is not a fact"),
        ("wsl=maybe", "expected yes or no"),
        ("numpy=new", "expected a version"),
        ("gpu-memory=-5GiB", "expected a size"),
        ("gpu-memory=80", "expected a size with its unit"),
        ("env.=x", "expected the name of a variable"),
        ("package.=1", "expected the name of a distribution"),
        ("package.a b=1", "expected the name of a distribution"),
        ("glibc=new", "is no C library"),
    ],
)
def test_an_invalid_fact_is_reported_with_a_hint(fact: str, message: str, matrix: Matrix) -> None:
    with pytest.raises(AssumeError) as caught:
        _assume(matrix, fact)
    assert message in str(caught.value)
    assert fact in str(caught.value)


@pytest.mark.parametrize(
    "facts",
    [
        ("gpu=none", "gpu=V100"),
        ("gpu=none", "gpu-count=2"),
        ("gpu=none", "gfx=gfx942"),
        ("compute-capability=7.0", "gpu=None"),
        ("gpu-count=00", "gpu=V100"),
        ("gpu-memory=80GiB", "gpu-count=0"),
    ],
)
def test_gpu_facts_contradict_an_absent_gpu(facts: tuple[str, ...], matrix: Matrix) -> None:
    with pytest.raises(AssumeError, match="contradicts"):
        _assume(matrix, *facts)


@pytest.mark.parametrize("amd", ["gpu=MI300X", "gfx=gfx942"])
@pytest.mark.parametrize("nvidia", ["compute-capability=9.0", "gpu-memory=80GiB"])
def test_facts_of_nvidia_gpus_contradict_an_amd_gpu(amd: str, nvidia: str, matrix: Matrix) -> None:
    for facts in ((amd, nvidia), (nvidia, amd)):
        with pytest.raises(AssumeError, match=f"{nvidia}: contradicts {amd}, a GPU of AMD's"):
            _assume(matrix, *facts)


def test_a_compute_capability_is_that_of_the_nvidia_gpu_beside_an_amd_gpu(matrix: Matrix) -> None:
    snapshot = _assume(matrix, "gpu=MI300X", "gpu=H100", "compute-capability=9.0")
    assert len(snapshot.gpus) == len(snapshot.amd_gpus) == 1


def test_none_may_be_repeated(matrix: Matrix) -> None:
    assert _assume(matrix, "gpu=none", "gpu=none", "gpu-count=0").gpus == ()


@pytest.mark.parametrize(
    ("fact", "family"),
    [
        ("libc=glibc-2.36", "glibc"),
        ("libc=glibc=2.36", "glibc"),
        ("glibc=2.36", "glibc"),
        ("musl=1.2", "musl"),
        ("libc=musl=1.2", "musl"),
    ],
)
def test_a_c_library_has_several_spellings(fact: str, family: str, matrix: Matrix) -> None:
    snapshot = _assume(matrix, fact)
    assert snapshot.host.libc.value is not None
    assert snapshot.host.libc.value.family == family
    assert snapshot.assumed == ("host.libc",)


def test_a_removed_variable_hides_no_gpu(matrix: Matrix) -> None:
    hidden = _assume(matrix, "gpu=V100", "env.CUDA_VISIBLE_DEVICES=-1")
    assert (
        hidden.visible_count.value,
        assume(hidden, ["env.CUDA_VISIBLE_DEVICES=none"], matrix).visible_count.value,
    ) == (
        0,
        1,
    )


def test_another_operating_system_removes_facts_of_the_former_one(matrix: Matrix) -> None:
    linux = FIT._replace(host=FIT.host._replace(tegra=known("36.4", "/etc/nv_tegra_release")))
    host = assume(linux, ["arch=aarch64", "os=Windows"], matrix).host
    assert (host.os.value, host.arch.value) == ("windows", "aarch64")
    assert (host.libc.known, host.distribution.known, host.kernel.known, host.tegra.known) == (False,) * 4
    assert assume(linux, ["os=linux"], matrix).host.libc == linux.host.libc  # the same system keeps it
    assert str(
        assume(assume(linux, ["os=windows"], matrix), ["libc=musl-1.2", "os=linux"], matrix).host.libc.value
    ) == ("musl-1.2")
    pasted = linux._replace(host=linux.host._replace(os=Reading()))
    assert not assume(pasted, ["os=windows"], matrix).host.libc.known
    assert assume(pasted, ["os=linux"], matrix).host.libc.known


def test_windows_has_no_c_library_fact(matrix: Matrix) -> None:
    snapshot = _assume(matrix, "os=windows", "glibc=2.36")
    assert not snapshot.host.libc.known
    assert snapshot.assumed == ("host.os",)


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ("V100,H100", "pass each GPU separately"),
        ("V100+H100", "pass each GPU separately"),
        ("RTX 6000", "use the full name"),
    ],
)
def test_an_ambiguous_gpu_name_lists_each_candidate_once(matrix: Matrix, names: str, hint: str) -> None:
    with pytest.raises(AssumeError, match=hint) as caught:
        _assume(matrix, f"gpu={names}")
    candidates = str(caught.value).split("is ambiguous: ")[1].split("; ")[0].split(", ")
    assert len(candidates) == len(set(candidates)) >= 2
