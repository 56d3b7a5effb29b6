"""Which names are those of secrets: variables, keys, options, headers and parameters, by the parts of the name."""

from __future__ import annotations

from functools import lru_cache

from gpuenv.model.strings import pattern

CERTAIN, POSSIBLE = 2, 1  # a name of secrets only; one that may mean something else

# DB_PASS2, dbPassword and X-Api-Key have the parts DB PASS, DB PASSWORD and X API KEY.
_PARTS = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OF_A_KEY = "API|ACCESS|SECRET|PRIV(?:ATE)?|ACCOUNT|AUTH|SHARED|MASTER|SIGNING|ENCRYPTION|SSH|SERVICE|CLIENT|DB|LICENSE"
_CERTAIN = pattern(
    r"\w*(?:PASSWORD|PASSWD|PASSPHRASE|PASSWORT|KENNWORT|CONTRASE|APIKEY|SECRET|CREDENTIAL|AUTHORIZATION|COOKIE"
    r"|AUTHTOKEN|PASSCODE|WEBHOOK)S?\b"
    rf"|(?:\w* )?(?:{_OF_A_KEY}) ?KEY\b|\w*(?:DB|PG|SQL|USER|FTP|SMTP|MAIL|REDIS|STORE|KEY|ROOT)PASS\b|\w*[A-Z]PWD\b"
    r"|(?:DB|DATABASE|USER|SMTP|FTP|KEY|MYSQL|PG|LDAP|ROOT|ADMIN|BIND) (?:PASS|PWD|PW)\b"
    r"|(?:GH|GITHUB|GL|GITLAB|ADO|AZURE) ?PAT\b"
)
_POSSIBLE = pattern(r"\w*TOKENS?|KEY|PASS|PWD|PW|PAT|CREDS?|\w*AUTH|SIG|SIGNATURE|SAS|\w*SESS(?:ION)?(?:ID)?S?|JWT|OTP")
# A part such as KEYS in DEPLOY_KEYS, and mypass.
_END = pattern(r"(?!BYPASS|COMPASS|MONKEY|TRESPASS|TURKEY)\w*(?:PASS|PWD|PW|TOKEN|KEY|SECRET|CRED|AUTH)S?")
FOLDERS = frozenset(("PWD", "OLDPWD"))
# Keys that select or sort, public keys, tokens of a language model; and what belongs to a secret without being it.
_HARMLESS = pattern(
    r"(?:.* )?(?:(?:PUBLIC|PUB|SORT|PRIMARY|FOREIGN|CACHE|PARTITION|HOT|DICT|INDEX|ROW|GROUP|ORDER|MAP|HOST) KEY"
    r"|(?:PAD|EOS|BOS|UNK|MASK|SEP|CLS|SPECIAL|MAX|MIN|NUM|NEXT|STOP) TOKENS?)\b.*"
    r"|.* (?:NAME|FILE|PATH|TYPE|LEN|LENGTH|COUNT|SIZE|TIMEOUT|TTL|EXPIRES|EXPIRY|ERRORS?|DIR|HOST|PORT|METHOD|MODE"
    r"|STATUS|STORE|PROVIDER|HELPERS?|VERSION|ALGORITHM|FORMAT|POLICY|REQUIRED|ENABLED|STDIN|SOCK|EXCEPTION"
    r"|FAILED|FAILURE|LIMIT|RATE|USAGE|SCHEME|MODULE|ISSUER|REALM|PY|SH|TXT|LOG|SO)"
)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is kept from programs that need no secret."""
    if name.upper() in FOLDERS:
        return False
    return certainty(name) > 0 or any(map(_END.fullmatch, parts_of(name).split(" ")))


@lru_cache(maxsize=4096)
def certainty(name: str) -> int:
    """``CERTAIN``, ``POSSIBLE``, or 0 for a name unrelated to secrets."""
    parts = parts_of(name)
    if _CERTAIN.search(parts) or _CERTAIN.search(parts.replace(" ", "")):
        return CERTAIN
    return POSSIBLE if any(map(_POSSIBLE.fullmatch, parts.split(" "))) else 0


def ends_as_secret(name: str) -> bool:
    """Whether the last part of a name is one of secrets."""
    return _POSSIBLE.fullmatch(parts_of(name).rpartition(" ")[2]) is not None


@lru_cache(maxsize=4096)
def is_harmless_name(name: str) -> bool:
    """Whether the value is no secret although a part of the name suggests one: cache_key, max_tokens, PASSWORD_FILE."""
    return _HARMLESS.fullmatch(f" {parts_of(name)}") is not None


@lru_cache(maxsize=4096)
def parts_of(name: str) -> str:
    """The parts of a name, in capitals with spaces between them."""
    return " ".join(_PARTS.findall(name)).upper()
