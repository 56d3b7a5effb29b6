"""Lock files: their contents, exact installs from them, and refused ones."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpuenv.files import parse_toml
from gpuenv.install.lockfile import parse_pylock
from tests.cli.program import run_gpuenv
from tests.install.sandbox import LIMIT, MACHINE, Index, Sandbox, contents, versions
from tests.install.snapshots import write_snapshot
from tests.install.test_install import NEW
from tests.install.wheels import SET, cupy

OLDER = {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"}
PYLOCK_ENTRY = """
[[packages]]
name = "{name}"
version = "{release}"
marker = "{marker}"
wheels = [{{url = "https://example.org/x-1-{tags}.whl", hashes = {{sha256 = "{digest}"}}}}]
"""


def _pylock(tags: str = "py3-none-any", head: str = "") -> str:
    entry = PYLOCK_ENTRY.format(name="numpy", release="1", marker="", digest="0" * 64, tags=tags)
    return f"lock-version='1.0'\n{head}\n{entry}"


def test_a_lock_reads_the_same_in_gpuenv_and_packaging(sandbox: Sandbox, tmp_path: Path) -> None:
    pylock = pytest.importorskip("packaging.pylock", reason="packaging does not read PEP 751")
    file = tmp_path / "pylock.toml"
    result = sandbox.gpuenv("lock", "--python", sandbox.target("oracle"), *MACHINE, "-o", file)
    assert result.returncode == 0, result.stderr
    text = file.read_text(encoding="utf-8")
    expected = {
        (package.name, str(package.version), frozenset(wheel.hashes["sha256"] for wheel in package.wheels))
        for package in pylock.Pylock.from_dict(parse_toml(text)).packages
    }
    assert {(pin.name, pin.release, frozenset(pin.sha256)) for pin in parse_pylock(text)} == expected
    assert {name: release for name, release, _ in expected} == NEW


@pytest.mark.parametrize("form", ["pylock", "requirements"])
def test_an_install_from_a_lock_is_exact(sandbox: Sandbox, tmp_path: Path, form: str) -> None:
    target = sandbox.target("locked")
    file = tmp_path / ("pylock.toml" if form == "pylock" else "locked.txt")
    result = sandbox.gpuenv("lock", "--python", target, *MACHINE, "--format", form, "-o", file)
    assert result.returncode == 0, result.stderr
    assert not (target / ".gpuenv").exists()
    address = sandbox.index.address.partition("/")[0]
    assert (address in file.read_text(encoding="utf-8")) == (form == "pylock")
    requests = len(sandbox.index.requests)
    result = sandbox.install(target, "--locked", file)
    assert result.returncode == 0, result.stderr
    assert versions(target) == NEW
    assert len(sandbox.index.requests) > requests, "the wheels came from the index"


def test_pip_writes_locks_as_requirements_only(sandbox: Sandbox) -> None:
    target = sandbox.target("pip-locked", pip=True)
    command = ("lock", "--python", target, *MACHINE, "--installer", "pip")
    result = sandbox.gpuenv(*command, "--format", "requirements")
    assert result.returncode == 0, result.stderr
    for name, release in NEW.items():
        assert f"{name}=={release} \\\n    --hash=sha256:" in result.stdout
    requests = len(sandbox.index.requests)
    refused = sandbox.gpuenv(*command)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--format requirements" in refused.stderr
    assert len(sandbox.index.requests) == requests, "refused before pip starts"


def test_a_lock_overrides_the_resolver(sandbox: Sandbox, tmp_path: Path) -> None:
    other = sandbox.target("older", "numpy==1.26.4")
    file = tmp_path / "pylock.toml"
    assert sandbox.gpuenv("lock", "--python", other, *MACHINE, "-o", file).returncode == 0
    target = sandbox.target("fresh")
    assert sandbox.install(target, "--locked", file).returncode == 0
    assert versions(target) == OLDER


def test_a_lock_with_a_wrong_digest_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    target = sandbox.target("changed")
    file = tmp_path / "locked.txt"
    sandbox.gpuenv("lock", "--python", target, *MACHINE, "--format", "requirements", "-o", file)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("--hash=sha256:", "--hash=sha256:0000", 1)[:-5] + "\n", encoding="utf-8")
    before = contents(target)
    result = sandbox.install(target, "--locked", file)
    assert result.returncode == 2, "wrong length"
    head, _, tail = text.partition("--hash=sha256:")
    file.write_text(f"{head}--hash=sha256:{'0' * 64}{tail[64:]}", encoding="utf-8")
    for installer in ("uv", "pip"):
        result = sandbox.install(target, "--locked", file, "--installer", installer)
        assert result.returncode == 4, result.stderr
        # Requirements of another Python have the digests of its wheels.
        assert "made for another Python or platform" in " ".join(result.stderr.split())
        assert contents(target) == before


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "cupy-cuda12x==14.2.0\n", "line 1: expected name==version --hash"),
        ("a.txt", "# nothing\n", "contains no package"),
        ("a.txt", f"--index-url=http://evil --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1;x --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1 ; os_name --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1,!=2 --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1.* --hash=sha256:{'0' * 64}\n", "line 1"),
        ("a.txt", f"numpy @ http://h/n-1-py3-none-any.whl --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1 ; python_version > '3' --hash=sha256:{'0' * 64}\n", "expected one CuPy"),
        ("a.txt", f"numpy==1 ; os_name == 'nt' --hash=sha256:{'0' * 64}\n", "contains no package"),
        ("pylock.toml", "lock-version='1.0'\n[[packages]]\nname='numpy'\nmarker='os_name'\n", "numpy: the marker"),
        ("pylock.toml", "lock-version='1.0'\npackages=['numpy']\n", "expected a table"),
        ("a.txt", f"numpy==$(id) --hash=sha256:{'0' * 64}\n", "line 1"),
        ("pylock.toml", "lock-version = '2.0'\n", "lock-version"),
        ("pylock.toml", "not toml", ""),
        ("pylock.toml", "lock-version='1.0'\n[[packages]]\nname='cupy-cuda12x'\nversion='1'\n", "only wheels"),
        ("pylock.toml", "lock-version='1.0'\n[[packages]]\nname='a'\nversion='1'\nwheels=5\n", "only wheels"),
        ("pylock.toml", _pylock(head="requires-python='>=3.99'"), "it requires Python >=3.99, and the target is 3."),
        ("pylock.toml", _pylock("cp33-cp33m-win32"), "numpy 1: no wheel in it is for Python 3."),
        (
            "pylock.toml",
            'lock-version="1.0"\n[[packages]]\nname="a\\n--index-url x"\nversion="1"\nwheels=[{url="x", hashes={}}]\n',
            "is no name",
        ),
    ],
)
def test_a_malformed_lock_is_refused(sandbox: Sandbox, tmp_path: Path, name: str, text: str, message: str) -> None:
    target = sandbox.target("no-lock")
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    result = sandbox.install(target, "--locked", file)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert not (target / ".gpuenv").exists()


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-manylinux1_x86_64", True),
        ("cp39-abi3-manylinux_2_28_x86_64", True),
        ("cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64", True),
        ("cp312-cp312-manylinux2014_aarch64", False),
        ("cp312-cp312-win_amd64", False),
        ("cp311-cp311-manylinux2014_x86_64", False),
        ("cp313-abi3-manylinux2014_x86_64", False),
        ("py2-none-any", False),
        ("unknown", True),
    ],
)
def test_a_lock_without_a_wheel_for_the_target_is_refused(tags: str, *, fits: bool) -> None:
    """An installer would report a wrong digest instead: it takes the target's wheel from the index."""
    markers = {
        "python_full_version": "3.12.4",
        "python_version": "3.12",
        "platform_machine": "x86_64",
        "sys_platform": "linux",
    }
    if fits:
        assert parse_pylock(_pylock(tags), markers)[0].name == "numpy"
    else:
        with pytest.raises(ValueError, match=r"numpy 1: no wheel in it is for Python 3\.12 on linux-x86_64"):
            parse_pylock(_pylock(tags), markers)


