"""``make audit``: are the installed dependencies known to be vulnerable? Clean, vulnerable, or not audited.

pip-audit asks the advisory service; it calls a package clean that the service could not be asked about. So old packages
with long-known faults are planted among those asked about: unless each is flagged, and no package was passed over,
nothing is called clean.
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
PLANTED: dict[str, str] = {"requests": "2.19.0", "pyyaml": "5.1"}
CLEAN, VULNERABLE, NOT_AUDITED = 0, 1, 3
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of an audit: an exit code, and the lines that say why."""

    code: int
    lines: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Audits what is installed beside this interpreter."""
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--osv-url", help="ask this service of OSV's kind instead of the package index")
    parser.add_argument("packages", nargs="*", metavar="NAME==VERSION", help="instead of what is installed")
    given = parser.parse_args(arguments)
    packages = dict(text.split("==", 1) for text in given.packages) or installed()
    verdict = audit(packages, ("-s", "osv", "--osv-url", given.osv_url) if given.osv_url else ())
    sys.stdout.write("".join(f"{line}\n" for line in verdict.lines))
    return verdict.code


def installed() -> dict[str, str]:
    """The distributions of this environment but for our own, which is on no index."""
    found = {canonicalize_name(entry.metadata["Name"]): entry.version for entry in metadata.distributions()}
    return {name: release for name, release in found.items() if name != "gpuenv"}


def audit(packages: Mapping[str, str], options: Sequence[str] = ()) -> Verdict:
    """Asks about the packages, and about the planted ones in a question of their own."""
    planted, _ = _ask(PLANTED, options)
    flagged = {entry["name"].lower() for entry in planted if entry.get("vulns")}
    told, complaint = _ask(packages, options)
    skipped = [f"{entry['name']}: {entry['skip_reason']}" for entry in told if "skip_reason" in entry]
    vulnerable = sorted(
        f"VULNERABLE {entry['name']} {entry['version']}: {', '.join(_ids(entry['vulns']))}"
        for entry in told
        if entry.get("vulns")
    )
    asked = {canonicalize_name(entry["name"]) for entry in told}
    missing = sorted(name for name in packages if canonicalize_name(name) not in asked)
    doubts = [
        *(f"the planted {name} {PLANTED[name]} was not flagged" for name in sorted(set(PLANTED) - flagged)),
        *(f"no word on {name}" for name in missing[:3]),
        *skipped[:3],
        *([complaint] if complaint and missing else []),
    ]
    if vulnerable:
        return Verdict(VULNERABLE, (*vulnerable, *(f"not audited: {doubt}" for doubt in doubts)))
    if doubts:
        return Verdict(NOT_AUDITED, ("NOT AUDITED", *(f"  {doubt}" for doubt in doubts)))
    return Verdict(CLEAN, (f"CLEAN: {len(packages)} packages; the planted old ones were flagged",))


def _ask(packages: Mapping[str, str], options: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each package, and its complaint where it says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "packages.txt"
        listed.write_text("".join(f"{name}=={release}\n" for name, release in packages.items()), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "pip_audit", "-r", str(listed), "--no-deps", "--disable-pip", "--format", "json"),
            *("--timeout", "15", "--progress-spinner", "off", "--cache-dir", str(Path(folder) / "cache"), *options),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            return [], f"pip-audit did not answer within {_PATIENCE:.0f} s"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], lines[-1][:200] if lines else f"pip-audit ended with {done.returncode}"
    # Its last word is that nothing was found, also where nobody answered.
    return found, ""


def _ids(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(entry["id"]) for entry in entries]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
