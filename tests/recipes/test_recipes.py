"""The commands of the recipes, run on fit and unfit machines."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import gpuenv
from gpuenv.fleet.node_report import parse_node_report
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from tests.recipes.recipe_files import RECIPES, read_text, read_yaml
from tests.report.readers import READERS, commands
from tests.support.target import metadata_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

MACHINES = Path(__file__).parents[1] / "machines"
FIT, BROKEN, WITHOUT_CUPY = "h200-580", "mismatch-535", "no-cupy"


@dataclass(frozen=True, slots=True)
class Runner:
    """A CI machine: gpuenv on PATH, an active environment, and a working folder."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture
def runner(
    tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> Callable[[str], Runner]:
    def make(name: str) -> Runner:
        profile = load(MACHINES / f"{name}.yaml")
        machine = materialise(profile, tmp_path / "machine", stub_driver, cuda_libraries.of)
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "gpuenv").symlink_to(Path(sysconfig.get_path("scripts")) / "gpuenv")
        folder = tmp_path / "work"
        folder.mkdir()
        environment = {
            **machine.environment,
            "PATH": f"{programs}:{machine.environment['PATH']}",
            "VIRTUAL_ENV": str(targets.interpreter(profile.target).parents[1]),
        }
        return Runner(folder, environment)

    return make


def action_step(name: str) -> dict[str, Any]:
    (step,) = [step for step in read_yaml("github/action.yml")["runs"]["steps"] if step["name"] == name]
    return dict(step)


def inputs(step: dict[str, Any], **arguments: str) -> dict[str, str]:
    """Returns the step's variables with its expressions replaced by the given inputs or their defaults."""
    defaults = {name: str(entry["default"]) for name, entry in read_yaml("github/action.yml")["inputs"].items()}
    values = {**defaults, **{name.replace("_", "-"): value for name, value in arguments.items()}}

    def value_of(expression: str) -> str:
        match = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", expression)
        assert match, expression
        return values[match[1]]

    return {name: value_of(expression) for name, expression in step["env"].items()}


@pytest.mark.parametrize(
    ("machine", "arguments", "code", "status"),
    [
        (FIT, {"require": "gpu>=1\ncc>=8.0\n"}, 0, "fit"),
        (FIT, {"require": "gpu>=1\nmemory>=999GiB", "retry_elsewhere": "true"}, 75, "unfit"),
        (BROKEN, {}, 1, "unfit"),
        (BROKEN, {"retry_elsewhere": "true"}, 75, "unfit"),
        (FIT, {"require": "$(touch hacked); `touch hacked`"}, 2, None),
    ],
)
def test_the_github_action_runs_the_preflight_and_writes_reports(
    runner: Callable[[str], Runner], machine: str, arguments: dict[str, str], code: int, status: str | None
) -> None:
    ci = runner(machine)
    temp = ci.folder / "temp"
    (temp / "gpuenv/bin").mkdir(parents=True)
    (temp / "gpuenv/bin/gpuenv").symlink_to(Path(sysconfig.get_path("scripts")) / "gpuenv")
    step = action_step("Preflight")
    variables = {
        **inputs(step, **arguments),
        "RUNNER_TEMP": str(temp),
        "GITHUB_OUTPUT": str(ci.folder / "output"),
        "GITHUB_STEP_SUMMARY": str(ci.folder / "summary.md"),
    }
    (ci.folder / "step.sh").write_text(step["run"], encoding="utf-8")
    # As the runner calls `shell: bash` (GitHub Docs, "Workflow syntax", jobs.<job_id>.steps[*].shell).
    result = ci.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"], **variables)
    assert result.returncode == code, result.stdout + result.stderr
    assert (ci.folder / "output").read_text(encoding="utf-8") == f"exit-code={code}\n"
    assert not list(ci.folder.rglob("hacked"))
    if status is None:
        return
    assert commands(result.stdout)[-1][1]["title"].startswith("gpuenv: ")
    assert (ci.folder / "summary.md").read_text(encoding="utf-8").startswith("## gpuenv: ")
    reports = ci.folder / "gpuenv-reports"
    for form, name in (
        ("json", "report.json"),
        ("junit", "junit.xml"),
        ("sarif", "report.sarif"),
        ("html", "report.html"),
    ):
        report = READERS[form](reports / name)
        assert (report.status, report.exit_code) == (status, code)


