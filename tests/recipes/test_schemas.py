"""Recipes and our workflows conform to the published schemas of their services, and the README lists all recipes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.recipes.recipe_files import RECIPES, read_text, read_yaml


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("github-actions", "github/action.yml"),
        ("github-workflows", "github/workflow.yml"),
        ("github-workflows", "github/matrix-refresh.yml"),
        ("github-workflows", "../../.github/workflows/release.yml"),
        ("github-workflows", "../../.github/workflows/test-gpu.yml"),
        ("github-workflows", "../../.github/workflows/test.yml"),
        ("gitlab-ci", "gitlab/gitlab-ci.yml"),
        ("buildkite", "buildkite/pipeline.yml"),
        ("compose-spec", "compose/compose.yaml"),
    ],
)
def test_a_recipe_conforms_to_the_schema_of_its_service(schema: str, path: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(RECIPES / path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_workflow_on_a_gpu_runs_no_code_of_pull_requests() -> None:
    triggers = read_yaml("../../.github/workflows/test-gpu.yml")[True]  # YAML 1.1 reads the key "on" as true
    assert set(triggers) == {"push", "workflow_dispatch"}


@pytest.mark.network
def test_pre_commit_accepts_the_hook() -> None:
    path = RECIPES / "pre-commit/pre-commit-config.yaml"
    command = [str(Path(sys.executable).with_name("uv")), "tool", "run", "pre-commit", "validate-config", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", ["kubernetes/pod.yaml", "kubernetes/job.yaml"])
def test_a_manifest_conforms_to_the_schema_of_kubernetes(path: str) -> None:
    schema = Path(__file__).with_name("schemas") / "kubernetes-1.37-pod-job.json"
    validator = Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
    manifest = read_yaml(path)
    validator.validate(manifest)
    manifest["spec"]["initContainerz"] = []
    assert not validator.is_valid(manifest), "a misspelled key is refused"


def test_the_pods_of_the_daemon_set_conform_to_the_schema_of_kubernetes() -> None:
    schema = Path(__file__).with_name("schemas") / "kubernetes-1.37-pod-job.json"
    template = read_yaml("kubernetes/daemonset.yaml")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    Draft202012Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(pod)


def test_the_readme_lists_every_recipe() -> None:
    files = {p.relative_to(RECIPES).as_posix() for p in RECIPES.rglob("*") if p.is_file()} - {"README.md"}
    assert files == set(re.findall(r"`([\w-]+/[\w.-]+)`", read_text("README.md")))
