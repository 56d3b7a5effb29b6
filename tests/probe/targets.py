"""Programs and distributions in a target, and requests to its scripts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.probe.raw_facts import TargetFacts

NOTHING = TargetFacts()


def program(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def distribution(folder: Path, name: str, release: str, *, form: str = "dist-info") -> None:
    """Writes a distribution's metadata in one of the installers' forms."""
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n\nName: in the description\n"
    entry = folder / f"{name.replace('-', '_')}-{release}.{form.removesuffix(' file').removesuffix(' folder')}"
    if form == "egg-info file":
        entry.write_text(head, encoding="utf-8")
        return
    entry.mkdir(parents=True)
    (entry / ("METADATA" if form == "dist-info" else "PKG-INFO")).write_text(head, encoding="utf-8")


def libraries_request(finder: str, libraries: list[dict[str, str]], cupy: Path | None = None) -> str:
    """The request to the libraries script."""
    module = None if cupy is None else str(cupy)
    request = {"finder": finder, "cupy": module, "libraries": libraries, "optional": [], "limit": 10, "without": []}
    return json.dumps(request)


def cupy_lines(facts: TargetFacts) -> list[tuple[str, str]]:
    return [(entry.distribution, entry.release) for entry in facts.distributions]
