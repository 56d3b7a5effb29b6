"""The user's settings of uv and pip: respected unless they break the plan, and then named."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.pip_settings import settings_for_uv
from tests.cli.program import run_gpuenv
from tests.install.sandbox import LIMIT, MACHINE, contents, run, versions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.sandbox import Sandbox

# Prints the options with which pip would install, after its configuration.
PIP_OPTIONS = """
import json
from pip._internal.commands import create_command
options, _ = create_command("install").parse_args([])
names = ("index_url", "extra_index_urls", "trusted_hosts", "find_links", "no_index")
print(json.dumps({name: getattr(options, name) for name in names}))
"""
HOME_FILE, LEGACY_FILE, SITE_FILE, NAMED_FILE = "home/.config/pip/pip.conf", "home/.pip/pip.conf", "site", "named"


def test_an_exclude_newer_setting_is_named(sandbox: Sandbox, tmp_path: Path) -> None:
    by_variable = sandbox.install(sandbox.target("dated"), UV_EXCLUDE_NEWER="2001-01-01")
    assert by_variable.returncode == 3, by_variable.stderr
    assert "unset UV_EXCLUDE_NEWER" in " ".join(by_variable.stderr.split())
    settings = tmp_path / "uv.toml"
    settings.write_text('exclude-newer = "2001-01-01T00:00:00Z"\n', encoding="utf-8")
    by_file = sandbox.install(sandbox.target("dated-too"), UV_CONFIG_FILE=str(settings))
    assert by_file.returncode == 3, by_file.stderr
    assert "Check exclude-newer in uv.toml" in " ".join(by_file.stderr.split())


def test_a_setting_that_excludes_cupy_is_reported(sandbox: Sandbox, tmp_path: Path) -> None:
    excluded = tmp_path / "excluded.txt"
    excluded.write_text("cupy-cuda12x\n", encoding="utf-8")
    target = sandbox.target("excluded")
    for arguments in (("install",), ("lock", "--output", tmp_path / "pylock.toml")):
        result = sandbox.gpuenv(*arguments, *MACHINE, "--python", target, UV_EXCLUDE=str(excluded))
        assert result.returncode == 3, result.stderr
        assert "leaves out cupy-cuda12x" in result.stderr


def test_an_override_of_the_resolved_release_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    settings = tmp_path / "uv.toml"
    settings.write_text('override-dependencies = ["cupy-cuda12x==13.6.0"]\n', encoding="utf-8")
    target = sandbox.target("replaced")
    before = contents(target)
    result = sandbox.install(target, UV_CONFIG_FILE=str(settings))
    assert result.returncode == 3, result.stderr
    assert "takes cupy-cuda12x 13.6.0 for cupy-cuda12x[ctk]>=14" in " ".join(result.stderr.split())
    assert contents(target) == before


def test_an_override_that_keeps_the_requirements_is_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    """uv reads the override again when it installs by digest, and the override has no digests."""
    override = tmp_path / "override.txt"
    override.write_text("nvidia-cuda-nvrtc-cu12==12.9.86\nnumpy>=2.1\n", encoding="utf-8")
    target = sandbox.target("overridden")
    result = sandbox.install(target, UV_OVERRIDE=str(override))
    assert result.returncode == 0, result.stderr
    assert versions(target)["numpy"] == "2.1.0"


def test_constraints_of_a_file_are_followed_where_digests_are_verified(sandbox: Sandbox, tmp_path: Path) -> None:
    """With ``--require-hashes``, uv would refuse a constraint that is not an exact version."""
    constraints, file, pip_file = (tmp_path / name for name in ("constraints.txt", "uv.toml", "pip.conf"))
    constraints.write_text("numpy<2\n", encoding="utf-8")
    file.write_text('constraint-dependencies = ["numpy<2"]\n', encoding="utf-8")
    pip_file.write_text(f"[install]\nconstraint = {constraints}\n", encoding="utf-8")
    for installer, name, path in (("uv", "UV_CONFIG_FILE", file), ("pip", "PIP_CONFIG_FILE", pip_file)):
        target = sandbox.target(f"bounded-{installer}", pip=installer == "pip")
        result = sandbox.install(target, "--installer", installer, **{name: str(path)})
        assert result.returncode == 0, result.stderr
        assert versions(target) == {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"}


@pytest.mark.parametrize(("installer", "name"), [("uv", "UV_CONSTRAINT"), ("pip", "PIP_CONSTRAINT")])
def test_a_plan_names_the_variable_that_constrains_it(
    sandbox: Sandbox, tmp_path: Path, installer: str, name: str
) -> None:
    file = tmp_path / "constraints.txt"
    file.write_text("numpy<2\n", encoding="utf-8")
    target = sandbox.target("constrained", "numpy==2.1.0", pip=installer == "pip")
    result = sandbox.install(target, "--installer", installer, **{name: str(file)})
    assert result.returncode == 2, result.stderr
    assert f"note: constrained by {name}={file} in the environment" in " ".join(result.stdout.split())


def test_an_override_of_what_cupy_needs_is_named(sandbox: Sandbox, tmp_path: Path) -> None:
    override = tmp_path / "override.txt"
    override.write_text("numpy<2\n", encoding="utf-8")
    target = sandbox.target("overruled")
    before = contents(target)
    result = sandbox.install(target, UV_OVERRIDE=str(override))
    assert result.returncode == 4, result.stderr
    message = f"Check your own settings first: UV_OVERRIDE={override} in the environment."
    assert message in " ".join(result.stdout.split())
    assert contents(target) == before


@pytest.mark.parametrize(
    ("variables", "code", "message"),
    [
        ({"UV_CONSTRAINT": "/nonexistent.txt"}, 4, "first: UV_CONSTRAINT=/nonexistent.txt in the environment."),
        ({"UV_OFFLINE": "1"}, 4, "unset UV_OFFLINE"),
        ({"UV_LINK_MODE": "symlink"}, 4, "unset UV_LINK_MODE"),
        ({"UV_CONFIG_FILE": "/nonexistent/uv.toml"}, 7, "/nonexistent/uv.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_setting_that_prevents_the_install_is_named(
    sandbox: Sandbox, variables: dict[str, str], code: int, message: str
) -> None:
    result = sandbox.install(sandbox.target("forbidden"), "--installer", "uv", **variables)
    assert result.returncode == code, result.stderr
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("variables", "message", "absent"),
    [
        ({"PIP_NO_INDEX": "1"}, "unset PIP_NO_INDEX", "UV_OFFLINE"),
        ({"PIP_NO_INDEX": "yes", "UV_OFFLINE": "1"}, "unset PIP_NO_INDEX", "UV_OFFLINE"),
        ({"UV_OFFLINE": "1", "PIP_INDEX_URL": "http://127.0.0.1:9/"}, "Check the network", "UV_OFFLINE"),
    ],
)
def test_only_variables_of_the_used_installer_are_named(
    sandbox: Sandbox, variables: dict[str, str], message: str, absent: str
) -> None:
    target = sandbox.target("alone", pip=True)
    result = sandbox.install(target, "--installer", "pip", PIP_RETRIES="0", **variables)
    assert result.returncode == 4, result.stderr
    assert message in result.stderr
    assert absent not in result.stderr


def test_both_the_offline_option_and_the_variable_are_named(sandbox: Sandbox) -> None:
    target, cache = sandbox.target("twice"), str(sandbox.folder / "empty")
    result = sandbox.install(target, "--installer", "uv", "--offline", UV_OFFLINE="true", UV_CACHE_DIR=cache)
    assert result.returncode == 4, result.stderr
    assert "leave out --offline and unset UV_OFFLINE" in " ".join(result.stderr.split())


def test_an_invalid_pip_setting_is_named(sandbox: Sandbox) -> None:
    target = sandbox.target("unread", pip=True)
    result = sandbox.install(target, "--installer", "pip", PIP_RETRIES="many")
    assert result.returncode == 7, result.stderr
    assert "many" in result.stderr


@pytest.mark.parametrize(
    "settings",
    [
        "[install]\nrequire-hashes = true\n",
        "[install]\ndry-run = true\n",
        "[install]\nno-deps = true\n",
        "[global]\ntarget = {outside}\n",
        "[install]\nroot = {outside}\n",
        "[global]\nuser = true\n",
        "[install]\nprefix = {outside}\n",
        "[install]\nforce-reinstall = true\nignore-installed = true\nupgrade = true\n",
    ],
    ids=lambda text: text.split()[1],
)
def test_pip_settings_that_redirect_the_install_are_overridden(sandbox: Sandbox, tmp_path: Path, settings: str) -> None:
    outside = tmp_path / "outside"
    file = tmp_path / "pip.conf"
    file.write_text(settings.format(outside=outside), encoding="utf-8")
    target = sandbox.target("away", pip=True)
    result = sandbox.install(target, "--installer", "pip", PIP_CONFIG_FILE=str(file))
    assert result.returncode == 0, result.stderr
    assert versions(target)["numpy"] == "2.1.0"
    assert not outside.exists()


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("[global]\nconstraint = {constraints}\n", 3),
        ("[install]\nrequirement = {constraints}\n", 3),
        ("[global]\nconstraint = /nonexistent.txt\n", 4),
        ("[global]\nno-index = true\n", 4),
        ("[global]\nplatform = manylinux2014_aarch64\n", 4),
    ],
    ids=lambda value: " ".join(value.split()[1:4:2]) if isinstance(value, str) else "",
)
def test_a_pip_setting_that_limits_packages_is_named(
    sandbox: Sandbox, tmp_path: Path, settings: str, code: int
) -> None:
    constraints, file = tmp_path / "constraints.txt", tmp_path / "pip.conf"
    constraints.write_text("numpy<1\n", encoding="utf-8")
    file.write_text(settings.format(constraints=constraints), encoding="utf-8")
    result = sandbox.install(sandbox.target("limited", pip=True), "--installer", "pip", PIP_CONFIG_FILE=str(file))
    assert result.returncode == code, result.stderr
    key = settings.split()[1]
    assert f".{key}='{settings.format(constraints=constraints).split()[-1]}' in pip's configuration" in result.stderr
    assert "a separate environment" not in result.stderr
    assert ("numpy<1" in result.stderr) is (code == 3), "names the conflict"


@pytest.mark.parametrize(
    ("settings", "variable", "message"),
    [
        ("[global]\nno-binary = numpy\n", None, "global.no-binary='numpy' in pip's configuration"),
        ("[install]\nno-binary = :all:\n", None, "install.no-binary=':all:' in pip's configuration"),
        ("", "numpy,x", "PIP_NO_BINARY='numpy,x' in the environment"),
        ("[global]\nno-binary = numpy\n[install]\nonly-binary = numpy\n", None, None),
        ("[global]\nno-binary = numpy\n", ":none:", None),
        ("[global]\nno-binary = psycopg2\n", None, None),
    ],
)
def test_a_wheel_excluded_by_no_binary_is_not_installed(
    sandbox: Sandbox, tmp_path: Path, settings: str, variable: str | None, message: str | None
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(settings, encoding="utf-8")
    target = sandbox.target("built", pip=True)
    variables = {"PIP_NO_BINARY": variable} if variable else {}
    result = sandbox.install(target, "--installer", "pip", PIP_CONFIG_FILE=str(file), **variables)
    assert result.returncode == (3 if message else 0), result.stderr
    assert (message or "") in " ".join(result.stderr.split())
    assert ("numpy" in versions(target)) is (message is None)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ('constraint-dependencies = ["numpy<1"]\n', 3),
        ('[pip]\nno-binary = [":all:"]\n', 3),
        ("no-index = true\n", 3),
        ('exclude-dependencies = ["numpy"]\n', 4),
        ('[pip]\nno-emit-package = ["numpy"]\n', 4),
        ('[pip]\noutput-file = "list.txt"\n', 4),
        ("[pip]\nno-deps = true\n", 7),
        ('[pip]\ntarget = "{outside}"\n', 7),
    ],
    ids=lambda value: value.removeprefix("[pip]\n").split()[0] if isinstance(value, str) else "",
)
def test_a_uv_setting_that_limits_packages_is_named_with_its_file(
    sandbox: Sandbox, tmp_path: Path, settings: str, code: int
) -> None:
    outside, file = tmp_path / "outside", tmp_path / "uv.toml"
    file.write_text(settings.format(outside=outside), encoding="utf-8")
    target = sandbox.target("limited")
    before = contents(target)
    result = sandbox.install(target, "--installer", "uv", UV_CONFIG_FILE=str(file))
    assert result.returncode == code, result.stderr
    key = settings.removeprefix("[pip]\n").split()[0]
    output = " ".join((result.stdout + result.stderr).split())
    assert f"{key} in {file}" in output
    assert "a separate environment" not in output
    assert contents(target) == before
    assert not outside.exists()


def test_settings_are_read_from_the_nearest_project_with_a_uv_table(sandbox: Sandbox, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "part").mkdir(parents=True)
    table = '[tool.uv]\nconstraint-dependencies = ["numpy<1"]\n'
    (project / "pyproject.toml").write_text(table, encoding="utf-8")
    (project / "part/pyproject.toml").write_text('[project]\nname = "part"\n', encoding="utf-8")
    options = ("--python", sandbox.target("near"), "--yes", "--installer", "uv", *MACHINE)
    result = run_gpuenv(("install", *options), sandbox.environment(UV_NO_CONFIG="0"), LIMIT, project / "part")
    assert result.returncode == 3, result.stderr
    assert f"constraint-dependencies in {project}/pyproject.toml" in result.stderr


def test_settings_are_read_from_the_system_configuration(sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "second/uv/uv.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[pip]\nno-deps = true\n", encoding="utf-8")
    target, search_path = sandbox.target("system"), f"{tmp_path}/first:{tmp_path}/second"
    result = sandbox.install(target, "--installer", "uv", UV_NO_CONFIG="0", XDG_CONFIG_DIRS=search_path)
    assert result.returncode == 7, result.stderr
    assert f"no-deps in {file}" in " ".join(result.stderr.split())


def test_a_release_missing_from_the_index_is_not_a_conflict(sandbox: Sandbox) -> None:
    """As on an outdated mirror."""
    pages = sandbox.index.folder / "simple/cupy-cuda12x/index.html"
    lines = pages.read_text(encoding="utf-8").splitlines()
    pages.write_text("\n".join(line for line in lines if "14.2.0" not in line), encoding="utf-8")
    for installer in ("uv", "pip"):
        target = sandbox.target(f"mirrored-{installer}", "numpy==2.1.0", pip=installer == "pip")
        result = sandbox.install(target, "--installer", installer, "cupy==14.2.0")
        assert result.returncode == 3, result.stderr
        assert "it lacks that release" in result.stderr
        assert "a separate environment" not in result.stderr
        assert "with the packages in the environment" not in result.stderr
        assert sandbox.install(target, "--installer", installer).returncode == 0
        assert versions(target)["cupy-cuda12x"] == "13.6.0", "the newest that the index has"


def test_uv_uses_the_index_and_the_constraints_of_pip(sandbox: Sandbox, tmp_path: Path) -> None:
    """Where uv has no such settings; the plan says so."""
    constraints, settings = tmp_path / "constraints.txt", tmp_path / "pip.conf"
    constraints.write_text("numpy==1.26.4\n", encoding="utf-8")
    settings.write_text(f"[global]\nindex-url = http://{sandbox.index.address}\n", encoding="utf-8")
    files = {"PIP_CONSTRAINT": str(constraints), "PIP_CONFIG_FILE": str(settings)}
    target = sandbox.target("translated")
    result = sandbox.install(target, "--installer", "uv", UV_DEFAULT_INDEX="", PIP_INDEX_URL="", **files)
    assert result.returncode == 0, result.stderr
    assert versions(target)["numpy"] == "1.26.4"
    shown = " ".join(result.stderr.split())
    assert f"uv uses settings of pip: index-url ({settings}), constraint (PIP_CONSTRAINT)" in shown


@pytest.mark.parametrize("variable", ["", "0"])
def test_uv_uses_no_index_where_pip_is_configured_so(sandbox: Sandbox, tmp_path: Path, variable: str) -> None:
    """The variable overrides the file, and uv finds all packages in the folder of pip's find-links."""
    settings = tmp_path / "pip.conf"
    folder = sandbox.index.folder / "files"
    settings.write_text(f"[global]\nno-index = yes\nfind-links = {folder}\n", encoding="utf-8")
    pip = {"PIP_CONFIG_FILE": str(settings), "PIP_NO_INDEX": variable, "UV_DEFAULT_INDEX": ""}
    target = sandbox.target("indexless")
    before = len(sandbox.index.requests)
    result = sandbox.install(target, "--installer", "uv", **pip)
    assert result.returncode == 0, result.stderr
    assert versions(target)["cupy-cuda12x"] == "14.2.0"
    assert (len(sandbox.index.requests) > before) is (variable == "0")
    assert (f"no-index ({settings})" in " ".join(result.stderr.split())) is (variable == "")


