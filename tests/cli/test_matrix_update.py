"""``gpuenv matrix update`` from folders, files and a web server on loopback."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import ssl
import stat
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.data import data_path
from gpuenv.files import checksum_of
from gpuenv.matrix.load import load
from gpuenv.model.codec import encode
from tests.cli.program import MINIMAL, PROGRAM, gpuenv
from tests.cli.published_matrix import (
    NEWER,
    NEWEST,
    OLDER,
    Handler,
    Site,
    digest,
    publish,
    published,
    serving,
    without_newest,
)
from tests.cli.snapshots import FIT, write_snapshot
from tests.install.conftest import killer
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["killer"]
IN_USE = MATRIX.revision


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


class User:
    """A user with a data folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "data/gpuenv"
        self.matrix = self.folder / "matrix.json"
        self.former = self.folder / "matrix.former.json"

    def gpuenv(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"XDG_DATA_HOME": str(self.home / "data"), **variables}
        return gpuenv(*arguments, environment=environment, cwd=self.home)

    def update(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.gpuenv("matrix", "update", *arguments, **variables)

    def revision(self) -> str:
        """The revision of the matrix that commands use."""
        result = self.gpuenv("resolve", "--no-probe", "--format", "json")
        revision: str = json.loads(result.stdout)["matrix_revision"]
        return revision

    def is_unchanged(self) -> bool:
        return not self.folder.exists() or not list(self.folder.iterdir())


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def sources(folder: Path, site: Site, content: bytes) -> dict[str, str]:
    """Every kind of source of a matrix with a digest file."""
    site.publish(content)
    file = publish(folder, content)
    return {"address": site.address(), "file": str(file), "folder": str(folder)}


KINDS = ("address", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("file", "folder")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_matrix_is_taken_and_used(user: User, site: Site, tmp_path: Path, kind: str) -> None:
    source = sources(tmp_path / "offline", site, published())[kind]
    result = user.update(source)
    assert result.returncode == 0, result.stderr
    assert f"revision {NEWER}; in use: {IN_USE}" in result.stdout
    assert "No machine profile resolves differently." in result.stdout
    assert stat.S_IMODE(user.matrix.stat().st_mode) == 0o600
    assert user.revision() == NEWER
    again = user.update(source)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "already up to date")


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_shows_the_changes_and_writes_nothing(user: User, site: Site, tmp_path: Path, kind: str) -> None:
    recorded = write_snapshot(FIT, tmp_path / "recorded.json")
    source = sources(tmp_path / "offline", site, published(change=without_newest))[kind]
    result = user.update(source, "--dry-run", "--snapshot", recorded)
    assert result.returncode == 0, result.stderr
    profiles, machines = result.stdout.split("Recorded machines that resolve differently:\n")
    change = rf"\S+=={re.escape(NEWEST)}.* -> \S+=="
    assert re.search(rf"Machine profiles that resolve differently:\n(  .*\n)*  h200-580: {change}", profiles)
    assert re.match(rf"  {re.escape(str(recorded))}: {change}", machines)
    assert result.stdout.endswith("Nothing was written (--dry-run).\n")
    assert user.is_unchanged()
    assert user.revision() == IN_USE


def test_the_same_revision_with_other_content_is_refused(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published())
    assert user.update(tmp_path / "offline").returncode == 0
    publish(tmp_path / "offline", published(change=without_newest))
    result = user.update(tmp_path / "offline")
    assert result.returncode == 2
    assert f"has the revision in use, {NEWER}, and other content" in result.stderr


def test_what_a_later_release_may_read_is_kept(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", json.dumps({**json.loads(published()), "new_table": [1]}).encode())
    assert user.update(tmp_path / "offline").returncode == 0
    assert json.loads(user.matrix.read_text(encoding="utf-8"))["new_table"] == [1]


@pytest.mark.parametrize("damage", ["cut", "a fact"])
def test_a_damaged_matrix_is_reported_and_replaced(user: User, tmp_path: Path, damage: str) -> None:
    publish(tmp_path / "offline", published())
    assert user.update(tmp_path / "offline").returncode == 0
    text = user.matrix.read_text(encoding="utf-8")
    changed = text[:-100] if damage == "cut" else text.replace('"numpy":"', '"numpy":"@@', 1)
    assert changed != text
    user.matrix.write_text(changed, encoding="utf-8")
    result = user.gpuenv("resolve", "--no-probe")
    assert result.returncode == 6
    assert "this is your own matrix" in result.stderr
    repaired = user.update(tmp_path / "offline")
    assert repaired.returncode == 0, repaired.stderr
    assert "it is replaced" in repaired.stderr
    assert user.revision() == NEWER


@pytest.mark.parametrize(
    "form", ["{digest}\tmatrix.json\n", "\ufeff{digest}  matrix.json\r\n", "SHA256 (matrix.json) = {digest}\n"]
)
@pytest.mark.long
def test_digest_files_of_other_tools_are_read(user: User, tmp_path: Path, form: str) -> None:
    publish(tmp_path / "offline", published())
    beside = tmp_path / "offline/matrix.json.sha256"
    beside.write_text(form.format(digest=digest(published())), encoding="utf-8")
    assert user.update(tmp_path / "offline").returncode == 0


def test_a_matrix_in_yaml_is_taken(user: User, tmp_path: Path) -> None:
    text = re.sub("(?m)^revision: .*", f"revision: '{NEWER}'", data_path("matrix.yaml").read_text(encoding="utf-8"))
    publish(tmp_path / "offline", text.encode(), "matrix.yaml")
    result = user.update(tmp_path / "offline")
    assert result.returncode == 0, result.stderr
    taken = load(user.matrix)
    assert (taken.revision, taken.wheel_lines, taken.products) == (NEWER, MATRIX.wheel_lines, MATRIX.products)


def test_the_former_matrix_is_kept_and_can_be_put_back(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published("2998-01-01"))
    assert user.update(tmp_path / "offline").returncode == 0
    publish(tmp_path / "offline", published())
    result = user.update(tmp_path / "offline")
    assert result.returncode == 0, result.stderr
    assert load(user.former).revision == "2998-01-01"
    undo = re.findall(r"To undo:\n  \$ (.*)\n", result.stdout)
    subprocess.run(shlex.split(undo[0]), check=True)
    assert user.revision() == "2998-01-01"


def test_the_first_update_can_be_undone(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published())
    undo = re.findall(r"To undo:\n  \$ (.*)\n", user.update(tmp_path / "offline").stdout)
    subprocess.run(shlex.split(undo[0]), check=True)
    assert user.revision() == IN_USE


def test_an_older_matrix_is_refused(user: User, site: Site) -> None:
    site.publish(published(OLDER))
    result = user.update(site.address())
    assert result.returncode == 2
    assert f"revision {OLDER} is older than {IN_USE}" in result.stderr
    assert user.is_unchanged()


def test_the_message_for_an_older_matrix_names_the_users_own(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published(NEWER))
    assert user.update(tmp_path / "offline").returncode == 0
    publish(tmp_path / "offline", published("2998-01-01"))
    result = user.update(tmp_path / "offline")
    assert result.returncode == 2
    assert f"rm {user.matrix}" in result.stderr
    assert load(user.matrix).revision == NEWER


@pytest.mark.parametrize("timeout", ["nan", "0", "-1", "1e9"])
@pytest.mark.long
def test_an_invalid_time_limit_is_a_usage_error(user: User, site: Site, timeout: str) -> None:
    site.publish(published())
    assert user.update(site.address(), f"--timeout={timeout}").returncode == 2


def test_without_a_source_the_ways_to_name_one_are_listed(user: User) -> None:
    result = user.update()
    assert result.returncode == 2
    for way in ("https://", "FOLDER", "GPUENV_MATRIX_URL"):
        assert way in result.stderr


def test_the_variable_names_the_source(user: User, site: Site) -> None:
    site.publish(published())
    assert user.update("--dry-run", GPUENV_MATRIX_URL=site.address()).returncode == 0
    assert site.asked


def test_a_configuration_of_the_working_folder_names_no_source(user: User, site: Site) -> None:
    site.publish(published())
    for name in ("gpuenv.toml", "pyproject.toml"):
        text = f'matrix-url = "{site.address()}"\n'
        (user.home / name).write_text(text if name == "gpuenv.toml" else f"[tool.gpuenv]\n{text}", encoding="utf-8")
    assert user.update().returncode == 2
    assert site.asked == []


# Digests.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "damage", [lambda content: content[:-1000], lambda content: content.replace(b"14.2.0", b"14.2.1")]
)
def test_a_truncated_or_tampered_matrix_is_refused(
    user: User, site: Site, tmp_path: Path, kind: str, damage: Callable[[bytes], bytes]
) -> None:
    content = published()
    source = sources(tmp_path / "offline", site, content)[kind]
    site.publish(damage(content), digest_of=content)
    (tmp_path / "offline/matrix.json").write_bytes(damage(content))
    result = user.update(source)
    assert result.returncode == 6
    assert "damaged or altered" in result.stderr
    assert user.is_unchanged()


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_without_a_digest_is_refused(user: User, site: Site, tmp_path: Path, kind: str) -> None:
    content = published()
    source = sources(tmp_path / "offline", site, content)[kind]
    del site.pages["/matrix.json.sha256"]
    (tmp_path / "offline/matrix.json.sha256").unlink()
    result = user.update(source)
    assert result.returncode == 2
    assert "--sha256 DIGEST" in result.stderr
    assert user.is_unchanged()
    assert user.update(source, "--sha256", digest(content).upper(), "--dry-run").returncode == 0


def test_the_named_digest_outranks_the_digest_file(user: User, site: Site) -> None:
    site.publish(published())
    result = user.update(site.address(), "--sha256", "0" * 64)
    assert result.returncode == 6
    assert [path for path, _ in site.asked] == ["/matrix.json"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{digest}", 0),
        ("{digest} *dist/matrix.json\n", 0),
        ("{zeros}  other.json\n{digest}  matrix.json\n", 0),
        ("{digest}  other.json\n", 2),
        ("", 2),
        ("<html>not found</html>", 2),
        ("{zeros}  matrix.json\n{digest}  matrix.json\n", 6),
    ],
)
@pytest.mark.long
def test_the_digest_file_is_one_of_sha256sum(user: User, tmp_path: Path, text: str, code: int) -> None:
    file = publish(tmp_path / "offline", published())
    text = text.format(digest=digest(file.read_bytes()), zeros="0" * 64)
    file.with_name("matrix.json.sha256").write_text(text, encoding="utf-8")
    assert user.update(file, "--dry-run").returncode == code


