"""Images of all three kinds, really built, CuPy in them: what they say of themselves, run as, and leave out."""

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
from tests.image.docker.bases import NVIDIA
from tests.image.docker.program import outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.image.docker.dockerd import Dockerd

pytestmark = pytest.mark.slow
# One builder a kind: a wheels image of CUDA alone takes minutes.
BUILDERS = {"runtime": "buildkit", "devel": "classic", "wheels": "classic"}
CAPABILITIES = ("7.5", "9.0", "12.0")
ALWAYS = {labels.MATRIX, labels.LINE, labels.CUPY, labels.CUDA, labels.COMPUTE_CAPABILITIES, labels.MINIMUM_DRIVER}
ALWAYS |= {labels.LOCK, labels.LEFT_OUT, labels.PROOF}


@pytest.fixture(scope="module", params=BUILDERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def words(kind: str, cuda_bases: dict[str, str]) -> tuple[str, ...]:
    asked = tuple(word for entry in CAPABILITIES for word in ("--compute-capability", entry))
    made = ("--kind", kind, "--cuda", "12.9", "--python", "3.11", "--base", cuda_bases[kind])
    added = ("--package", "packaging<25", "--package", "six==1.16.0")
    libraries = ("--with", "nccl,cutensor") if kind == "runtime" else ()
    return (
        *made,
        *added,
        *libraries,
        *asked,
        "--builder",
        BUILDERS[kind],
        "--tag",
        f"proven/{kind}:1",
        "--label",
        "own.word=x y",
    )


@pytest.fixture(scope="module")
def built(engine: Dockerd, words: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    code, told, said = outcome(engine.host, *words)
    assert code == 0, said + str(told)
    return told["images"][0]


@pytest.fixture(scope="module")
def image(built: Any, client: Any) -> Any:  # noqa: ANN401
    return client.images.get(built["tag"])


def run(client: Any, image: Any, *command: str) -> str:  # noqa: ANN401
    return str(client.containers.run(image.id, list(command), remove=True, network_mode="none").decode())


def test_the_payload_has_run_inside(built: Any) -> None:  # noqa: ANN401
    proofs = {proof["name"]: proof for proof in built["proofs"]}
    assert built["status"] == "built"
    assert {f"compiled.{entry}" for entry in CAPABILITIES} <= set(proofs)
    assert {f"library.{name}" for name in ("cublas", "cufft", "curand", "cusolver", "cusparse", "nvrtc")} <= set(proofs)
    assert [name for name, proof in proofs.items() if proof["passed"] is not True] == []
    assert proofs["version.nvrtc"]["detail"] == "12.9"


def test_the_libraries_come_from_where_the_kind_says(built: Any, kind: str) -> None:  # noqa: ANN401
    added = ("library.nccl", "library.cutensor")
    details = [
        proof["detail"]
        for proof in built["proofs"]
        if proof["name"].startswith("library.") and proof["name"] not in added
    ]
    place = "/opt/cupy/" if kind == "wheels" else "/usr/local/cuda"
    assert [detail for detail in details if place not in detail] == []


def test_the_labels_are_read_back(built: Any, image: Any) -> None:  # noqa: ANN401
    found = image.attrs["Config"]["Labels"]
    assert set(found) >= ALWAYS
    assert found == built["labels"]
    assert found[labels.COMPUTE_CAPABILITIES] == ",".join(CAPABILITIES)
    assert found[labels.PROOF].startswith("passed: ")
    assert found[labels.LOCK].startswith("sha256:")
    assert found["own.word"] == "x y"
    assert found["org.opencontainers.image.version"] == found[labels.CUPY]


def test_the_user_is_not_root(image: Any, client: Any) -> None:  # noqa: ANN401
    assert image.attrs["Config"]["User"] == "10001:10001"
    assert not image.attrs["Config"]["Entrypoint"]
    assert run(client, image, "sh", "-c", 'id -u; id -un; echo "$HOME"').split() == ["10001", "cupy", "/home/cupy"]


# What CuPy does before and after it compiles a kernel, and what other packages do with a home.
_KEEPING = """
import os, pathlib
from cupy.cuda import compiler
kernels = compiler._kernel_cache_backend
kernels.save("x.cubin", b"code", "source")
assert kernels.load("x.cubin") == b"code"
pathlib.Path.home().joinpath(".config").mkdir()
print(os.getuid(), kernels._cache_dir)
"""
_USERS = {
    "the image's": {},
    "another": {"user": "12345"},
    "another and its group": {"user": "12345:12345"},
    "root": {"user": "0:0"},
    "a read-only image": {"read_only": True, "tmpfs": {"/home/cupy": "", "/tmp": ""}},
    "another in a read-only image": {"user": "12345", "read_only": True, "tmpfs": {"/home/cupy": "", "/tmp": ""}},
}


@pytest.mark.parametrize("options", _USERS.values(), ids=_USERS)
def test_every_user_can_keep_a_kernel(image: Any, client: Any, options: dict[str, Any]) -> None:  # noqa: ANN401
    command = ["python", "-c", _KEEPING]
    said = client.containers.run(image.id, command, remove=True, network_mode="none", **options).decode()
    uid = options.get("user", "10001").partition(":")[0]
    assert said.split() == [uid, "/home/cupy/.cupy/kernel_cache"]


@pytest.fixture(scope="module")
def extended(image: Any, client: Any) -> Iterator[Any]:  # noqa: ANN401
    """What a user builds on the image."""
    lines = f"FROM {image.tags[0]}\nRUN pip install tomli && pip install --upgrade packaging && python -m pip check\n"
    made, _ = client.images.build(fileobj=io.BytesIO(lines.encode()), tag="extended/it:1", rm=True)
    yield made
    client.images.remove("extended/it:1", force=True)


@pytest.mark.parametrize("user", [None, "12345", "0"])
def test_a_dockerfile_that_installs_more_with_pip_just_works(extended: Any, client: Any, user: str | None) -> None:  # noqa: ANN401
    code = "import cupy, packaging, tomli; print(tomli.__file__)"
    options = {"user": user} if user else {}
    said = client.containers.run(extended.id, ["python", "-c", code], remove=True, network_mode="none", **options)
    assert said.decode().startswith("/opt/cupy/lib/python3.11/site-packages/tomli/")
    assert extended.attrs["Config"]["User"] == "10001:10001"


def test_nothing_but_the_environment_and_the_home_is_the_users(image: Any, client: Any) -> None:  # noqa: ANN401
    look = "find / -xdev -path /proc -prune -o -user 10001 -print"
    found = client.containers.run(image.id, look.split(), user="0", remove=True, network_mode="none").decode()
    assert {"/".join(line.split("/")[:3]) for line in found.splitlines()} == {"/opt/cupy", "/home/cupy"}


def test_added_packages_and_libraries_are_there(built: Any, image: Any, client: Any, kind: str) -> None:  # noqa: ANN401
    assert run(client, image, "python", "-c", "import packaging, six; print(six.__version__)").strip() == "1.16.0"
    proofs = {proof["name"]: proof for proof in built["proofs"]}
    assert ({"library.nccl", "library.cutensor", "import.cupyx.cutensor"} <= set(proofs)) is (kind == "runtime")
    if kind == "runtime":
        assert "/opt/cupy/lib/python3.11/site-packages/cutensor/lib" in proofs["library.cutensor"]["detail"]


def test_what_the_base_says_to_the_toolkit_is_kept(image: Any, kind: str) -> None:  # noqa: ANN401
    variables = dict(entry.split("=", 1) for entry in image.attrs["Config"]["Env"])
    if kind == "wheels":
        assert variables["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.0"
    else:
        assert variables["NVIDIA_REQUIRE_CUDA"] == NVIDIA["NVIDIA_REQUIRE_CUDA"]
        assert variables["PATH"] == f"/opt/cupy/bin:{NVIDIA['PATH']}"
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_no_cache_of_an_installer_and_no_health_check(image: Any, client: Any) -> None:  # noqa: ANN401
    look = "find / -xdev ( -path */pip/http* -o -name *.whl -o -path /var/lib/apt/lists/*_Packages ) -print"
    found = str(client.containers.run(image.id, look.split(), user="0", remove=True, network_mode="none").decode())
    assert [line for line in found.splitlines() if "ensurepip" not in line and "python-wheels" not in line] == []
    assert image.attrs["Config"].get("Healthcheck") is None


def test_the_bill_of_materials_names_what_is_there(image: Any, client: Any) -> None:  # noqa: ANN401
    bill = json.loads(run(client, image, "cat", "/opt/cupy/sbom.cdx.json"))
    told = {part["purl"].partition("?")[0] for part in bill["components"]}
    there = json.loads(run(client, image, "python", "-m", "pip", "list", "--format=json"))
    wheels = {f"pkg:pypi/{entry['name'].lower()}@{entry['version']}" for entry in there}
    assert {"pip", "numpy"} <= {entry["name"] for entry in there}
    assert {entry for entry in told if entry.startswith("pkg:pypi/")} == wheels
    installed = run(client, image, "dpkg-query", "-W", "-f", "${Package} ${Version}\\n").split("\n")[:-1]
    packages = {f"pkg:deb/debian/{quote(entry.replace(' ', '@'), safe='@:')}" for entry in installed}
    assert {entry for entry in told if entry.startswith("pkg:deb/")} == packages
    assert len(packages) > 50
    without = [part["name"] for part in bill["components"] if "licenses" not in part]
    assert not {"numpy", "pip", "cupy-cuda12x", "dpkg"} & set(without), without
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None


_RECORDS = """
import base64, csv, hashlib, importlib.metadata as m
wrong = []
for d in m.distributions():
    for name, told, _ in csv.reader((d.read_text("RECORD") or "").splitlines()):
        kind, _, wanted = told.partition("=")
        if kind == "sha256" and not name.startswith("../"):
            with open(d.locate_file(name), "rb") as file:
                made = hashlib.file_digest(file, "sha256").digest()
            if base64.urlsafe_b64encode(made).decode().rstrip("=") != wanted:
                wrong.append(name)
print(wrong)
"""


def test_every_file_is_as_its_wheel_s_record_has_it(image: Any, client: Any) -> None:  # noqa: ANN401
    assert run(client, image, "python", "-c", _RECORDS).strip() == "[]"
    assert run(client, image, "python", "-m", "pip", "check").strip() == "No broken requirements found."


def test_what_is_left_out_is_said(image: Any, client: Any, kind: str) -> None:  # noqa: ANN401
    listed = [line.split(" ", 1) for line in run(client, image, "cat", "/opt/cupy/left-out.txt").splitlines()]
    bill = json.loads(run(client, image, "cat", "/opt/cupy/sbom.cdx.json"))
    told = {entry["value"] for entry in bill["metadata"]["component"]["properties"]}
    assert told == set(image.attrs["Config"]["Labels"][labels.LEFT_OUT].split(","))
    assert any(name.startswith("numpy/") for _, name in listed)
    assert any("libcusolverMg" in name for _, name in listed) is (kind == "wheels")
    code = "import sys, pathlib as p; r = p.Path(sys.prefix, 'lib/python3.11/site-packages'); "
    there = "print([n for n in sys.argv[1:] if (r / n).exists()])"
    assert run(client, image, "python", "-c", code + there, *(name for _, name in listed)).strip() == "[]"


def test_it_stops_when_it_is_asked_to(image: Any, client: Any) -> None:  # noqa: ANN401
    """Python as the first process ends on SIGINT at once; SIGTERM it would sit out until it is killed."""
    assert image.attrs["Config"]["StopSignal"] == "SIGINT"
    container = client.containers.run(
        image.id, ["python", "-c", "print(1, flush=True); import time; time.sleep(60)"], detach=True
    )
    while not container.logs():
        time.sleep(0.1)
    started = time.monotonic()
    container.stop(timeout=20)
    took = time.monotonic() - started
    container.remove()
    assert took < 10


def test_a_second_build_comes_out_of_the_cache(
    engine: Dockerd,
    words: tuple[str, ...],
    built: Any,  # noqa: ANN401
    client: Any,  # noqa: ANN401
) -> None:
    code, told, said = outcome(engine.host, *words)
    again = told["images"][0]
    assert code == 0, said
    assert again["id"] == built["id"]
    bases = said.count(": FROM ")
    assert again["cached"] >= again["steps"] - bases, said
    assert client.images.get(built["tag"]).id == client.images.get(again["id"]).id
