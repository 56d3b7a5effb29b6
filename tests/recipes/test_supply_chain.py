"""What the recipes and our workflows use is named by its digest; no job that may write runs what was downloaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.recipes.recipe_files import RECIPES

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = sorted((Path(__file__).parents[2] / ".github/workflows").glob("*.yml"))
FILES = [*sorted(path for path in RECIPES.rglob("*") if path.suffix in {".yml", ".yaml", ".json"}), *OWN]
WORKFLOWS = [path for path in FILES if "jobs" in yaml.safe_load(path.read_text(encoding="utf-8"))]
COMMIT, DIGEST = r"[\w./-]+@[0-9a-f]{40}", r"\S+@sha256:[0-9a-f]{64}"
# Words of a shell that fetch something, or run what was fetched or belongs to the repository; uv publish sends files.
RUNS_DOWNLOADS = re.compile(
    r"\b(pip|uv(?! publish)|pipx|conda|npm|curl|wget|docker|make|python3?|pytest|gpuenv|cuobjdump)\b"
    r"|\bgit (clone|fetch|pull)\b|\.venv|\./"
)


def values_of(data: Any, key: str) -> Iterator[Any]:  # noqa: ANN401 - YAML
    """The values of a key at any depth."""
    if isinstance(data, dict):
        yield from (value for name, value in data.items() if name == key)
        data = list(data.values())
    if isinstance(data, list):
        for entry in data:
            yield from values_of(entry, key)


def jobs() -> list[Any]:
    return [
        pytest.param(workflow, job, id=f"{path.stem}-{name}")
        for path in WORKFLOWS
        for workflow in [yaml.safe_load(path.read_text(encoding="utf-8"))]
        for name, job in workflow["jobs"].items()
    ]


def permissions_of(workflow: dict[str, Any], job: dict[str, Any]) -> dict[str, str]:
    """A workflow without the key gives its jobs the repository's default, which may be everything."""
    permissions = job.get("permissions", workflow.get("permissions"))
    assert isinstance(permissions, dict), "neither absent nor write-all"
    return permissions


def test_there_are_workflows() -> None:
    own = ["release.yml", "test-gpu.yml", "test.yml"]
    assert [path.name for path in WORKFLOWS] == ["matrix-refresh.yml", "workflow.yml", *own]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_and_images_are_named_by_their_digest(path: Path) -> None:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    actions = list(values_of(data, "uses"))
    images = [image if isinstance(image, str) else image["name"] for image in values_of(data, "image")]
    assert [action for action in actions if not re.fullmatch(rf"{COMMIT}|\./\S+|docker://{DIGEST}", action)] == []
    assert [image for image in images if not re.fullmatch(DIGEST, image)] == []


def test_every_action_of_a_workflow_has_its_version_as_a_comment() -> None:
    lines = [line for path in WORKFLOWS for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert [line for line in lines if not re.search(r"  # (v\d+\.\d+\.\d+|the commit of your release)$", line)] == []


@pytest.mark.parametrize(("workflow", "job"), jobs())
def test_no_checkout_keeps_its_credentials(workflow: dict[str, Any], job: dict[str, Any]) -> None:
    del workflow
    checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert [step for step in checkouts if step.get("with", {}).get("persist-credentials") is not False] == []


@pytest.mark.parametrize(("workflow", "job"), jobs())
def test_a_job_with_write_permission_runs_nothing_that_was_downloaded(
    workflow: dict[str, Any], job: dict[str, Any]
) -> None:
    can_write = "write" in permissions_of(workflow, job).values()
    has_token = any(re.search(r"secrets\.|github\.token", str(value)) for value in values_of(job, "env"))
    runs = [step["run"] for step in job["steps"] if "run" in step]
    if can_write or has_token:
        assert [found[0] for run in runs if (found := RUNS_DOWNLOADS.search(run))] == []
    else:
        assert any(RUNS_DOWNLOADS.search(run) for run in runs), "the pattern finds what the other jobs run"


@pytest.mark.parametrize(("workflow", "job"), jobs())
def test_no_expression_is_pasted_into_a_script(workflow: dict[str, Any], job: dict[str, Any]) -> None:
    """GitHub Docs, "Security hardening for GitHub Actions": a value from outside goes through a variable."""
    del workflow
    assert [step["run"] for step in job["steps"] if "${{" in step.get("run", "")] == []