@pytest.mark.parametrize("text", ["", "abc", "g" * 64, "0" * 63])
@pytest.mark.long
def test_a_malformed_digest_is_a_usage_error(user: User, tmp_path: Path, text: str) -> None:
    publish(tmp_path / "offline", published())
    assert user.update(tmp_path / "offline", f"--sha256={text}").returncode == 2


# Invalid matrices.


def lacks_products(data: dict[str, Any]) -> None:
    del data["products"]


def cites_nothing(data: dict[str, Any]) -> None:
    data["wheel_lines"][0]["releases"][0]["source"] = "no-such-source"


INVALID: dict[str, tuple[bytes, str]] = {
    "no JSON": (b'{"schema": ', "line 1"),
    "deep": (b'{"schema":' + b"[" * 200_000, "recursion"),
    "no text": (b"\xff\xfe", "UTF-8"),
    "empty": (b"", "expected a matrix with schema"),
    "another schema": (published(change=lambda data: data.update(schema="gpuenv.matrix/2")), "gpuenv.matrix/2"),
    "no table": (published(change=lacks_products), "lacks products"),
    "a wrong type": (published(change=lambda data: data.update(images={})), "images: expected a list"),
    "a fault": (published(change=cites_nothing), "the source no-such-source is not among the sources"),
    "no day": (published("latest"), "revision: expected a day"),
}


