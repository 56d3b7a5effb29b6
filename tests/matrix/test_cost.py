"""The cost of the matrix, as ratios within one run, since times differ between machines and hours."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

from gpuenv.data import COMPILED_MATRIX, DATA, data_path
from gpuenv.matrix import load, strict_yaml
from gpuenv.matrix.assume import assume
from gpuenv.matrix.csv_tables import file_names, read_tables
from gpuenv.matrix.resolve import choose, resolve, resolve_all
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Snapshot
from tests.matrix.resolutions import machine
from tests.matrix.table import PLATFORMS, PYTHONS

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")


def _fastest(work: Callable[[], object], times: int = 9) -> float:
    """The least seconds of processor time, which exclude other processes."""
    seconds = []
    for _ in range(times):
        gc.collect()
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _machines(matrix: Matrix, count: int) -> list[Snapshot]:
    """Different machines of every kind."""
    random = Random(4)  # noqa: S311 - no secret
    products = [row.name for row in matrix.products]
    machines = []
    for number in range(count):
        facts = (*random.choice(PLATFORMS)[1], f"python={random.choice(PYTHONS)}")
        driver = f"{random.choice(matrix.driver_branches).branch}.{number % 90}.{number // 90:02d}"
        gpus = [f"gpu={random.choice(products)}" for _ in range(random.choice((1, 1, 1, 2)))]
        try:
            machines.append(assume(Snapshot(), (*facts, f"driver={driver}", *gpus), matrix))
        except ValueError:  # a name that several products share
            machines.append(assume(Snapshot(), (*facts, f"driver={driver}", "gpu=H100"), matrix))
    return machines


def test_loading_costs_at_most_twice_the_parsing_of_its_files() -> None:
    tables = {name: (DATA / name).read_bytes() for name in file_names()}
    parsing, loading = [], []
    for _ in range(9):  # in turn, since the speed of the processor varies
        parsing.append(_fastest(lambda: (strict_yaml.parse(TEXT), read_tables(tables)), 1))
        loading.append(_fastest(lambda: load.parse(TEXT, "matrix.yaml"), 1))
    parse_only, total = min(parsing), min(loading)
    sys.stdout.write(f"load and validate: {total * 1000:.0f} ms, {total / parse_only:.2f} x the parsing alone\n")
    assert total <= 2 * parse_only


def test_loading_the_compiled_matrix_costs_a_fifth_of_loading_the_yaml() -> None:
    total = _fastest(lambda: load.parse(TEXT, "matrix.yaml"))
    compiled = _fastest(lambda: load.load(data_path("matrix.yaml"), compiled=COMPILED_MATRIX))
    sys.stdout.write(f"load the compiled matrix: {compiled * 1000:.0f} ms, {compiled / total:.2f} x the YAML\n")
    assert compiled <= total / 5


def test_one_resolution_is_cheaper_than_loading(matrix: Matrix) -> None:
    total = _fastest(lambda: load.parse(TEXT, "matrix.yaml"))
    snapshot = machine(matrix, "driver=580.95.05", "gpu=V100", "gpu=H100")
    fresh = load.parse(TEXT, "matrix.yaml")  # without cached results
    first = _fastest(lambda: resolve(snapshot, fresh), 1)
    later = _fastest(lambda: resolve(snapshot, matrix))
    sys.stdout.write(
        f"one resolution: first {first * 1000:.1f} ms, then {later * 1000:.1f} ms; load {total * 1000:.0f} ms\n"
    )
    assert first < total
    assert later < total / 4


def test_many_machines_in_one_process_cost_less_than_one_at_a_time(matrix: Matrix) -> None:
    machines = _machines(matrix, 10_000)

    def seconds(count: int) -> float:
        start = time.process_time()
        for snapshot in machines[:count]:
            choose(snapshot, matrix)
        return time.process_time() - start

    seconds(500)
    thousand, total = seconds(1000), seconds(10_000)
    facts = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100")
    command = [sys.executable, "-m", "gpuenv", "resolve", "--no-probe", "--format", "json"]
    command += [word for fact in facts for word in ("--assume", fact)]
    separate = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        separate.append(time.perf_counter() - start)
    per_machine = total / len(machines)
    text = f"10,000 machines: {total:.1f} s, {min(separate) / per_machine:.0f} x cheaper a machine than one at a time"
    sys.stdout.write(f"{text}; {total / thousand:.1f} x the cost of 1,000\n")
    assert min(separate) >= 20 * per_machine
    assert total <= 15 * thousand


def test_equal_machines_cost_one_resolution(matrix: Matrix) -> None:
    """600 machines of 20 kinds cost at most a fifth of 600 kinds."""
    different = _machines(matrix, 600)
    equal = [
        snapshot._replace(taken_at=f"2026-11-28T10:00:00.{number:06d}Z")
        for number, snapshot in enumerate(different[:20] * 30)
    ]
    resolve_all(different[:20], matrix)
    many = _fastest(lambda: resolve_all(different, matrix), 1)
    few = _fastest(lambda: resolve_all(equal, matrix), 3)
    sys.stdout.write(f"600 machines: {many:.1f} s; of 20 kinds {few:.2f} s\n")
    assert few <= many / 5


def test_cost_grows_at_most_linearly_with_releases(matrix: Matrix) -> None:
    """Four times the releases cost at most six times as much time."""
    snapshot = machine(matrix, "driver=580.95.05", "gpu=V100")

    def grown(factor: int) -> Matrix:
        lines = tuple(
            line._replace(releases=tuple(row._replace() for _ in range(factor) for row in line.releases))
            for line in matrix.wheel_lines
        )
        return replace(matrix, wheel_lines=lines, images=(), conda_builds=())

    small, large = grown(1), grown(4)
    one, four = _fastest(lambda: resolve(snapshot, small)), _fastest(lambda: resolve(snapshot, large))
    sys.stdout.write(f"four times the rows: {four / one:.1f} x the cost\n")
    assert four <= 6 * one