def test_a_malformed_lock_is_refused_without_its_password(sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--index-url https://me:s3cret@index.invalid/simple\n", encoding="utf-8")
    result = sandbox.install(sandbox.target("malformed"), "--locked", file)
    assert result.returncode == 2
    assert "index.invalid" in result.stderr
    assert "s3cret" not in result.stderr


@pytest.mark.parametrize("form", ["pylock", "requirements"])
def test_markers_in_a_lock_select_packages_of_the_platform(sandbox: Sandbox, tmp_path: Path, form: str) -> None:
    """``uv export`` and ``uv pip compile --universal`` write such markers."""
    target = sandbox.target("universal")
    file = tmp_path / ("pylock.toml" if form == "pylock" else "locked.txt")
    assert sandbox.gpuenv("lock", "--python", target, *MACHINE, "--format", form, "-o", file).returncode == 0
    others = [
        ("pywin32", "306", "sys_platform == 'win32'"),
        ("numpy", "1.0", "python_full_version < '3.6'"),
        ("gnureadline", "8.2", "sys_platform == 'darwin' and platform_machine != 'x86-64'"),
    ]
    line = "{name}=={release} ; {marker} \\\n    --hash=sha256:{digest}\n"
    entries = [
        (PYLOCK_ENTRY if form == "pylock" else line).format(
            name=n, release=r, marker=m, digest="0" * 64, tags="py3-none-any"
        )
        for n, r, m in others
    ]
    if form == "pylock":  # a package without wheels, for another platform
        entries.append("[[packages]]\nname = 'appnope'\nversion = '0.1'\nmarker = \"sys_platform == 'darwin'\"\n")
    text = file.read_text(encoding="utf-8").replace("cupy-cuda12x==", "cupy-cuda12x[ctk]==")  # as pip-compile writes it
    file.write_text(text + "".join(entries), encoding="utf-8")
    result = sandbox.install(target, "--locked", file)
    assert result.returncode == 0, result.stderr
    assert versions(target) == NEW


def test_the_guard_file_constrains_later_installs(sandbox: Sandbox, tmp_path: Path) -> None:
    target = sandbox.target("guarded")
    file = tmp_path / "guard.txt"
    result = sandbox.install(target, "--guard", file)
    assert result.returncode == 0, result.stderr
    assert f"PIP_CONSTRAINT={file}" in result.stderr
    spaced = sandbox.install(target, "--guard", tmp_path / "my guard.txt")
    assert f"pip install --constraint '{tmp_path}/my guard.txt'" in " ".join(spaced.stderr.split())
    assert "PIP_CONSTRAINT" not in spaced.stderr, "pip separates files by spaces there"
    text = file.read_text(encoding="utf-8")
    assert "cupy-cuda12x==14.2.0\n" in text
    assert "nvidia-cuda-nvrtc-cu12==12.9.86\n" in text
    assert "numpy" not in text
    assert {line.split("==")[0] for line in text.splitlines() if "==0 " in line} == {
        *("cupy", "cupy-cuda11x", "cupy-cuda13x")
    }
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", str(target / "bin/python"), "cupy-cuda13x"]
    environment = sandbox.environment(UV_CONSTRAINT=str(file.rename(tmp_path / "guard.txt")))  # a list has no spaces
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1, refused.stderr
    assert "cupy-cuda13x" in refused.stderr


ELSEWHERE = (
    "--assume",
    "os=linux",
    "--assume",
    "python=3.12",
    "--assume",
    "arch=aarch64",
    "--assume",
    "libc=glibc-2.36",
)


@pytest.mark.parametrize(
    ("facts", "requirements"),
    [
        (MACHINE, ["cupy-cuda12x[ctk]==14.2.0"]),
        ((*MACHINE, "--assume", "toolkit=12.2"), ["cupy-cuda12x==14.2.0"]),
        (("--assume", "driver=540.4.0", "--assume", "gpu=Orin"), ["cupy-cuda12x==14.2.0"]),
    ],
    ids=["without a toolkit", "with a toolkit", "Jetson"],
)
def test_a_lock_for_an_assumed_machine_agrees_with_resolve(
    sandbox: Sandbox, tmp_path: Path, facts: tuple[str, ...], requirements: list[str]
) -> None:
    """Neither this machine nor its Python is probed."""
    options = ("--no-probe", *facts, *ELSEWHERE)
    result = sandbox.gpuenv("lock", *options, "--format", "requirements")
    assert result.returncode == 0, result.stderr
    resolved = json.loads(sandbox.gpuenv("resolve", *options, "--format", "json").stdout)
    assert resolved["wheel"]["requirements"] == requirements
    assert result.stdout.startswith(f"# {requirements[0]}, as gpuenv lock")
    bundled = sandbox.gpuenv("bundle", *options, "-o", tmp_path / "bundle")
    assert bundled.returncode == 0, bundled.stderr
    manifest = json.loads((tmp_path / "bundle/manifest.json").read_text(encoding="utf-8"))
    assert (manifest["python"], manifest["platform"]) == ("3.12", "linux-aarch64")
    assert manifest["requirements"] == requirements


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (MACHINE, "unknown for the machine: target.python, host.arch, host.libc"),
        (MACHINE, "such as: --assume python=3.12 --assume arch=x86_64 --assume libc=glibc-2.36"),
        ((*MACHINE, *ELSEWHERE, "--assume", "os=windows"), "Linux with glibc"),
        ((*MACHINE, *ELSEWHERE, "--assume", "os=windows", "--assume", "libc=musl-1.2"), "Linux with glibc"),
    ],
)
def test_a_lock_for_an_assumed_machine_names_missing_facts(
    sandbox: Sandbox, facts: tuple[str, ...], message: str
) -> None:
    result = sandbox.gpuenv("lock", "--no-probe", *facts)
    assert (result.returncode, result.stdout) == (7, ""), result.stderr
    assert message in result.stderr


