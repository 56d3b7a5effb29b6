"""What the matrix costs, as ratios taken in one run: times differ between machines, and on one from hour to hour."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from gpuenv.data import COMPILED_MATRIX, data_path
from gpuenv.matrix import load, strict_yaml
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import choose, resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Snapshot
from tests.matrix.asking import machine
from tests.matrix.table import PLATFORMS, PYTHONS

pytestmark = pytest.mark.slow

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")


def _cheapest(work: Callable[[], object], times: int = 9) -> float:
    """Seconds of processor time, without what others do on this machine."""
    found = []
    for _ in range(times):
        gc.collect()
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def _machines(matrix: Matrix, count: int) -> list[Snapshot]:
    """Different machines of every kind."""
    random = Random(4)  # noqa: S311 - no secret
    products = [row.name for row in matrix.products]
    found = []
    for number in range(count):
        facts = (*random.choice(PLATFORMS)[1], f"python={random.choice(PYTHONS)}")
        driver = f"{random.choice(matrix.driver_branches).branch}.{number % 90}.{number // 90:02d}"
        gpus = [f"gpu={random.choice(products)}" for _ in range(random.choice((1, 1, 1, 2)))]
        try:
            found.append(assume(Snapshot(), (*facts, f"driver={driver}", *gpus), matrix))
        except ValueError:  # a name that several products share
            found.append(assume(Snapshot(), (*facts, f"driver={driver}", "gpu=H100"), matrix))
    return found


def test_loading_costs_at_most_twice_a_bare_strict_read() -> None:
    bare = _cheapest(lambda: strict_yaml.parse(TEXT))
    whole = _cheapest(lambda: load.parse(TEXT, "matrix.yaml"))
    sys.stdout.write(f"load and validate: {whole * 1000:.0f} ms, {whole / bare:.2f} x a bare strict read\n")
    assert whole <= 2 * bare


def test_loading_what_was_compiled_costs_a_fraction_of_a_bare_strict_read() -> None:
    bare = _cheapest(lambda: strict_yaml.parse(TEXT))
    again = _cheapest(lambda: load.load(data_path("matrix.yaml"), compiled=COMPILED_MATRIX))
    sys.stdout.write(f"load what was compiled: {again * 1000:.0f} ms, {again / bare:.2f} x a bare strict read\n")
    assert again <= bare / 4


def test_one_resolution_is_cheaper_than_the_load(matrix: Matrix) -> None:
    whole = _cheapest(lambda: load.parse(TEXT, "matrix.yaml"))
    snapshot = machine(matrix, "driver=580.95.05", "gpu=V100", "gpu=H100")
    fresh = load.parse(TEXT, "matrix.yaml")  # nothing of it is kept anywhere yet
    first = _cheapest(lambda: resolve(snapshot, fresh), 1)
    later = _cheapest(lambda: resolve(snapshot, matrix))
    sys.stdout.write(
        f"one resolution: first {first * 1000:.1f} ms, then {later * 1000:.1f} ms; load {whole * 1000:.0f} ms\n"
    )
    assert first < whole
    assert later < whole / 4


def test_many_machines_in_one_process(matrix: Matrix) -> None:
    machines = _machines(matrix, 10_000)

    def seconds(count: int) -> float:
        start = time.process_time()
        for snapshot in machines[:count]:
            choose(snapshot, matrix)
        return time.process_time() - start

    seconds(500)
    thousand, whole = seconds(1000), seconds(10_000)
    facts = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100")
    command = [sys.executable, "-m", "gpuenv", "resolve", "--no-probe", "--format", "json"]
    command += [word for fact in facts for word in ("--assume", fact)]
    alone = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        alone.append(time.perf_counter() - start)
    each = whole / len(machines)
    text = f"10,000 machines: {whole:.1f} s, {min(alone) / each:.0f} x cheaper a machine than one at a time"
    sys.stdout.write(f"{text}; {whole / thousand:.1f} x the cost of 1,000\n")
    assert min(alone) >= 20 * each
    assert whole <= 15 * thousand


def test_growth_is_at_most_linear_in_rows(matrix: Matrix) -> None:
    """Four times the releases cost at most six times as much."""
    snapshot = machine(matrix, "driver=580.95.05", "gpu=V100")

    def grown(factor: int) -> Matrix:
        lines = tuple(
            line._replace(releases=tuple(row._replace() for _ in range(factor) for row in line.releases))
            for line in matrix.wheel_lines
        )
        return replace(matrix, wheel_lines=lines, images=(), conda_builds=())

    small, large = grown(1), grown(4)
    one, four = _cheapest(lambda: resolve(snapshot, small)), _cheapest(lambda: resolve(snapshot, large))
    sys.stdout.write(f"four times the rows: {four / one:.1f} x the cost\n")
    assert four <= 6 * one