@pytest.mark.network
def test_the_github_action_installs_from_a_fresh_clone(tmp_path: Path) -> None:
    checkout = Path(gpuenv.__file__).parents[1]
    clone, temp = tmp_path / "clone", tmp_path / "temp"
    temp.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(checkout), str(clone)], check=True, capture_output=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIP_NO_CACHE_DIR": "1",
        "RUNNER_TEMP": str(temp),
        "GITHUB_ACTION_PATH": str(clone / "gpuenv/recipes/github"),
    }
    environment |= {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http", "HTTP"))
    }
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", action_step("Install gpuenv")["run"]]
    result = subprocess.run(script, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    version = subprocess.run([str(temp / "gpuenv/bin/gpuenv"), "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"gpuenv {gpuenv.__version__}\n"


def gitlab_job() -> list[str]:
    """The commands of the one job, which share a shell."""
    job = read_yaml("gitlab/gitlab-ci.yml")["gpu-tests"]
    return [*job["before_script"], *job["script"]]


def buildkite_job() -> list[str]:
    (step,) = read_yaml("buildkite/pipeline.yml")["steps"]
    return list(step["commands"])


def gitlab() -> str:
    return gitlab_job()[-2]


def buildkite() -> str:
    return buildkite_job()[-2]


def jenkins() -> str:
    (line,) = re.findall(r"returnStatus: true, script: '([^']+)'", read_text("jenkins/Jenkinsfile"))
    return str(line)


def pre_commit() -> str:
    return str(read_yaml("pre-commit/pre-commit-config.yaml")["repos"][0]["hooks"][0]["entry"])


def pod() -> str:
    return shlex.join(read_yaml("kubernetes/pod.yaml")["spec"]["initContainers"][0]["command"])


def job() -> str:
    return shlex.join(read_yaml("kubernetes/job.yaml")["spec"]["template"]["spec"]["initContainers"][0]["command"])


def compose() -> str:
    return shlex.join(read_yaml("compose/compose.yaml")["services"]["preflight"]["command"])


def devcontainer() -> str:
    return str(json.loads(read_text("devcontainer/devcontainer.json"))["postStartCommand"])


@pytest.mark.parametrize("recipe_command", [gitlab, buildkite, jenkins, pre_commit, pod, job, compose, devcontainer])
@pytest.mark.parametrize("machine", [FIT, BROKEN])
def test_the_command_of_a_recipe_fails_on_a_broken_machine(
    runner: Callable[[str], Runner], recipe_command: Callable[[], str], machine: str
) -> None:
    ci = runner(machine)
    command = recipe_command()
    result = ci.run(["sh", "-c", command])
    expected = 0 if machine == FIT else 75 if "--retry-elsewhere" in command else 1
    assert result.returncode == expected, result.stdout + result.stderr
    for form, path in re.findall(r"--format (\w+)=(\S+)", command):
        READERS[form](ci.folder / path)


@pytest.mark.parametrize("job_commands", [gitlab_job, buildkite_job])
@pytest.mark.parametrize("machine", [FIT, BROKEN])
def test_a_job_examines_the_environment_that_it_makes_of_the_requirements(
    runner: Callable[[str], Runner], job_commands: Callable[[], list[str]], machine: str
) -> None:
    """The job's last command are the tests, which need the machine that the preflight examined, and a GPU."""
    ci = runner(machine)
    *commands, tests = job_commands()
    assert tests.startswith("python -m pytest --gpu-required")
    wheels = [metadata_wheel(ci.folder, package) for package in load(MACHINES / f"{FIT}.yaml").target.packages]
    (ci.folder / "requirements.txt").write_text("".join(f"{wheel}\n" for wheel in wheels), encoding="utf-8")
    result = ci.run(["bash", "-e", "-c", "\n".join([*commands, "python -c 'import sys; print(sys.prefix)'"])])
    assert f"{ci.folder}/.venv/bin/python" in result.stdout, result.stdout + result.stderr
    assert result.returncode == (0 if machine == FIT else 75)
    assert result.stdout.endswith(f"\n{ci.folder}/.venv\n") == (machine == FIT)


def test_every_scheduler_retries_on_exit_code_75() -> None:
    assert read_yaml("gitlab/gitlab-ci.yml")["gpu-tests"]["retry"]["exit_codes"] == [75]
    assert read_yaml("buildkite/pipeline.yml")["steps"][0]["retry"]["automatic"][0]["exit_status"] == 75
    assert "code == 75" in read_text("jenkins/Jenkinsfile")


def test_a_kubernetes_job_is_replaced_a_bounded_number_of_times() -> None:
    """Pods of the action Ignore are not counted (Kubernetes, Jobs, Pod failure policy)."""
    spec = read_yaml("kubernetes/job.yaml")["spec"]
    actions = {
        code: rule["action"] for rule in spec["podFailurePolicy"]["rules"] for code in rule["onExitCodes"]["values"]
    }
    assert actions == {75: "Count", 1: "FailJob", 2: "FailJob", 7: "FailJob"}
    assert 0 < spec["backoffLimit"] < 10


@pytest.mark.parametrize("path", ["kubernetes/job.yaml", "kubernetes/pod.yaml"])
def test_the_preflight_of_a_pod_knows_its_node(path: str) -> None:
    document = read_yaml(path)
    pod_spec = document["spec"].get("template", document)["spec"]
    fields = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in pod_spec["initContainers"][0]["env"]}
    assert fields == {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name"}


def test_a_jenkins_build_stays_stable_after_a_retry_elsewhere() -> None:
    """The junit step marks a build with a failed test case unstable by default (jenkinsci/junit-plugin)."""
    (step,) = re.findall(r"^\s*junit .*$", read_text("jenkins/Jenkinsfile"), re.MULTILINE)
    assert {"testResults: 'gpuenv.xml'", "skipMarkingBuildUnstable: true", "allowEmptyResults: true"} <= {
        part.strip().removeprefix("junit ") for part in step.split(",")
    }


def test_the_artifacts_of_the_gitlab_recipe_are_the_written_reports() -> None:
    artifacts = read_yaml("gitlab/gitlab-ci.yml")["gpu-tests"]["artifacts"]
    written = re.findall(r"(?:--format \w+|--junitxml)=(\S+)", " ".join(gitlab_job()))
    reports = artifacts["reports"]
    assert {*artifacts["paths"], *reports["junit"], reports["codequality"]} == set(written)


MISMATCH = (
    "scontrol update NodeName=gpu07 State=DRAIN Reason=gpuenv DRV107: "
    "The loaded kernel module and the driver's libraries have different versions"
)
SHOW = "scontrol show node gpu07"


def node_script(
    ci: Runner, variables: Mapping[str, str] | None = None, *, state: str = "IDLE", requeue: int = 0
) -> tuple[int, list[str]]:
    """Runs the recipe of a node with a stand-in for the scheduler's program; returns status and calls."""
    calls = ci.folder / "calls"
    answers = f"show) echo State={state} ;; requeue) exit {requeue} ;;"
    stub = f'#!/bin/sh\necho "scontrol $*" >> {calls}\ncase $1 in {answers} esac\n'
    (ci.folder.parent / "bin/scontrol").write_text(stub, encoding="utf-8")
    (ci.folder.parent / "bin/scontrol").chmod(0o755)
    result = ci.run(["sh", str(RECIPES / "slurm/node.sh")], SLURMD_NODENAME="gpu07", **(variables or {}))
    return result.returncode, calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []


@pytest.mark.parametrize(
    ("machine", "calls"), [(FIT, []), (WITHOUT_CUPY, []), (BROKEN, [SHOW, MISMATCH])], ids=["fit", "no-cupy", "broken"]
)
def test_the_health_check_drains_only_bad_nodes_with_the_finding(
    runner: Callable[[str], Runner], machine: str, calls: list[str]
) -> None:
    assert node_script(runner(machine)) == (0, calls)


@pytest.mark.parametrize("machine", [FIT, BROKEN])
def test_the_health_check_leaves_a_report_in_a_shared_folder(
    runner: Callable[[str], Runner], tmp_path: Path, machine: str
) -> None:
    assert node_script(runner(machine), {"GPUENV_REPORTS": str(tmp_path / "reports")})[0] == 0
    report = parse_node_report((tmp_path / "reports/gpu07.json").read_bytes())
    assert report.exit_code == (0 if machine == FIT else 1)


def test_a_drained_node_keeps_its_reason(runner: Callable[[str], Runner]) -> None:
    assert node_script(runner(BROKEN), state="IDLE+DRAIN") == (0, [SHOW])


@pytest.mark.parametrize(("requeue", "status"), [(0, 0), (1, 1)], ids=["batch", "interactive"])
def test_the_prolog_requeues_the_job_of_a_bad_node(runner: Callable[[str], Runner], requeue: int, status: int) -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}
    result = node_script(runner(BROKEN), job, requeue=requeue)
    assert result == (status, [SHOW, MISMATCH, "scontrol requeue 7"])


def test_the_epilog_drains_and_does_not_requeue(runner: Callable[[str], Runner]) -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}
    assert node_script(runner(BROKEN), job) == (0, [SHOW, MISMATCH])


def test_a_job_without_a_gpu_is_not_examined(runner: Callable[[str], Runner]) -> None:
    assert node_script(runner(BROKEN), {"SLURM_JOB_ID": "7"}) == (0, [])


@pytest.mark.parametrize(("machine", "code", "calls"), [(FIT, 0, []), (BROKEN, 75, ["requeue", "update"])])
def test_the_slurm_job_on_a_bad_node_is_requeued(
    runner: Callable[[str], Runner], machine: str, code: int, calls: list[str]
) -> None:
    """The scheduler's programs are not available; stand-ins log that the right ones are called."""
    ci = runner(machine)
    programs = ci.folder.parent / "bin"
    for name in ("scontrol", "python"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $1" >> {ci.folder}/calls\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    result = ci.run(["bash", str(RECIPES / "slurm/job.sh")], SLURM_JOB_ID="7", SLURMD_NODENAME="node1")
    assert result.returncode == code, result.stdout + result.stderr
    logged = (ci.folder / "calls").read_text(encoding="utf-8").splitlines()
    assert logged == ([f"scontrol {call}" for call in calls] or ["python train.py"])