@pytest.mark.parametrize(("content", "fault"), INVALID.values(), ids=INVALID)
@pytest.mark.long
def test_an_invalid_matrix_is_refused(user: User, tmp_path: Path, content: bytes, fault: str) -> None:
    publish(tmp_path / "offline", content)
    result = user.update(tmp_path / "offline")
    assert result.returncode == 6
    assert fault in result.stderr
    assert user.is_unchanged()


def test_unknown_keys_of_a_later_release_are_accepted(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published(change=lambda data: data.update(new_table=[1])))
    assert user.update(tmp_path / "offline", "--dry-run").returncode == 0


def test_a_file_that_is_too_large_is_refused(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published() + b" " * (8 * 1024 * 1024))
    result = user.update(tmp_path / "offline")
    assert result.returncode == 2
    assert "larger than" in result.stderr


@pytest.mark.parametrize("name", ["missing.json", "empty"])
def test_a_missing_matrix_is_a_usage_error(user: User, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    result = user.update(tmp_path / name)
    assert result.returncode == 2
    assert name in result.stderr


# Faulty servers.


def hangs(handler: Handler) -> None:
    handler.site.stopped.wait()


def trickles_headers(handler: Handler) -> None:
    handler.trickle(b"HTTP/1.1 200 OK\r\nX-Header: ")


def trickles_content(handler: Handler) -> None:
    handler.trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n")


def sends_too_much(handler: Handler) -> None:
    handler.answer(200, b" " * (8 * 1024 * 1024 + 1))


def ends_early(handler: Handler) -> None:
    handler.answer(200, published()[:-1000], **{"Content-Length": str(len(published()))})


def drops(handler: Handler) -> None:
    handler.connection.close()


@pytest.mark.parametrize("page", ["/matrix.json", "/matrix.json.sha256"])
@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (hangs, "no answer within 2 s"),
        (trickles_headers, "no answer within 2 s"),
        (trickles_content, "no answer within 2 s"),
        (sends_too_much, "larger than"),
        (ends_early, None),
        (drops, "cannot be downloaded"),
        (lambda handler: handler.answer(500, b""), "the server answers 500"),
        (lambda handler: handler.answer(401, b""), "the server answers 401"),
        (lambda handler: handler.wfile.write(b"HTTP/1.1 500 \r\n\r\n"), "the server answers 500; "),
    ],
)
@pytest.mark.long
def test_a_faulty_server_changes_nothing(
    user: User, site: Site, page: str, respond: Callable[[Handler], None], reason: str | None
) -> None:
    site.publish(published())
    site.pages[page] = respond
    started = time.monotonic()
    result = user.update(site.address(), "--timeout", "2")
    assert time.monotonic() - started < 20
    assert result.returncode == 8
    assert (reason or ("cut short" if page == "/matrix.json" else "larger than")) in result.stderr
    assert "the matrix is unchanged" in result.stderr
    assert user.is_unchanged()


