"""Images of all three kinds, really built, CuPy in them: what they say of themselves, run as, and leave out."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image import labels
from tests.image.docker.bases import NVIDIA
from tests.image.docker.program import outcome

if TYPE_CHECKING:
    from tests.image.docker.dockerd import Dockerd

pytestmark = pytest.mark.slow
# One builder a kind: a wheels image of CUDA alone takes minutes.
BUILDERS = {"runtime": "buildkit", "devel": "classic", "wheels": "classic"}
CAPABILITIES = ("7.5", "9.0", "12.0")


@pytest.fixture(scope="module", params=BUILDERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def words(kind: str, cuda_bases: dict[str, str]) -> tuple[str, ...]:
    asked = tuple(word for entry in CAPABILITIES for word in ("--compute-capability", entry))
    made = ("--kind", kind, "--cuda", "12.9", "--python", "3.11", "--base", cuda_bases[kind])
    return (*made, *asked, "--builder", BUILDERS[kind], "--tag", f"proven/{kind}:1", "--label", "own.word=x y")


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
    details = [proof["detail"] for proof in built["proofs"] if proof["name"].startswith("library.")]
    place = "/opt/cupy/" if kind == "wheels" else "/usr/local/cuda"
    assert [detail for detail in details if place not in detail] == []


def test_the_labels_are_read_back(built: Any, image: Any) -> None:  # noqa: ANN401
    found = image.attrs["Config"]["Labels"]
    assert set(labels.ALL) <= set(found)
    assert found == built["labels"]
    assert found[labels.COMPUTE_CAPABILITIES] == ",".join(CAPABILITIES)
    assert found[labels.PROOF].startswith("passed: ")
    assert found[labels.LOCK].startswith("sha256:")
    assert found["own.word"] == "x y"
    assert found["org.opencontainers.image.version"] == found[labels.CUPY]


def test_the_user_is_not_root_and_can_fill_the_kernel_cache(image: Any, client: Any) -> None:  # noqa: ANN401
    assert image.attrs["Config"]["User"] == "10001:10001"
    said = run(client, image, "sh", "-c", 'id -u; id -un; echo "$HOME"; touch "$CUPY_CACHE_DIR/x" && echo writable')
    assert said.split() == ["10001", "cupy", "/home/cupy", "writable"]
    assert run(client, image, "sh", "-c", "touch /opt/cupy/x 2>/dev/null || echo refused").strip() == "refused"


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
    there = json.loads(run(client, image, "python", "-m", "pip", "list", "--format=json"))
    told = {part["name"]: part["version"] for part in bill["components"]}
    installed = {entry["name"]: entry["version"] for entry in there if entry["name"] not in ("pip", "setuptools")}
    assert told == installed


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