@pytest.mark.parametrize("machine", ["target", "another machine"])
def test_a_lock_has_no_release_that_the_matrix_does_not_know(sandbox: Sandbox, tmp_path: Path, machine: str) -> None:
    packages = [package for package in SET if package.stem != "cupy_cuda12x-14.2.0"]
    releases = [cupy("cupy-cuda12x", release, ctk="12") for release in ("14.0.1", "14.1.9")]
    with closing(Index(tmp_path / "index", [*packages, *releases])) as index:
        other = Sandbox(index, tmp_path, sandbox.libraries)
        where = ("--python", other.target("known")) if machine == "target" else ("--no-probe", *ELSEWHERE)
        result = other.gpuenv("lock", *where, *MACHINE, "--format", "requirements")
    assert result.returncode == 0, result.stderr
    assert "cupy-cuda12x==14.0.1" in result.stdout
    assert result.stdout.startswith("# cupy-cuda12x[ctk]==14.0.1, as gpuenv lock resolved it")


def _with_numpy(sandbox: Sandbox, file: Path, release: str) -> Path:
    """A snapshot of an environment that has this NumPy."""
    return _with_package(sandbox, file, "numpy", release, target_numpy=release)


def _with_package(sandbox: Sandbox, file: Path, name: str, release: str, **facts: str) -> Path:
    """A snapshot of an environment that has this package."""
    write_snapshot(sandbox, file, **facts)
    snapshot = json.loads(file.read_text(encoding="utf-8"))
    snapshot["target"]["packages"][name] = release
    file.write_text(json.dumps(snapshot), encoding="utf-8")
    return file