def test_a_missing_page_is_no_missing_digest(user: User, site: Site) -> None:
    result = user.update(site.address("/nowhere.json"))
    assert result.returncode == 8
    assert "the server answers 404" in result.stderr


def test_a_server_that_is_away_is_named(user: User) -> None:
    result = user.update("http://127.0.0.1:9/matrix.json")
    assert result.returncode == 8
    assert "http://127.0.0.1:9/matrix.json: cannot be downloaded" in result.stderr


@pytest.mark.parametrize("page", ["/matrix.json", "/matrix.json.sha256"])
def test_a_redirect_to_another_host_is_refused(user: User, site: Site, page: str) -> None:
    site.publish(published())
    content = site.pages[page]
    site.pages[f"/moved{page}"] = content
    site.pages[page] = lambda handler: handler.answer(302, b"", Location=site.address(f"/moved{page}", "localhost"))
    result = user.update(site.address())
    assert result.returncode == 8
    for host in ("127.0.0.1", "localhost"):
        assert f"http://{host}:{site.port}" in result.stderr
    assert user.is_unchanged()
    assert f"/moved{page}" not in [path for path, _ in site.asked]


def test_a_redirect_within_the_host_is_followed(user: User, site: Site) -> None:
    site.publish(published())
    for page in list(site.pages):
        site.pages[f"/moved{page}"] = site.pages[page]
        site.pages[page] = lambda handler: handler.answer(301, b"", Location=f"/moved{handler.path}")
    assert user.update(site.address(), "--dry-run").returncode == 0


# Addresses.


