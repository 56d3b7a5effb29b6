"""Links from findings to the pages of the documentation site, whose address GPUENV_DOCS_URL configures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import gpuenv as api
from gpuenv.report.docs_site import docs_address, page_of
from tests.cli.assertions import assert_refused
from tests.cli.program import answer, gpuenv
from tests.cli.snapshots import UNFIT, write_snapshot
from tests.paste.test_pasted_error import FULL, MACHINE
from tests.report.readers import sarif
from tools import reference_pages

if TYPE_CHECKING:
    from pathlib import Path

SITE = "https://10.0.0.5:8443/~me/gpuenv"  # in any other text, an address with four numbers is hidden
LINKED = {"GPUENV_DOCS_URL": SITE}


@pytest.fixture
def snapshot_file(tmp_path: Path) -> Path:
    return write_snapshot(UNFIT, tmp_path / "unfit.json")


def rules(log: dict[str, Any]) -> dict[str, str | None]:
    """The address of each rule in a SARIF log."""
    sarif().validate(log)
    return {rule["id"]: rule.get("helpUri") for rule in log["runs"][0]["tool"]["driver"]["rules"]}


def test_the_page_of_every_check_and_rule_has_its_anchor() -> None:
    pages = reference_pages.pages()
    for check in reference_pages.documented_checks():
        path, _, anchor = page_of(check.code).partition("#")
        name = path.removeprefix("reference/generated/").replace(".html", ".md")
        assert f"\n({anchor})=\n## {check.code}: " in pages[name]


@pytest.mark.parametrize("command", [("doctor",), ("preflight", "--no-config")], ids=lambda words: words[0])
def test_findings_link_to_their_page_in_the_configured_site(snapshot_file: Path, command: tuple[str, ...]) -> None:
    options = (*command, "--snapshot", str(snapshot_file))
    _, report = answer(*options, environment=LINKED)
    links = {finding["code"]: finding["docs_url"] for finding in report["findings"]}
    assert links == {code: f"{SITE}/{page_of(code)}" for code in links}
    assert {finding["docs"] for finding in report["findings"]} == {f"gpuenv explain {code}" for code in links}
    page = gpuenv(*options, "--format", "html", environment=LINKED).stdout
    assert all(f'<a href="{link}">' in page for link in links.values())
    assert rules(json.loads(gpuenv(*options, "--format", "sarif", environment=LINKED).stdout)) == links


def test_nothing_links_to_a_site_that_is_not_configured(snapshot_file: Path) -> None:
    for variables in ({}, {"GPUENV_DOCS_URL": ""}):
        _, report = answer("doctor", "--snapshot", snapshot_file, environment=variables)
        assert {finding["docs_url"] for finding in report["findings"]} == {None}
        page = gpuenv("doctor", "--snapshot", snapshot_file, "--format", "html", environment=variables).stdout
        assert "<a href=" not in page
        log = gpuenv("doctor", "--snapshot", snapshot_file, "--format", "sarif", environment=variables).stdout
        assert set(rules(json.loads(log)).values()) == {None}


def test_findings_in_an_image_link_to_their_page(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text('FROM python:3.12-slim\nRUN pip install "cupy-cuda13x[ctk]==14.2.0"\nRUN nvidia-smi\n')
    options = ("check-image", "--dockerfile", str(path), "--no-probe", "--assume", "gpu=V100", "--assume", "driver=580")
    links = {code: f"{SITE}/{page_of(code)}" for code in ("DKF912", "IMG905")}
    _, report = answer(*options, environment=LINKED)
    assert {finding["code"]: finding["docs_url"] for finding in report["findings"]} == links
    (machine,) = report["machines"]
    assert [finding["docs_url"] for finding in machine["findings"]] == [links["IMG905"]]
    assert rules(json.loads(gpuenv(*options, "--format", "sarif", environment=LINKED).stdout)) == links


def test_an_error_in_a_paste_has_no_page(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text(f"{MACHINE}$ python a.py\n{FULL}\n", encoding="utf-8")
    _, report = answer("doctor", "--paste", paste, environment=LINKED)
    (finding,) = (entry for entry in report["findings"] if entry["cause"] == "out-of-memory")
    assert finding["docs_url"] is None


def test_the_python_interface_links_as_the_commands_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUENV_DOCS_URL", SITE)
    findings = api.diagnose(UNFIT).findings
    assert findings
    assert [finding.docs_url for finding in findings] == [f"{SITE}/{page_of(finding.code)}" for finding in findings]


@pytest.mark.parametrize("address", ["https://h/gpuenv", "https://h/gpuenv/", "http://h", "http://[::1]:8000/a%20b/"])
def test_an_address_may_end_in_a_slash(address: str) -> None:
    assert docs_address({"GPUENV_DOCS_URL": address}) == f"{address.rstrip('/')}/"


@pytest.mark.parametrize(
    "address",
    ["ftp://h/", "javascript:alert(1)", "file:///srv/docs", "h/docs", "https://", "https://h/?a=b", "https://h/#a",
     "https://me@h/", "https://h/ b", 'https://h/"', "https://h/\n"],
)  # fmt: skip
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(api.GpuenvError, match="expected the address of the site"):
        docs_address({"GPUENV_DOCS_URL": address})


@pytest.mark.parametrize(
    "command",
    [["doctor", "--no-probe"], ["smoke"], ["check-image", "--dockerfile", "none"]],
    ids=lambda words: words[0],
)
def test_a_command_with_an_invalid_address_is_a_usage_error(command: list[str]) -> None:
    variables = {"GPUENV_DOCS_URL": "javascript:alert(1)\n::error::"}
    assert_refused(*command, environment=variables, names=["GPUENV_DOCS_URL=javascript:alert(1)\\x0a", "https://HOST/"])
