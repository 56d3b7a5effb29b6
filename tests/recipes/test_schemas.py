"""The recipes are valid by the services' published schemas, and all of them are told of."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.recipes.recipe_files import RECIPES, read, text


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("github-actions", "github/action.yml"),
        ("github-workflows", "github/workflow.yml"),
        ("github-workflows", "github/matrix-refresh.yml"),
        ("gitlab-ci", "gitlab/gitlab-ci.yml"),
        ("buildkite", "buildkite/pipeline.yml"),
        ("compose-spec", "compose/compose.yaml"),
    ],
)
def test_a_recipe_is_valid_by_its_service_s_schema(schema: str, path: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(RECIPES / path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.network
def test_the_hook_is_valid_by_pre_commit_itself() -> None:
    path = RECIPES / "pre-commit/pre-commit-config.yaml"
    command = [str(Path(sys.executable).with_name("uv")), "tool", "run", "pre-commit", "validate-config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", ["kubernetes/pod.yaml", "kubernetes/job.yaml"])
def test_a_manifest_is_valid_by_the_schema_of_kubernetes(path: str) -> None:
    schema = Path(__file__).with_name("schemas") / "kubernetes-1.37-pod-job.json"
    validator = Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
    manifest = read(path)
    validator.validate(manifest)
    manifest["spec"]["initContainerz"] = []
    assert not validator.is_valid(manifest), "a slip is refused"


def test_every_recipe_is_in_the_table() -> None:
    files = {p.relative_to(RECIPES).as_posix() for p in RECIPES.rglob("*") if p.is_file()} - {"README.md"}
    assert files == set(re.findall(r"`([\w-]+/[\w.-]+)`", text("README.md")))
