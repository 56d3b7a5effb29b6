"""NVIDIA_REQUIRE_*: the grammar and the evaluation of the container runtime."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuenv.image.inspect.nvidia_require import Condition, HostFacts, RequireError, holds, parse, requirements, unmet

# As nvidia/cuda:12.9 images have it, shortened.
OF_12_9 = (
    "cuda>=12.9 brand=unknown,driver>=535,driver<536 brand=nvidiartx,driver>=535,driver<536 "
    "brand=unknown,driver>=550,driver<551 brand=tesla,driver>=535,driver<536 brand=tesla,driver>=550,driver<551"
)


def machine(driver: str, cuda: str, brand: str = "tesla") -> HostFacts:
    return HostFacts(cuda=cuda, driver=driver, arch="9.0", brand=brand)


@pytest.mark.parametrize(
    ("host", "met"),
    [
        (machine("575.51.03", "12.9"), True),
        (machine("580.95.05", "13.0", "geforce"), True),
        (machine("535.104.05", "12.2"), True),
        (machine("535.104.05", "12.2", "GeForce"), False),
        (machine("545.23.08", "12.3"), False),
        (machine("555.42.02", "12.5"), False),
        (machine("550.54.15", "12.4", "TESLA"), True),
        (machine("550.54.15", "12.4", "unknown"), True),
        (HostFacts(), True),
        (HostFacts(cuda="12.2"), True),  # the driver is not known, so its conditions hold
    ],
)
def test_an_image_of_cuda_12_9(host: HostFacts, met: bool) -> None:  # noqa: FBT001 - a table
    requirement = parse(OF_12_9)
    assert holds(requirement, host) is met
    assert (unmet(requirement, host) == ()) is met


def test_unmet_conditions_are_listed_for_each_alternative() -> None:
    first, *others = unmet(parse(OF_12_9), machine("545.23.08", "12.3"))
    assert first == (Condition("cuda", ">=", "12.9"),)
    assert [str(entry) for entry in others[-1]] == ["driver>=550"]
    assert [str(entry) for entry in others[0]] == ["brand=unknown", "driver<536"]


@pytest.mark.parametrize("text", ["", " ", ",", " , ", ",,  ,"])
def test_nothing_is_required(text: str) -> None:
    assert holds(parse(text), HostFacts("1.0", "1", "1.0", "tesla"))


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("cuda>=12", True),
        ("cuda=12.4", True),
        ("cuda=12.4.0", True),
        ("cuda<12.4.0", False),
        ("cuda>12.4.0.1", False),
        ("cuda!=12.4", False),
        ("cuda!12.4", False),  # evaluate_rule takes it for the operator that begins so
        ("brand!geforce", True),
        ("CUDA>=12.4", True),
        ("cuda<=12.3", False),
        ("cuda>12.10", False),
        ("arch>=8.0,arch<10", True),
        ("brand!=geforce", True),
        ("cuda>=13,driver>=1 driver=550.54.15", True),
    ],
)
def test_comparisons(text: str, met: bool) -> None:  # noqa: FBT001 - a table
    assert holds(parse(text), machine("550.54.15", "12.4")) is met


@pytest.mark.parametrize(
    "text", ["cuda", ">=12", "cuda=", "cuda==12", "cuda=>12", "cuda<>12", "gpu=h100", "cuda>=twelve", "brand>tesla"]
)
def test_an_invalid_requirement_is_refused(text: str) -> None:
    with pytest.raises(RequireError, match=r"condition|order|version"):
        parse(text)


def test_the_variables_with_requirements() -> None:
    image = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "NVIDIA_REQUIRE_OTHER": "arch>=7.0", "PATH": "/bin"}
    assert requirements(image) == {name: image[name] for name in ("NVIDIA_REQUIRE_CUDA", "NVIDIA_REQUIRE_OTHER")}
    assert requirements({**image, "NVIDIA_REQUIRE_JETPACK": "csv-mounts=all"}) == requirements(image)
    for word in ("1", "true", "T"):
        assert requirements({**image, "NVIDIA_DISABLE_REQUIRE": word}) == {}
    for word in ("0", "false", "yes", ""):
        assert requirements({**image, "NVIDIA_DISABLE_REQUIRE": word}) == requirements(image)


def test_cuda_version_alone_is_a_requirement() -> None:
    assert requirements({"CUDA_VERSION": "9.2.148"}) == {"CUDA_VERSION": "cuda>=9.2"}
    assert requirements({"CUDA_VERSION": "12.4.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}) == {
        "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"
    }
    assert requirements({"CUDA_VERSION": "no version"}) == {}


VERSIONS = st.lists(st.integers(0, 700), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
CONDITIONS = st.builds(
    lambda key, operator, value: f"{key}{operator}{value}",
    st.sampled_from(["cuda", "driver", "arch"]),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    VERSIONS,
)
ALTERNATIVES = st.lists(CONDITIONS, min_size=1, max_size=3).map(",".join)
TEXTS = st.lists(ALTERNATIVES, min_size=1, max_size=4)
MACHINES = st.builds(HostFacts, VERSIONS, VERSIONS, VERSIONS, st.sampled_from(["tesla", "geforce"]))


@given(TEXTS, ALTERNATIVES, MACHINES)
def test_one_more_alternative_never_refuses_a_machine(texts: list[str], more: str, host: HostFacts) -> None:
    if holds(parse(" ".join(texts)), host):
        assert holds(parse(" ".join([*texts, more])), host)


@given(ALTERNATIVES, CONDITIONS, MACHINES)
def test_one_more_condition_never_admits_a_machine(alternative: str, more: str, host: HostFacts) -> None:
    if holds(parse(f"{alternative},{more}"), host):
        assert holds(parse(alternative), host)


@given(VERSIONS, VERSIONS)
def test_of_three_comparisons_exactly_one_holds(first: str, second: str) -> None:
    host = HostFacts(cuda=first)
    assert sum(holds(parse(f"cuda{operator}{second}"), host) for operator in ("<", "=", ">")) == 1


@given(st.lists(st.integers(450, 600), min_size=2, max_size=4, unique=True).map(sorted))
def test_a_branch_window_admits_that_branch_alone(branches: list[int]) -> None:
    window = parse(f"driver>={branches[0]},driver<{branches[0] + 1}")
    for earlier, later in pairwise(branches):
        assert holds(window, HostFacts(driver=f"{earlier}.54.15")) == (earlier == branches[0])
        assert not holds(window, HostFacts(driver=f"{later}.54.15"))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        requirement = parse(text)
    except RequireError:
        return
    assert holds(requirement, HostFacts())
