"""Builds an image of each kind with CuPy and checks its labels, users, contents and excluded files."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from gpuenv.image import labels
from tests.image.docker.bases import NVIDIA_VARIABLES
from tests.image.docker.program import build_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.image.docker.dockerd import Dockerd

pytestmark = pytest.mark.slow
# One builder per kind: a wheels image with CUDA takes minutes.
BUILDERS = {"runtime": "buildkit", "devel": "classic", "wheels": "classic"}
CAPABILITIES = ("7.5", "9.0", "12.0")
REQUIRED_LABELS = {
    labels.MATRIX,
    labels.LINE,
    labels.CUPY,
    labels.CUDA,
    labels.COMPUTE_CAPABILITIES,
    labels.MINIMUM_DRIVER,
    labels.LOCK,
    labels.LEFT_OUT,
    labels.PROOF,
}


@pytest.fixture(scope="module", params=BUILDERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def arguments(kind: str, cuda_bases: dict[str, str]) -> tuple[str, ...]:
    capabilities = tuple(argument for entry in CAPABILITIES for argument in ("--compute-capability", entry))
    options = ("--kind", kind, "--cuda", "12.9", "--python", "3.11", "--base", cuda_bases[kind])
    packages = ("--package", "packaging<25", "--package", "six==1.16.0")
    libraries = ("--with", "nccl,cutensor") if kind == "runtime" else ()
    return (
        *options,
        *packages,
        *libraries,
        *capabilities,
        "--builder",
        BUILDERS[kind],
        "--tag",
        f"verified/{kind}:1",
        "--label",
        "test.label=x y",
    )


@pytest.fixture(scope="module")
def result(engine: Dockerd, arguments: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    code, report, stderr = build_report(engine.host, *arguments)
    assert code == 0, stderr + str(report)
    return report["images"][0]


@pytest.fixture(scope="module")
def image(result: Any, client: Any) -> Any:  # noqa: ANN401
    return client.images.get(result["tag"])


def run(client: Any, image: Any, *command: str) -> str:  # noqa: ANN401
    return str(client.containers.run(image.id, list(command), remove=True, network_mode="none").decode())


def test_the_verification_runs_in_the_image(result: Any) -> None:  # noqa: ANN401
    proofs = {proof["name"]: proof for proof in result["proofs"]}
    assert result["status"] == "built"
    assert {f"compiled.{entry}" for entry in CAPABILITIES} <= set(proofs)
    assert {f"library.{name}" for name in ("cublas", "cufft", "curand", "cusolver", "cusparse", "nvrtc")} <= set(proofs)
    assert [name for name, proof in proofs.items() if proof["passed"] is not True] == []
    assert proofs["version.nvrtc"]["detail"] == "12.9"


def test_the_kind_decides_where_the_cuda_libraries_are(result: Any, kind: str) -> None:  # noqa: ANN401
    requested = ("library.nccl", "library.cutensor")
    details = [
        proof["detail"]
        for proof in result["proofs"]
        if proof["name"].startswith("library.") and proof["name"] not in requested
    ]
    prefix = "/opt/cupy/" if kind == "wheels" else "/usr/local/cuda"
    assert [detail for detail in details if prefix not in detail] == []


def test_the_report_contains_the_labels_of_the_image(result: Any, image: Any) -> None:  # noqa: ANN401
    found = image.attrs["Config"]["Labels"]
    assert set(found) >= REQUIRED_LABELS
    assert found == result["labels"]
    assert found[labels.COMPUTE_CAPABILITIES] == ",".join(CAPABILITIES)
    assert found[labels.PROOF].startswith("passed: ")
    assert found[labels.LOCK].startswith("sha256:")
    assert found["test.label"] == "x y"
    assert found["org.opencontainers.image.version"] == found[labels.CUPY]


def test_the_user_is_not_root(image: Any, client: Any) -> None:  # noqa: ANN401
    assert image.attrs["Config"]["User"] == "10001:10001"
    assert not image.attrs["Config"]["Entrypoint"]
    assert run(client, image, "sh", "-c", 'id -u; id -un; echo "$HOME"').split() == ["10001", "cupy", "/home/cupy"]


# CuPy's cache before and after a compilation, and a folder in the home as other packages create it.
_SAVE_KERNEL = """
import os, pathlib
from cupy.cuda import compiler
kernels = compiler._kernel_cache_backend
kernels.save("x.cubin", b"code", "source")
assert kernels.load("x.cubin") == b"code"
pathlib.Path.home().joinpath(".config").mkdir()
print(os.getuid(), kernels._cache_dir)
"""
_USERS = {
    "user of the image": {},
    "another user": {"user": "12345"},
    "another user and group": {"user": "12345:12345"},
    "root": {"user": "0:0"},
    "a read-only image": {"read_only": True, "tmpfs": {"/home/cupy": "", "/tmp": ""}},
    "another user in a read-only image": {"user": "12345", "read_only": True, "tmpfs": {"/home/cupy": "", "/tmp": ""}},
}


@pytest.mark.parametrize("options", _USERS.values(), ids=_USERS)
def test_every_user_can_save_a_compiled_kernel(image: Any, client: Any, options: dict[str, Any]) -> None:  # noqa: ANN401
    command = ["python", "-c", _SAVE_KERNEL]
    output = client.containers.run(image.id, command, remove=True, network_mode="none", **options).decode()
    uid = options.get("user", "10001").partition(":")[0]
    assert output.split() == [uid, "/home/cupy/.cupy/kernel_cache"]


@pytest.fixture(scope="module")
def extended_image(image: Any, client: Any) -> Iterator[Any]:  # noqa: ANN401
    """An image that a user builds on the image."""
    lines = f"FROM {image.tags[0]}\nRUN pip install tomli && pip install --upgrade packaging && python -m pip check\n"
    extended, _ = client.images.build(fileobj=io.BytesIO(lines.encode()), tag="extended/test:1", rm=True)
    yield extended
    client.images.remove("extended/test:1", force=True)


@pytest.mark.parametrize("user", [None, "12345", "0"])
def test_a_dockerfile_can_install_more_packages_with_pip(extended_image: Any, client: Any, user: str | None) -> None:  # noqa: ANN401
    code = "import cupy, packaging, tomli; print(tomli.__file__)"
    options = {"user": user} if user else {}
    output = client.containers.run(
        extended_image.id, ["python", "-c", code], remove=True, network_mode="none", **options
    )
    assert output.decode().startswith("/opt/cupy/lib/python3.11/site-packages/tomli/")
    assert extended_image.attrs["Config"]["User"] == "10001:10001"


def test_the_user_owns_only_the_environment_and_the_home(image: Any, client: Any) -> None:  # noqa: ANN401
    command = "find / -xdev -path /proc -prune -o -user 10001 -print"
    found = client.containers.run(image.id, command.split(), user="0", remove=True, network_mode="none").decode()
    assert {"/".join(line.split("/")[:3]) for line in found.splitlines()} == {"/opt/cupy", "/home/cupy"}


def test_requested_packages_and_libraries_are_installed(result: Any, image: Any, client: Any, kind: str) -> None:  # noqa: ANN401
    assert run(client, image, "python", "-c", "import packaging, six; print(six.__version__)").strip() == "1.16.0"
    proofs = {proof["name"]: proof for proof in result["proofs"]}
    assert ({"library.nccl", "library.cutensor", "import.cupyx.cutensor"} <= set(proofs)) is (kind == "runtime")
    if kind == "runtime":
        assert "/opt/cupy/lib/python3.11/site-packages/cutensor/lib" in proofs["library.cutensor"]["detail"]


def test_the_nvidia_variables_of_the_base_are_kept(image: Any, kind: str) -> None:  # noqa: ANN401
    variables = dict(entry.split("=", 1) for entry in image.attrs["Config"]["Env"])
    if kind == "wheels":
        assert variables["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.0"
    else:
        assert variables["NVIDIA_REQUIRE_CUDA"] == NVIDIA_VARIABLES["NVIDIA_REQUIRE_CUDA"]
        assert variables["PATH"] == f"/opt/cupy/bin:{NVIDIA_VARIABLES['PATH']}"
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_the_image_has_no_installer_cache_and_no_health_check(image: Any, client: Any) -> None:  # noqa: ANN401
    command = "find / -xdev ( -path */pip/http* -o -name *.whl -o -path /var/lib/apt/lists/*_Packages ) -print"
    found = str(client.containers.run(image.id, command.split(), user="0", remove=True, network_mode="none").decode())
    assert [line for line in found.splitlines() if "ensurepip" not in line and "python-wheels" not in line] == []
    assert image.attrs["Config"].get("Healthcheck") is None


def test_the_sbom_lists_every_installed_package(image: Any, client: Any) -> None:  # noqa: ANN401
    sbom = json.loads(run(client, image, "cat", "/opt/cupy/sbom.cdx.json"))
    listed = {part["purl"].partition("?")[0] for part in sbom["components"]}
    installed = json.loads(run(client, image, "python", "-m", "pip", "list", "--format=json"))
    wheels = {f"pkg:pypi/{entry['name'].lower()}@{entry['version']}" for entry in installed}
    assert {"pip", "numpy"} <= {entry["name"] for entry in installed}
    assert {entry for entry in listed if entry.startswith("pkg:pypi/")} == wheels
    debian = run(client, image, "dpkg-query", "-W", "-f", "${Package} ${Version}\\n").split("\n")[:-1]
    packages = {f"pkg:deb/debian/{quote(entry.replace(' ', '@'), safe='@:')}" for entry in debian}
    assert {entry for entry in listed if entry.startswith("pkg:deb/")} == packages
    assert len(packages) > 50
    unlicensed = [part["name"] for part in sbom["components"] if "licenses" not in part]
    assert not {"numpy", "pip", "cupy-cuda12x", "dpkg"} & set(unlicensed), unlicensed
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom)) is None


_CHECK_RECORDS = """
import base64, csv, hashlib, importlib.metadata as m
wrong = []
for d in m.distributions():
    for name, recorded, _ in csv.reader((d.read_text("RECORD") or "").splitlines()):
        algorithm, _, expected = recorded.partition("=")
        if algorithm == "sha256" and not name.startswith("../"):
            with open(d.locate_file(name), "rb") as file:
                digest = hashlib.file_digest(file, "sha256").digest()
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != expected:
                wrong.append(name)