@pytest.mark.parametrize(
    "address",
    [
        "http://matrix.example/matrix.json",
        "http://user:secret@matrix.example/matrix.json",
        "ftp://127.0.0.1/matrix.json",
        "file:///etc/passwd",
        "https://",
        "https://matrix.example/",
        "https://[::1/matrix.json",
        "https://user:pa/secret@matrix.example/matrix.json",
    ],
)
@pytest.mark.long
def test_an_unsuitable_address_is_a_usage_error(user: User, address: str) -> None:
    result = user.update(address)
    assert result.returncode == 2
    assert "secret" not in result.stderr


def test_a_named_digest_makes_up_for_missing_encryption_and_proxies_are_used(user: User, site: Site) -> None:
    content = published()
    site.pages["http://matrix.example/matrix.json"] = content
    arguments = ("http://matrix.example/matrix.json", "--sha256", digest(content), "--dry-run")
    result = user.update(*arguments, http_proxy=site.address(""))
    assert result.returncode == 0, result.stderr
    assert [path for path, _ in site.asked] == ["http://matrix.example/matrix.json"]


def test_credentials_are_sent_and_not_shown(user: User, site: Site) -> None:
    site.publish(published())
    for page in ("", ".sha256"):
        site.pages[f"/matrix.json{page}?v=s3cr3t"] = site.pages[f"/matrix.json{page}"]
    address = site.address("/matrix.json?v=s3cr3t").replace("//", "//me:p4ss%20word@")
    result = user.update(address)
    assert result.returncode == 0, result.stderr
    assert {authorization for _, authorization in site.asked} == {"Basic bWU6cDRzcyB3b3Jk"}
    site.pages.clear()
    failed = user.update(address)
    assert failed.returncode == 8
    for text in (result.stdout, result.stderr, failed.stdout, failed.stderr):
        assert not re.search("p4ss|s3cr3t", text)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_certificate_must_be_trusted(user: User, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=loop"]
        + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(context) as site:
        site.publish(published())
        refused = user.update(site.address(scheme="https"))
        assert refused.returncode == 8
        assert "its certificate is not trusted" in refused.stderr
        assert site.asked == []
        trusted = user.update(site.address(scheme="https"), SSL_CERT_FILE=str(certificate))
        assert trusted.returncode == 0, trusted.stderr
        site.pages["/matrix.json"] = lambda handler: handler.answer(302, b"", Location=site.address())
        downgraded = user.update(site.address(scheme="https"), SSL_CERT_FILE=str(certificate))
        assert downgraded.returncode == 8
        assert "not encrypted" in downgraded.stderr


# The data folder.


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: changes owners")
@pytest.mark.parametrize("damage", [lambda path: os.chown(path, 12345, 12345), lambda path: path.chmod(0o777)])
def test_nothing_is_written_where_others_could_change_it(
    user: User, site: Site, damage: Callable[[Path], None]
) -> None:
    site.publish(published())
    user.folder.mkdir(parents=True)
    damage(user.folder)
    result = user.update(site.address())
    assert result.returncode == 2
    assert "your own matrix cannot be written" in result.stderr
    assert user.is_unchanged()
    assert site.asked == [], "nothing is downloaded in vain"


def test_a_data_folder_that_cannot_be_made_is_named(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published())
    user.folder.parent.write_text("a file", encoding="utf-8")
    result = user.update(tmp_path / "offline")
    assert result.returncode == 2
    assert f"{user.matrix}: cannot be written" in result.stderr


def test_a_full_disk_keeps_the_former_matrix(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published("2998-01-01"))
    assert user.update(tmp_path / "offline").returncode == 0
    former = user.matrix.read_bytes()
    publish(tmp_path / "offline", published(NEWER))
    done = subprocess.run(
        [*PROGRAM, "matrix", "update", "offline"],
        cwd=tmp_path,
        # The limit would cut byte code short, too.
        env={**MINIMAL, "XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert user.matrix.read_bytes() == former
    assert sorted(user.folder.iterdir()) == [user.matrix, checksum_of(user.matrix)]


@pytest.mark.long
def test_an_interrupted_update_leaves_a_complete_matrix(user: User, tmp_path: Path, killer: Path) -> None:
    """Killed before each call that changes a file."""
    publish(tmp_path / "offline", published("2998-01-01"))
    assert user.update(tmp_path / "offline").returncode == 0
    former = user.matrix.read_bytes()
    publish(tmp_path / "offline", published(NEWER))
    codes: list[int] = []
    while not codes or codes[-1] != 0:
        user.matrix.write_bytes(former)
        variables = {"LD_PRELOAD": str(killer), "KILL_AT": str(len(codes) + 1), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {**MINIMAL, **variables, "XDG_DATA_HOME": str(tmp_path / "data")}
        command = [*PROGRAM, "matrix", "update", "offline"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=60)
        codes.append(done.returncode)
        assert load(user.matrix).revision in ("2998-01-01", NEWER)
    assert load(user.matrix).revision == NEWER
    assert len(codes) > 6, "it is killed before each step"
    assert set(codes[:-1]) == {-9}


def test_the_newer_of_an_updated_and_a_refreshed_matrix_is_used(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published("2998-01-01"))
    assert user.update(tmp_path / "offline").returncode == 0
    text = data_path("matrix.yaml").read_text(encoding="utf-8")
    for revision, expected in (("2997-01-01", "2998-01-01"), (NEWER, NEWER)):
        refreshed = re.sub("(?m)^revision: .*", f"revision: '{revision}'", text)
        (user.folder / "matrix.yaml").write_text(refreshed, encoding="utf-8")
        assert user.revision() == expected


@pytest.mark.parametrize("text", ["", "{", '{"schema":"gpuenv.matrix/1"}', "\0" * 100])
@pytest.mark.long
def test_a_broken_matrix_of_the_user_is_not_used(user: User, text: str) -> None:
    user.folder.mkdir(parents=True)
    user.matrix.write_text(text, encoding="utf-8")
    assert user.revision() == IN_USE


def test_a_published_matrix_is_read_wherever_a_matrix_is(user: User, tmp_path: Path) -> None:
    file = publish(tmp_path / "offline", published())
    for arguments in (("matrix", "check"), ("resolve", "--no-probe")):
        result = user.gpuenv(*arguments, "--matrix", file)
        assert result.returncode == 0, result.stderr
        assert NEWER in result.stdout
    file.write_bytes(published(change=cites_nothing))
    broken = user.gpuenv("matrix", "check", "--matrix", file)
    assert broken.returncode == 6
    assert re.search(r"matrix\.json: line \d{4,}: wheel_lines\[0\]", broken.stderr)


def test_a_refresh_does_not_edit_a_published_matrix(user: User, tmp_path: Path) -> None:
    publish(tmp_path / "offline", published())
    assert user.update(tmp_path / "offline").returncode == 0
    refused = user.gpuenv("matrix", "refresh", "--dry-run")
    assert refused.returncode == 2
    assert "gpuenv matrix update" in refused.stderr


def test_matrix_check_validates_an_updated_matrix(user: User) -> None:
    user.folder.mkdir(parents=True)
    data = {**encode(MATRIX), "revision": NEWER}
    cites_nothing(data)
    user.matrix.write_text(json.dumps(data), encoding="utf-8")
    assert user.gpuenv("matrix", "check").returncode == 6


# The revision in the output of other commands.


@pytest.mark.parametrize(
    "arguments",
    [
        ("resolve",),
        ("resolve", "--why-not", "13x"),
        ("resolve", "--what-if", "driver=535,580"),
        ("resolve", "--snapshot", "fit.json"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_the_text_names_the_revision_and_its_age(user: User, arguments: tuple[str, ...]) -> None:
    write_snapshot(FIT, user.home / "fit.json")
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 3 * 86400))
    (user.home / "m.json").write_bytes(published(day))
    result = user.gpuenv(*arguments, "--snapshot", "fit.json", "--matrix", "m.json")
    assert result.stdout.splitlines().count(f"Matrix revision {day}, 3 days old.") == 1
    future = user.home / "future.json"
    future.write_bytes(published())
    result = user.gpuenv(*arguments, "--snapshot", "fit.json", "--matrix", future)
    assert f"Matrix revision {NEWER}." in result.stdout
