"""``make test-fresh``: ``make doctor`` and ``make test`` on bare Debian systems, as root and as an ordinary user.

Each system is made by debootstrap and gets the packages that the README's ``apt install`` line names, and no others.
The last commit is checked out below ``/root`` and ``/home``, on one of the systems in a folder with a space. It needs
root, debootstrap, Debian's packages and a package index; without root or debootstrap it says so and does nothing.
Only the standard library is used, so that no environment has to be made for it first.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKOUT = Path(__file__).parents[2]
SUITES = {"bookworm": "gpuenv", "trixie": "a folder/gpuenv"}  # Debian 12 and 13: the checkout's place below the home
HOMES = {"root": "/root", "tester": "/home/tester"}
SECONDS = 1800.0  # for one command
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
# Variables that lead to a package index: proxies, mirrors and certificate authorities.
_NETWORK = re.compile(
    r"(?i:https?|no|all)_(?i:proxy)|PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT|DEFAULT_TIMEOUT)|SSL_CERT_FILE"
)
_SUMMARY = re.compile(r"^\d+ (?:passed|failed).*$", re.MULTILINE)
# The mounts and all processes end with the command.
_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c")
_MOUNT = 'for name in dev sys; do mount --rbind /$name "$0/$name"; done; mount -t proc proc "$0/proc"; exec "$@"'


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each command on each system.

    Returns:
        The exit code: 1 if a command failed, else 0, also where nothing could be run.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", choices=SUITES, action="append", help="instead of all")
    parser.add_argument("--user", choices=HOMES, action="append", help="instead of both")
    parser.add_argument("--logs", type=Path, default=CHECKOUT / ".cache/fresh", help="the folder of all output")
    options = parser.parse_args(arguments)
    missing = "root" if os.geteuid() != 0 else None if shutil.which("debootstrap") else "debootstrap"
    if missing:
        report(f"skipped: make test-fresh needs {missing}")
        return 0

    options.logs.mkdir(parents=True, exist_ok=True)
    failed = False
    for suite in options.suite or SUITES:
        with tempfile.TemporaryDirectory(prefix=f"gpuenv-{suite}-") as folder:
            system = Path(folder)
            system.chmod(0o755)  # the root of a system is everybody's
            make_system(suite, system, options.logs / f"{suite}.log")
            for user in options.user or HOMES:
                checkout = f"{HOMES[user]}/{SUITES[suite]}"
                check_out(system, checkout, user)
                for target in ("doctor", "test"):
                    log = options.logs / f"{suite}-{user}-{target}.log"
                    log.unlink(missing_ok=True)
                    started = time.monotonic()
                    code = run(system, ["make", "--no-print-directory", "-C", checkout, target], log, user)
                    seconds = time.monotonic() - started
                    report(
                        f"{suite:<9}{user:<7}{checkout:<29}make {target:<7}exit {code}{seconds:5.0f} s  {outcome(log)}"
                    )
                    failed = failed or code != 0
    return 1 if failed else 0


def readme_packages() -> list[str]:
    """The packages of the first ``apt install`` line in the README."""
    match = re.search(r"apt install ([a-z0-9 .+-]+)", (CHECKOUT / "README.md").read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit("README.md: expected a line 'apt install PACKAGE...', found none")
    return match[1].split()


def make_system(suite: str, system: Path, log: Path) -> None:
    """Makes a minimal Debian with the README's packages, an ordinary user and the network of this machine."""
    with log.open("wb") as output:
        command = ["debootstrap", "--variant=minbase", suite, str(system)]
        result = subprocess.run(command, stdout=output, stderr=output, check=False)
    if result.returncode != 0:
        raise SystemExit(f"debootstrap {suite} failed: see {log}")
    shutil.copy("/etc/resolv.conf", system / "etc/resolv.conf")
    for command in (
        ["apt-get", "update"],
        ["apt-get", "install", "--yes", *readme_packages()],
        ["useradd", "--create-home", "tester"],
    ):
        if run(system, command, log) != 0:
            raise SystemExit(f"{' '.join(command)} failed on {suite}: see {log}")
    (system / AUTHORITIES).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(f"/{AUTHORITIES}", system / AUTHORITIES)


def check_out(system: Path, checkout: str, user: str) -> None:
    """Clones the last commit into the system; it belongs to the user."""
    folder = system / checkout.lstrip("/")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", CHECKOUT, folder], check=True)
    own = ["chown", "-R", f"{user}:", HOMES[user]]
    subprocess.run(["chroot", system, *own], check=True)


def run(system: Path, command: list[str], log: Path, user: str = "root") -> int:
    """Runs a command inside the system; its output is added to the log.

    Returns:
        The exit code; 124, as of timeout(1), if it did not end in time.
    """
    environment = {name: value for name, value in os.environ.items() if _NETWORK.fullmatch(name)}
    environment |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    environment |= {"HOME": HOMES[user], "USER": user, "DEBIAN_FRONTEND": "noninteractive"}
    inside = ["chroot", f"--userspec={user}:{user}", str(system), *command]
    with log.open("ab") as output:
        try:
            return subprocess.run(
                [*_UNSHARE, _MOUNT, system, *inside],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            return 124


def outcome(log: Path) -> str:
    """The summary that pytest prints, or the last line of a log without one."""
    text = log.read_text(encoding="utf-8", errors="replace")
    summaries = _SUMMARY.findall(text)
    return summaries[-1] if summaries else (text.strip().splitlines() or [""])[-1]


def report(line: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
