"""Releases of pytest with gpuenv installed: a project without the mark gpuenv is not affected."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpuenv

pytestmark = pytest.mark.network
CHECKOUT = Path(gpuenv.__file__).parents[1]
PLAIN = "def test_x(): pass\n"
FOREIGN = "import pytest\n@pytest.mark.gpu\ndef test_fails(): assert False\n"
ARGUMENTS = """
import pytest

@pytest.mark.gpu("a100")
def test_a(): pass

@pytest.mark.gpu(vendor="amd")
def test_b(): pass
"""
RELEASES = ("7.4.0", "7.4.4", "8.0.2", "8.2.2", "8.3.5", "8.4.2", "9.0.0", "9.0.2", "newest")


@pytest.fixture(scope="module", params=RELEASES)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    venv = tmp_path_factory.mktemp("venv")
    pytest_requirement = "pytest" if request.param == "newest" else f"pytest=={request.param}"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--allow-existing", "-p", sys.executable, str(venv)], check=True)
    install = ["pip", "install", "-q", "-p", str(venv), str(CHECKOUT), pytest_requirement]
    subprocess.run([*uv, *install], check=True)
    return str(venv / "bin/python")


@pytest.mark.parametrize(
    ("text", "code", "outcome"),
    [(PLAIN, 0, "1 passed"), (FOREIGN, 1, "1 failed"), (ARGUMENTS, 0, "2 passed")],
    ids=["plain", "foreign mark", "foreign mark with arguments"],
)
@pytest.mark.parametrize("options", [[], ["--strict-markers", "-W", "error"]], ids=["usual", "strict"])
def test_the_outcome_is_the_same_with_gpuenv_and_without(
    python: str, tmp_path: Path, text: str, code: int, outcome: str, options: list[str]
) -> None:
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs torch.cuda\n", encoding="utf-8")
    results = []
    for plugin in ([], ["-p", "no:gpuenv"]):
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *options]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        lines = [re.sub(r" in [\d.]+s|^plugins: .*", "", line) for line in result.stdout.splitlines()]
        results.append((result.returncode, [line for line in lines if line], result.stderr))
    with_gpuenv, without_gpuenv = results
    assert with_gpuenv == without_gpuenv
    assert with_gpuenv[0] == code
    assert outcome in with_gpuenv[1][-1]
