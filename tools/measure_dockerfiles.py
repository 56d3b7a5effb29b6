"""Measures the rules of ``check-image --dockerfile`` on files of public projects.

    python -m tools.measure_dockerfiles CORPUS [--set NAME] [--list CODE]

CORPUS is a folder with ``index.json``, a list of objects with ``repo`` (owner/name), ``kind``, ``path`` and ``context``
(both in the repository) and ``set``, and with the files of each repository in ``files/OWNER__NAME/``. In it may be
``labels.json``, which maps ``REPO PATH CODE LINE`` to ``true`` (a real fault), ``noise`` (correct but useless) or
``false``. Prints a row for each rule, the crashes, and the time that a file takes. The files are not part of
gpuenv.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuenv.data import data_path
from gpuenv.image.dockerfile.judge import DockerfileOptions, judge_files
from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.matrix.load import load

UNLABELLED = "unlabelled"


@dataclass(frozen=True, slots=True)
class Measured:
    """A finding in a file of the corpus."""

    key: str
    code: str
    severity: str
    title: str
    label: str


def measure(corpus: Path, wanted: str | None) -> tuple[list[Measured], list[str], list[float]]:
    """The findings, the files that were refused or crashed, and the seconds that each file took."""
    matrix = load(data_path("matrix.yaml"))
    entries: list[dict[str, Any]] = json.loads((corpus / "index.json").read_text(encoding="utf-8"))
    labels_file = corpus / "labels.json"
    labels = json.loads(labels_file.read_text(encoding="utf-8")) if labels_file.exists() else {}
    found, failed, seconds = dict[str, Measured](), [], []
    for entry in entries:
        if wanted not in (None, entry["set"]):
            continue
        root = corpus / "files" / entry["repo"].replace("/", "__")
        of_dockerfile = entry["kind"] == "dockerfile"
        options = DockerfileOptions(root / entry["context"] if of_dockerfile else None)
        started = time.perf_counter()
        try:
            judged = judge_files([root / entry["path"]], options, matrix)
        except ImageError as error:
            failed.append(f"refused {entry['repo']} {entry['path']}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - a crash is what is counted
            failed.append(f"CRASHED {entry['repo']} {entry['path']}: {error!r}")
            continue
        seconds.append(time.perf_counter() - started)
        for each in judged.findings:
            file = Path(each.file or "").resolve()
            path = file.relative_to(root.resolve()) if file.is_relative_to(root.resolve()) else file
            key = f"{entry['repo']} {path} {each.code} {each.line}"
            label = labels.get(key, UNLABELLED)
            found[f"{key} {each.title}"] = Measured(key, each.code, each.severity.value, each.title, label)
    return list(found.values()), failed, seconds


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--set", dest="wanted", help="dev or test")
    parser.add_argument("--list", dest="codes", nargs="*", help="print the findings, of these rules")
    args = parser.parse_args()
    found, failed, seconds = measure(args.corpus, args.wanted)
    if args.codes is not None:
        for each in sorted(found, key=lambda each: (each.code, each.severity, each.key)):
            if not args.codes or each.code in args.codes:
                print(f"{each.severity:8} {each.label:10} {each.key}\n    {each.title}")
    print(f"{'rule':7} {'severity':8} {'true':>5} {'noise':>5} {'false':>5} {UNLABELLED:>10}")
    rows = Counter((each.code, each.severity, each.label) for each in found)
    for code, severity in sorted({(code, severity) for code, severity, _ in rows}):
        counts = [rows[code, severity, label] for label in ("true", "noise", "false", UNLABELLED)]
        print(f"{code:7} {severity:8} {counts[0]:5} {counts[1]:5} {counts[2]:5} {counts[3]:10}")
    for severity in ("error", "warning"):
        of_severity = Counter(each.label for each in found if each.severity == severity)
        labelled = sum(of_severity.values()) - of_severity[UNLABELLED]
        share = 100 * of_severity["true"] / labelled if labelled else 0.0
        print(f"{severity}s: {share:.1f} % true of {labelled}")
    print(f"{len(seconds)} files: median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s")
    print(*failed, sep="\n")


if __name__ == "__main__":
    main()