def test_the_no_index_of_pip_is_named_where_uv_finds_nothing(sandbox: Sandbox) -> None:
    target = sandbox.target("nowhere")
    result = sandbox.install(target, "--installer", "uv", PIP_NO_INDEX="1", UV_DEFAULT_INDEX="")
    assert result.returncode == 3, result.stderr
    assert "Check your own settings first: no-index in PIP_NO_INDEX." in " ".join(result.stderr.split())


def test_pips_index_is_not_used_where_uv_has_its_own(sandbox: Sandbox) -> None:
    target = sandbox.target("own")
    result = sandbox.install(target, "--installer", "uv", PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert result.returncode == 0, result.stderr
    assert "settings of pip" not in result.stderr


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_constraint_of_pip_on_cupy_is_followed(sandbox: Sandbox, tmp_path: Path, installer: str) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("cupy-cuda12x<14\n", encoding="utf-8")
    target = sandbox.target(f"held-{installer}", pip=True)
    result = sandbox.install(target, "--installer", installer, PIP_CONSTRAINT=str(constraints))
    assert result.returncode == 0, result.stderr
    assert versions(target)["cupy-cuda12x"] == "13.6.0"


@pytest.fixture(scope="module")
def prefix_with_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pip")
    run([sys.executable, "-m", "venv", str(folder)], {})
    return folder


@pytest.mark.parametrize(
    ("files", "variables"),
    [
        ({HOME_FILE: "[global]\nindex_url = https://a.example\nextra_index_url = https://b.example\n"}, {}),
        ({HOME_FILE: "[global]\nNo_Index = yes\ntrusted_host = a.example\n--find-links = /w\n"}, {}),
        ({HOME_FILE: "[global]\nindex-url = https://a.example\nindex_url = https://b.example\n"}, {}),
        ({HOME_FILE: "[global]\nindex-url = https://a.example\n", NAMED_FILE: "[global]\ntimeout = 5\n"}, {}),
        ({HOME_FILE: "[global]\nindex-url = https://a.example\n"}, {}),  # the named file does not exist
        ({HOME_FILE: "[install]\nindex-url = https://a.example\n", NAMED_FILE: ""}, {"PIP_CONFIG_FILE": ""}),
        (
            {
                LEGACY_FILE: "[install]\nindex-url = https://a.example\n",
                HOME_FILE: "[global]\nindex-url = https://b.example\n",
                SITE_FILE: "[global]\nindex-url = https://c.example\n",
            },
            {},
        ),
        ({HOME_FILE: "[global]\nindex-url = https://a.example\n", SITE_FILE: "[global]\nindex-url =\n"}, {}),
        ({HOME_FILE: "[install]\nindex-url = https://a.example\n"}, {"PIP_INDEX_URL": "https://b.example"}),
        ({SITE_FILE: "[install]\nindex-url = https://a.example\n"}, {"PIP_INDEX_URL": ""}),
    ],
)
def test_uv_gets_the_settings_that_pip_itself_would_use(
    prefix_with_pip: Path, tmp_path: Path, files: dict[str, str], variables: dict[str, str]
) -> None:
    for name, text in {SITE_FILE: "", **files}.items():
        path = prefix_with_pip / "pip.conf" if name == SITE_FILE else tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environment = {"HOME": str(tmp_path / "home"), "PIP_CONFIG_FILE": str(tmp_path / NAMED_FILE), **variables}
    found = settings_for_uv(environment, str(prefix_with_pip), has_indexes=False)
    by_pip = json.loads(run([str(prefix_with_pip / "bin/python"), "-c", PIP_OPTIONS], environment))
    settings = dict(found.variables)
    assert settings.get("UV_DEFAULT_INDEX", "https://pypi.org/simple") == by_pip["index_url"]
    assert settings.get("UV_INDEX", "").split() == by_pip["extra_index_urls"]
    assert settings.get("UV_INSECURE_HOST", "").split() == by_pip["trusted_hosts"]
    assert ("find-links" in {entry.key for entry in found.settings}) == bool(by_pip["find_links"])
    assert found.no_index == by_pip["no_index"]
