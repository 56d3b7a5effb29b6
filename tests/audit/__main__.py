"""``make audit``: reports whether the installed dependencies are clean, vulnerable, or not audited.

pip-audit calls a package clean if the advisory service cannot be reached. Old packages with known vulnerabilities are
therefore queried as controls: the verdict is clean only if each of them is flagged and no package is skipped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# CVE-2018-18074 (requests before 2.20.0) and CVE-2020-14343 (PyYAML before 5.4), each in the public advisory databases.
CONTROLS: dict[str, str] = {"requests": "2.19.0", "pyyaml": "5.1"}
CLEAN, VULNERABLE, NOT_AUDITED = 0, 1, 3
_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an audit: an exit code, and the lines that explain it."""

    code: int
    lines: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Audits the packages installed in this environment."""
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--osv-url", help="query this OSV service instead of the package index")
    parser.add_argument(
        "packages", nargs="*", metavar="NAME==VERSION", help="audit these instead of the installed packages"
    )
    options = parser.parse_args(arguments)
    packages = dict(text.split("==", 1) for text in options.packages) or installed()
    verdict = audit(packages, ("-s", "osv", "--osv-url", options.osv_url) if options.osv_url else ())
    sys.stdout.write("".join(f"{line}\n" for line in verdict.lines))
    return verdict.code


def installed() -> dict[str, str]:
    """Returns the distributions of this environment except gpuenv."""
    versions = {canonicalize_name(entry.metadata["Name"]): entry.version for entry in metadata.distributions()}
    return {name: release for name, release in versions.items() if name != "gpuenv"}


def audit(packages: Mapping[str, str], options: Sequence[str] = ()) -> Verdict:
    """Queries the packages, and the controls in a separate query."""
    controls, _ = _query(CONTROLS, options)
    flagged = {entry["name"].lower() for entry in controls if entry.get("vulns")}
    entries, error = _query(packages, options)
    skipped = [f"{entry['name']}: {entry['skip_reason']}" for entry in entries if "skip_reason" in entry]
    vulnerable = sorted(
        f"VULNERABLE {entry['name']} {entry['version']}: {', '.join(_ids(entry['vulns']))}"
        for entry in entries
        if entry.get("vulns")
    )
    answered = {canonicalize_name(entry["name"]) for entry in entries}
    missing = sorted(name for name in packages if canonicalize_name(name) not in answered)
    doubts = [
        *(f"the control {name} {CONTROLS[name]} was not flagged" for name in sorted(set(CONTROLS) - flagged)),
        *(f"no answer for {name}" for name in missing[:3]),
        *skipped[:3],
        *([error] if error and missing else []),
    ]
    if vulnerable:
        return Verdict(VULNERABLE, (*vulnerable, *(f"not audited: {doubt}" for doubt in doubts)))
    if doubts:
        return Verdict(NOT_AUDITED, ("NOT AUDITED", *(f"  {doubt}" for doubt in doubts)))
    return Verdict(CLEAN, (f"CLEAN: {len(packages)} packages; the controls were flagged",))


def _query(packages: Mapping[str, str], options: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """Returns pip-audit's entry for each package, or its error message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packages.txt"
        path.write_text("".join(f"{name}=={release}\n" for name, release in packages.items()), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "pip_audit", "-r", str(path), "--no-deps", "--disable-pip", "--format", "json"),
            *("--timeout", "15", "--progress-spinner", "off", "--cache-dir", str(Path(folder) / "cache"), *options),
        ]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            return [], f"pip-audit did not answer within {_TIMEOUT:.0f} s"
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    try:
        entries: list[dict[str, Any]] = json.loads(result.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], lines[-1][:200] if lines else f"pip-audit ended with {result.returncode}"
    # Its last line reads that nothing was found, even if the service did not answer.
    return entries, ""


def _ids(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(entry["id"]) for entry in entries]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