print(wrong)
"""


def test_every_file_matches_the_record_of_its_wheel(image: Any, client: Any) -> None:  # noqa: ANN401
    assert run(client, image, "python", "-c", _CHECK_RECORDS).strip() == "[]"
    assert run(client, image, "python", "-m", "pip", "check").strip() == "No broken requirements found."


def test_excluded_files_are_listed_and_absent(image: Any, client: Any, kind: str) -> None:  # noqa: ANN401
    listed = [line.split(" ", 1) for line in run(client, image, "cat", "/opt/cupy/left-out.txt").splitlines()]
    sbom = json.loads(run(client, image, "cat", "/opt/cupy/sbom.cdx.json"))
    groups = {entry["value"] for entry in sbom["metadata"]["component"]["properties"]}
    assert groups == set(image.attrs["Config"]["Labels"][labels.LEFT_OUT].split(","))
    assert any(name.startswith("numpy/") for _, name in listed)
    assert any("libcusolverMg" in name for _, name in listed) is (kind == "wheels")
    code = "import sys, pathlib as p; r = p.Path(sys.prefix, 'lib/python3.11/site-packages'); "
    code += "print([n for n in sys.argv[1:] if (r / n).exists()])"
    assert run(client, image, "python", "-c", code, *(name for _, name in listed)).strip() == "[]"


def test_a_container_stops_promptly(image: Any, client: Any) -> None:  # noqa: ANN401
    """Python as the first process ends on SIGINT at once, but ignores SIGTERM until it is killed."""
    assert image.attrs["Config"]["StopSignal"] == "SIGINT"
    container = client.containers.run(
        image.id, ["python", "-c", "print(1, flush=True); import time; time.sleep(60)"], detach=True
    )
    while not container.logs():
        time.sleep(0.1)
    started = time.monotonic()
    container.stop(timeout=20)
    seconds = time.monotonic() - started
    container.remove()
    assert seconds < 10


def test_a_second_build_uses_the_cache(
    engine: Dockerd,
    arguments: tuple[str, ...],
    result: Any,  # noqa: ANN401
    client: Any,  # noqa: ANN401
) -> None:
    code, report, stderr = build_report(engine.host, *arguments)
    second = report["images"][0]
    assert code == 0, stderr
    assert second["id"] == result["id"]
    bases = stderr.count(": FROM ")
    assert second["cached"] >= second["steps"] - bases, stderr
    assert client.images.get(result["tag"]).id == client.images.get(second["id"]).id
