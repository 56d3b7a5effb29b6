"""Verdicts on images on machines: each rule, on a machine where it finds something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuenv.image import labels
from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.image_report import ImageReport, ImageRequirementStatus, MachineVerdict, report_lines
from gpuenv.image.inspect.rule_context import brands_of
from gpuenv.image.inspect.verdict import judge_machine
from gpuenv.image.rule_registry import all_rules
from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Severity
from gpuenv.model.reading import known
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.snapshot import Gpu, Snapshot
from gpuenv.report.report import Status
from tests.image.admission import rows
from tests.support.matrix import MATRIX
from tests.support.planted_secrets import LONG_URL, shown_parts

NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


def image(cuda: str, *, flavour: str = "devel", **variables: str) -> ImageFacts:
    """An image of nvidia/cuda."""
    row = next(row for row in rows() if row.image == cuda)
    extra = {"base": {}, "runtime": {"NV_CUDA_LIB_VERSION": "1"}, "devel": {"NV_CUDA_CUDART_DEV_VERSION": "1"}}[flavour]
    own = {"CUDA_VERSION": cuda, "NV_CUDA_CUDART_VERSION": f"{cuda}-1", "NVIDIA_REQUIRE_CUDA": row.text}
    maintainer = {"maintainer": "NVIDIA CORPORATION <cudatools@nvidia.com>"}
    return ImageFacts(
        "nvidia/cuda:made", "registry", None, "linux/amd64", (), {**own, **extra, **NVIDIA, **variables}, maintainer
    )


def plain(platform: str = "linux/amd64", image_labels: dict[str, str] | None = None, **variables: str) -> ImageFacts:
    return ImageFacts("python:3.12-slim", "registry", None, platform, (), variables, image_labels or {})


def host(*assumptions: str, brands: tuple[str, ...] = ()) -> Snapshot:
    snapshot = assume(Snapshot(), ("os=linux", "arch=x86_64", *assumptions), MATRIX)
    gpus = tuple(gpu._replace(brand=known(brand, "nvml")) for gpu, brand in zip(snapshot.gpus, brands, strict=False))
    return snapshot._replace(gpus=(*gpus, *snapshot.gpus[len(gpus) :]))


def clock() -> float:
    return 0.0


def verdict(facts: ImageFacts, snapshot: Snapshot) -> MachineVerdict:
    return judge_machine("made", facts, snapshot, MATRIX, clock)


def codes_and_causes(found: MachineVerdict) -> list[tuple[str, str]]:
    return [(each.code, each.cause.value) for each in found.findings if each.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("name", "brands"),
    [
        ("Tesla T4", ("tesla", "nvidia")),  # nvidia-container-toolkit, issue 188: a Tesla T4 of brand NVIDIA
        ("NVIDIA A100-SXM4-80GB", ("tesla", "nvidia")),
        ("NVIDIA GH200 480GB", ("tesla", "nvidia")),
        ("T4", ("tesla", "nvidia")),
        ("NVIDIA GeForce RTX 4090", ("geforce", "geforcertx")),
        ("NVIDIA RTX A6000", ("nvidiartx", "quadrortx")),
        ("NVIDIA T400 4GB", ()),
        ("NVIDIA GB10", ()),
        ("P106-100", ()),
        ("GRID A100-4C", ()),
    ],
)
def test_the_brand_of_a_known_product_name(name: str, brands: tuple[str, ...]) -> None:
    assert brands_of(Gpu(name=known(name, "nvml")))[0] == brands


@pytest.mark.parametrize(
    ("facts", "machine"),
    [
        (image("12.9.1"), ("driver=575.51.03", "gpu=H100")),
        (image("12.9.1"), ("driver=580", "gpu=V100")),
        (image("12.9.1"), ("driver=535", "gpu=A100")),
        (image("12.9.1"), ("driver=580", "gpu=GeForce RTX 4090")),
        (image("12.2.2"), ("driver=535.104.05", "gpu=GeForce RTX 4090")),
        (image("13.0.2"), ("driver=580", "gpu=H100", "gpu=L4")),
        (plain(image_labels={labels.LINE: "cupy-cuda12x", labels.CUPY: "14.2.0"}), ("driver=535", "gpu=H100")),
        (image("12.4.1", NVIDIA_DRIVER_CAPABILITIES="all"), ("driver=550", "gpu=T4")),
        (image("12.4.1", NVIDIA_DRIVER_CAPABILITIES=""), ("driver=550", "gpu=T4")),
    ],
)
def test_an_image_that_runs(facts: ImageFacts, machine: tuple[str, ...]) -> None:
    found = verdict(facts, host(*machine))
    assert (found.status, codes_and_causes(found), found.changes) == (Status.FIT, [], ())


@pytest.mark.parametrize(
    ("facts", "machine", "expected"),
    [
        (image("12.9.1"), ("driver=545", "gpu=H100"), [("IMG902", "image-requires-other-driver")]),
        (image("12.9.1"), ("driver=555", "gpu=H100"), [("IMG902", "image-requires-other-driver")]),
        (image("12.9.1"), ("driver=535", "gpu=GeForce RTX 4090"), [("IMG902", "image-requires-other-driver")]),
        (
            image("12.9.1"),
            ("driver=470", "gpu=A100"),
            [("IMG902", "image-requires-other-driver"), ("IMG903", "driver-too-old-for-cuda")],
        ),
        (image("12.4.1"), ("driver=535", "gpu=GeForce RTX 4090"), [("IMG904", "forward-compat-unsupported")]),
        (
            image("12.4.1", LD_LIBRARY_PATH="/usr/local/cuda/compat:/usr/local/nvidia/lib64"),
            ("driver=580", "gpu=GeForce RTX 4090"),
            [("IMG904", "forward-compat-unsupported")],
        ),
        (
            image("12.4.1", LD_LIBRARY_PATH="/usr/local/cuda/compat", NV_CUDA_COMPAT_PACKAGE="cuda-compat-12-4"),
            ("driver=580", "gpu=H100"),
            [("IMG904", "forward-compat-unsupported")],
        ),
        (image("13.0.2"), ("driver=580", "gpu=V100"), [("IMG905", "gpu-removed-from-toolkit")]),
        (image("12.2.2"), ("driver=580", "gpu=B200"), [("IMG905", "gpu-too-new-for-toolkit")]),
        (
            replace(image("12.2.2"), reference="cupy/cupy:v13.6.0"),
            ("driver=580", "gpu=B200"),
            [("IMG905", "gpu-too-new-for-toolkit")],
        ),
        (
            plain(image_labels={labels.LINE: "cupy-cuda13x", labels.CUPY: "14.2.0"}),
            ("driver=550", "gpu=H100"),
            [("IMG905", "driver-too-old-for-cuda")],
        ),
        (
            plain(image_labels={labels.LINE: "cupy-cuda12x", labels.CUPY: "14.2.0"}, PYTHON_VERSION="3.8.20"),
            ("driver=580", "gpu=H100"),
            [("IMG905", "python-unsupported")],
        ),
        (image("12.9.1"), ("driver=550", "gpu=B200"), [("IMG907", "gpu-too-new-for-driver")]),
        (
            plain("linux/arm64", CUDA_VERSION="12.4.1"),
            ("driver=580", "gpu=H100"),
            [("IMG901", "image-requires-other-driver")],
        ),
        (
            plain("windows/amd64", CUDA_VERSION="12.4.1"),
            ("driver=580", "gpu=H100"),
            [("IMG901", "image-requires-other-driver")],
        ),
        (
            image("12.4.1", NVIDIA_DRIVER_CAPABILITIES="utility"),
            ("driver=580", "gpu=H100"),
            [("IMG911", "container-driver-capabilities")],
        ),
        (
            image("12.4.1", NVIDIA_DRIVER_CAPABILITIES="compute,cuda"),
            ("driver=580", "gpu=H100"),
            [("IMG911", "container-driver-capabilities")],
        ),
        (
            image("12.4.1", CUPY_ACCELERATORS="cub, cutensor"),
            ("driver=580", "gpu=H100"),
            [("IMG918", "cupy-variable-invalid")],
        ),
        (
            image("12.4.1", CUDA_VISIBLE_DEVICES=""),
            ("driver=580", "gpu=H100"),
            [("IMG912", "visible-devices-hide-gpu")],
        ),
        (
            image("12.4.1", LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs"),
            ("driver=580", "gpu=H100"),
            [("IMG913", "library-path-conflict")],
        ),
        (
            replace(image("12.4.1"), history=("RUN apt-get install -y libnvidia-compute-590",)),
            ("driver=580", "gpu=H100"),
            [("IMG914", "driver-library-version-mismatch")],
        ),
        (
            plain(image_labels={labels.MINIMUM_DRIVER: "580.65.06", labels.CUDA: "13.0"}),
            ("driver=575", "gpu=H100"),
            [("IMG903", "driver-too-old-for-cuda"), ("IMG916", "driver-too-old-for-cuda")],
        ),
        (
            plain(image_labels={labels.COMPUTE_CAPABILITIES: "8.0,9.0", labels.CUDA: "12.9"}),
            ("driver=580", "gpu=V100"),
            [("IMG916", "no-kernel-image")],
        ),
        (plain(ROCM_VERSION="6.2"), ("driver=580", "gpu=H100"), [("IMG906", "rocm-mismatch")]),
        (image("12.4.1"), ("driver=none", "gpu=none"), [("GPU201", "no-nvidia-gpu")]),
        (
            image("12.4.1", NVIDIA_REQUIRE_X="driver>>1"),
            ("driver=580", "gpu=H100"),
            [("IMG902", "image-requires-other-driver")],
        ),
    ],
)
def test_an_image_that_does_not_run(
    facts: ImageFacts, machine: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    found = verdict(facts, host(*machine))
    assert codes_and_causes(found) == expected
    assert found.status is Status.UNFIT
    assert [each.primary for each in found.findings].count(True) == 1
    assert found.findings[0].primary
    assert found.changes


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (
            replace(
                image("12.4.1"), history=(f"RUN apt-get install -y libnvidia-compute-590 && curl {LONG_URL.line}",)
            ),
            "IMG914",
        ),
        (image("12.4.1", CUDA_VISIBLE_DEVICES=f"-1,{LONG_URL.line}"), "IMG912"),
        (plain(image_labels={labels.PROOF: f"failed: {LONG_URL.line}", labels.CUDA: "12.9"}), "IMG916"),
    ],
)
def test_a_text_of_an_image_is_not_cut_within_a_secret(facts: ImageFacts, code: str) -> None:
    found = verdict(facts, host("driver=580", "gpu=H100"))
    finding = next(each for each in found.findings if each.code == code)
    assert shown_parts(LONG_URL, hide_secrets(str(finding))) == []
    report = ImageReport("made", "image", found.status, 1, machines=(found,))
    shown = "".join(line.text for line in report_lines(report, verbose=True))
    assert shown_parts(LONG_URL, hide_secrets(shown)) == []


def test_each_gpu_must_meet_the_requirement() -> None:
    machine = host("driver=535", "gpu=A100", "gpu=GeForce RTX 4090")
    found = verdict(image("12.9.1"), machine)
    assert [entry.status for entry in found.requirements] == [ImageRequirementStatus.MET, ImageRequirementStatus.UNMET]
    assert any("only the GPUs that it allows: NVIDIA A100" in fix.text for fix in found.findings[0].fix)


def test_the_brand_of_nvml_takes_precedence_over_the_name() -> None:
    machine = ("driver=535", "gpu=RTX A6000")
    assert verdict(image("12.9.1"), host(*machine, brands=("nvidiartx",))).status is Status.FIT
    assert verdict(image("12.9.1"), host(*machine, brands=("geforce",))).status is Status.UNFIT


def test_an_unknown_driver_gives_an_unknown_verdict() -> None:
    found = verdict(image("12.9.1"), host())
    assert found.status is Status.UNKNOWN
    assert any("NVIDIA_REQUIRE_CUDA" in text for text in found.unknown)


def test_an_image_without_gpu_software_is_fit_with_a_note() -> None:
    found = verdict(plain(), host("driver=580", "gpu=H100"))
    assert (found.status, [each.code for each in found.findings]) == (Status.FIT, ["IMG917"])
    assert verdict(plain(), host("driver=none", "gpu=none")).status is Status.UNKNOWN


def test_cupy_is_found_in_the_history() -> None:
    step = 'RUN /bin/sh -c pip install "cupy-cuda13x[ctk]==14.2.0" # buildkit'
    facts = replace(plain(), history=(step,))
    assert codes_and_causes(verdict(facts, host("driver=550", "gpu=H100"))) == [("IMG905", "driver-too-old-for-cuda")]
    assert verdict(facts, host("driver=580", "gpu=H100")).status is Status.FIT
    bundled = replace(image("12.2.2", flavour="base"), history=(step.replace("13x", "12x"),))
    assert ("IMG905", "gpu-too-new-for-toolkit") not in codes_and_causes(
        verdict(bundled, host("driver=580", "gpu=B200"))
    )


def test_a_requirement_that_is_switched_off_is_a_note() -> None:
    found = verdict(image("12.9.1", NVIDIA_DISABLE_REQUIRE="true"), host("driver=545", "gpu=H100"))
    assert found.status is Status.FIT
    assert [each.code for each in found.findings] == ["IMG915"]
    assert "would not be met" in found.findings[0].title
    old = verdict(image("12.9.1", NVIDIA_DISABLE_REQUIRE="1"), host("driver=470", "gpu=H100"))
    assert ("IMG903", "driver-too-old-for-cuda") in codes_and_causes(old)


def test_minor_version_compatibility_is_a_fix() -> None:
    (finding,) = verdict(image("12.9.1"), host("driver=545", "gpu=H100")).findings
    assert any("NVIDIA_DISABLE_REQUIRE" in fix.text for fix in finding.fix)
    first, _ = verdict(image("12.9.1"), host("driver=470", "gpu=A100")).findings
    assert not any("NVIDIA_DISABLE_REQUIRE" in fix.text for fix in first.fix)
    assert any(entry.fact == "enforced" and "CDI" in entry.value for entry in first.evidence)


def test_forward_compatibility_helps_a_data_centre_gpu() -> None:
    found = verdict(image("12.1.1"), host("driver=470.57.02", "gpu=A100"))
    assert found.status is Status.DEGRADED
    assert codes_and_causes(found) == [("IMG903", "driver-too-old-for-cuda")]


def test_an_orin_needs_its_own_images() -> None:
    machine = assume(Snapshot(), ("os=linux", "arch=aarch64", "driver=540", "gpu=Orin"), MATRIX)
    facts = replace(image("12.6.1"), platform="linux/arm64")
    assert ("IMG906", "jetson-tegra") in codes_and_causes(verdict(facts, machine))


def test_every_rule_explains_itself() -> None:
    assert {tuple(rule.sections) for rule in all_rules()} == {("What it means", "How it is seen", "What to do")}
    texts = [(rule.code, text) for rule in all_rules() for text in (rule.title, *rule.sections.values())]
    assert [(code, text) for code, text in texts if not text.endswith(".")] == []


def test_every_rule_has_a_test() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("*.py"))
    assert [rule.code for rule in all_rules() if rule.code not in tests] == []