def test_a_lock_for_a_snapshot_names_the_option_that_leaves_a_package_out(sandbox: Sandbox, tmp_path: Path) -> None:
    """The index has no wheel of the recorded NumPy, as for the Python of an image that the machine does not have."""
    file = _with_numpy(sandbox, tmp_path / "snapshot.json", "1.24.2")
    command = ("lock", "--snapshot", file, *MACHINE, "--format", "requirements")
    refused = sandbox.gpuenv(*command)
    assert refused.returncode == 3
    assert "--assume package.NAME=none" in refused.stderr
    assert "python -m venv" not in refused.stderr
    result = sandbox.gpuenv(*command, "--assume", "package.numpy=none")
    assert result.returncode == 0, result.stderr
    assert "cupy-cuda12x==14.2.0" in result.stdout


def test_a_lock_for_a_snapshot_leaves_out_a_package_whose_version_no_index_can_have(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    file = _with_package(sandbox, tmp_path / "snapshot.json", "gpg", "1.16.0-unknown")
    result = sandbox.gpuenv("lock", "--snapshot", file, *MACHINE, "--format", "requirements")
    assert result.returncode == 0, result.stderr
    assert "cupy-cuda12x==14.2.0" in result.stdout


def test_a_lock_from_a_pipe_is_installed(sandbox: Sandbox, tmp_path: Path) -> None:
    target = sandbox.target("piped")
    lock = tmp_path / "lock.txt"
    command = ("lock", "--python", target, *MACHINE, "--format", "requirements", "-o", lock)
    assert sandbox.gpuenv(*command).returncode == 0
    install = ("install", "--python", target, "--yes", *MACHINE, "--locked", "/dev/stdin")
    result = run_gpuenv(install, sandbox.environment(), LIMIT, text=lock.read_bytes())
    assert result.returncode == 0, result.stderr
    assert versions(target) == NEW


def test_a_lock_for_a_snapshot_keeps_its_installed_packages(sandbox: Sandbox, tmp_path: Path) -> None:
    file = _with_numpy(sandbox, tmp_path / "snapshot.json", "1.26.4")
    result = sandbox.gpuenv("lock", "--snapshot", file, *MACHINE, "--format", "requirements")
    assert result.returncode == 0, result.stderr
    assert "numpy==1.26.4" in result.stdout
    assert "cupy-cuda12x==13.6.0" in result.stdout
