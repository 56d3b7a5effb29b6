"""Which names are those of secrets, and which value after one is a secret.

A name is that of a variable, a setting, an option, a header or a parameter of a URL.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpuenv.model.strings import pattern

TYPE_CHECKING = False
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
# Keys that select or sort, public keys, tokens of a language model, a desktop's session; and what belongs to a secret
# without being it.
_HARMLESS = pattern(
    r"(?:.* )?(?:(?:PUBLIC|PUB|SORT|PRIMARY|FOREIGN|CACHE|PARTITION|HOT|DICT|INDEX|ROW|GROUP|ORDER|MAP|HOST) KEY"
    r"|(?:PAD|EOS|BOS|UNK|MASK|SEP|CLS|SPECIAL|MAX|MIN|NUM|NEXT|STOP) TOKENS?)\b.*"
    r"|(?:.* )?(?:DESKTOP SESSION(?: ID)?|GDMSESSION|SESSION MANAGER|XDG SESSION (?:CLASS|DESKTOP)"
    r"|DBUS SESSION BUS ADDRESS)"
    r"|.* (?:NAME|FILE|PATH|TYPE|LEN|LENGTH|COUNT|SIZE|TIMEOUT|TTL|EXPIRES|EXPIRY|ERRORS?|DIR|HOST|PORT|METHOD|MODE"
    r"|STATUS|STORE|PROVIDER|HELPERS?|VERSION|ALGORITHM|FORMAT|POLICY|REQUIRED|ENABLED|STDIN|SOCK|EXCEPTION"
    r"|FAILED|FAILURE|LIMIT|RATE|USAGE|SCHEME|MODULE|ISSUER|REALM|PY|SH|TXT|LOG|SO)"
)
if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int]


HIDDEN = "(redacted)"

_SEPARATOR = (
    r"(?:\x1b\[[\d;]{0,12}m)?(?:&quot;|%22|%27|&#3[49];)?"
    r"\\{0,3}[\"'`]?(?:\[\d{0,4}\]|\])?[ \t]{0,3}"
    r"(?::[ \t]?(?:str|bytes|string|String|Optional\[str\])[ \t]{0,3})?"
    r"(?::=|=>|={1,3}|!==?|:(?!//|:)|%3[ADad]|&#61;|&gt;)[ \t]{0,3}"
)
_NAMED = pattern(
    r"(?<![\w.$-])(?=[\w.$-]*?(?i:pass|pat|pw|token|key|secret|cred|auth|cookie|sig|sas|sess|jwt|otp|kennwort|contrase|webhook))([\w.$-]+)"
    rf"({_SEPARATOR}|>(?=[^<>\s])|[\"'][ \t]?,[ \t]?(?=[\"'])|[ \t]{{1,3}}(?:is[ \t])?(?=[^\s-]))"
)
_KEY_AND_VALUE = pattern(  # a variable of a container in Kubernetes or of a task, an element of XML
    r"(?<![\w.-])[\"']?(?i:name|key)[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?([\w.-]{1,200})[\"']?[,\s]{1,40}"
    r"[\"']?(?i:value)[\"']?[ \t]{0,3}[:=][ \t]{0,3}"
    r"|<([\w.-]{1,64})[ ]value="
)
_QUOTE = pattern(r"[rbuf@$]{0,2}(\\{0,3})([\"'`]{3}|[\"'`])")
_BARE = pattern(r"(?:[^\s\"'`\\]|\\(?!\\{0,2}[\"'`])|[\"'`](?![,\]});:\s]|$)|\\{1,3}[\"'`](?![,\]});:\s]|$))+")
_IN_QUERY = pattern(r"[^&#\s\"'<>]+")
_IN_HEADER = pattern(r"[^\"'`\r\n[(][^\"'`\r\n]+")
_TO_LINE_END = pattern(r"[^\r\n]+")
_SCHEME_END = pattern(r"\w://")
_PASSWORD_IN_URL = pattern(r":[^\s/?#@'\"`<>]{1,400}@")  # after a user such as __token__; what follows is the host
_SCHEME_OF_AUTH = pattern(r"(?i:Basic|Bearer|Digest|Token|ApiKey|Negotiate|NTLM)[ \t]{1,3}[^\s\"'`,;]+")
# The start of a line, with a mark, a command or a number: the value of a setting there extends to the end of the line.
_LINE_START = pattern(r"[\s\-+>|*#$]*(?:line \d+: )?(?:(?:export|ENV|ARG|set|setx|declare -x|env:) +)?")
_MOST_BEFORE = 64  # characters of a line before such a setting
_WORDS = pattern(r"[\W_]*(?:[A-Z]?[a-z]+|[A-Z]+)(?:[ .,/_-]{1,3}[A-Za-z]+)*[.,:;)]?")
_WORD_BEFORE = pattern(r"([A-Za-z]+)[ -]$")
_WORDS_OF_A_VALUE = pattern(r"(?: (?!-)(?!\S{0,40}\.py\b)[\w!?*.+-]{1,40}){1,8}\s*$", re.MULTILINE)
_VAGUE = frozenset(("KEY", "SIG", "SIGNATURE", "SESSION", "SESSIONS"))
_CALL = pattern(r"[A-Za-z_][\w.]*\(.*")
_SETTER = pattern(r"\b(?:ENV|ARG|setx|setenv|set -g?x)[ \t]+$")
_HEADERS = frozenset(("COOKIE", "SET COOKIE", "AUTHORIZATION", "PROXY AUTHORIZATION"))

_VARIABLE = r"\$[A-Z_][A-Z0-9_]*|\$\{[A-Za-z_]\w*\}|%\w+%|\$?\{\{[^}]*\}\}?|\$\([^)]*\)?"
_NO_SECRET = pattern(  # placeholders, and values of switches
    rf"\(redacted\)|<[^<>]*>|<[A-Za-z_ -]*|\[[A-Z_]{{1,12}}\]|\[[\d,. -]*\]|\{{(?:[\"' ].*)?"
    rf"|\*+|[xX]{{3,}}|\.{{2,}}|\W*|{_VARIABLE}"
    r"|(?i:true|false|none|null|nil|undefined|yes|no|on|off|auto|unset|empty|ok|required|missing|invalid|expired|incorrect"
    r"|denied|found|not(?: found| set| valid| provided| given| required| available)?"
    r"|unknown|enabled|disabled|default|hidden"
    r"|redacted|masked|basic|bearer|digest|oauth2?|keyring|prompt|str|string|bytes|anonymous|public|text|value|file"
    r"|failed|failure|error|must|cannot|authentication|is|was|has|for|and|or|mismatch|rejected|accepted|verified"
    r"|sha-?\d{1,3}|md5|[rh]s256|rsa\d{0,4}|ed25519)[,.;:]?"
    r"|v?\d{1,9}(?:\.\d{1,9}){1,5}(?:[-+.]?(?:rc|dev|post|a|b|cu)\d{1,4})?"
    r"|(?:os|sys|self|args|config|settings|secrets|kwargs|env|process\.env|getpass)[.\[(][\w.\[\]\"'()]{1,80}"
)
_NUMBER = pattern(r"[-+]?\d[\d,._]{0,20}%?(?:[a-zA-Z]{1,3}/?s?)?|0x[0-9a-fA-F]{1,16}")
_PATH = pattern(
    r"(?:~|\.{1,2})?/[\w.@+~/ -]*|[A-Za-z]:[\\/][^*?\"<>|]*|file://\S*",
)
_ROOT = pattern(
    r"(?:~|\.{1,2})/|[A-Za-z]:[\\/]|file:"
    r"|/(?:home|Users|usr|etc|run|var|tmp|opt|root|srv|mnt|data|proc|sys|dev|nfs|scratch|work|private|lib|bin|workspace|app)(?:/|$)"
    r"|/[\w./-]{0,100}\.[a-z]{1,5}$"
)
_IDENTIFIER = pattern(  # a digest, a UUID, an address in memory, a mangled symbol, a time
    r"(?:sha\d{3}|md5)[:=-].*|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}"
    r"|(?:(?:GPU|MIG)-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0x.*|_Z\w*|[\dTZ:.+-]{8,}"
)
_HEX = pattern(r"[0-9a-f]{32,128}[.,;]?")
_DIGIT = pattern(r"\d")
_RUN = pattern(r"[A-Za-z0-9+/=]+")
_MIN_RANDOM = 8  # characters with letters and digits that make no word
_MIN_PASSWORD = 6
_MIN_IN_PROSE = 20
_SHORT_NUMBER = 5  # digits
_LONGEST_HARMLESS = 200
_LONGEST_QUOTED = 16384  # characters that are searched for a closing mark


def named_values(text: str) -> Iterator[Span]:
    """The values after names of secrets."""
    done = 0
    for match in _NAMED.finditer(text):
        if match.start() < done:
            continue
        span = _value_of(text, match)
        if span is not None:
            first, done = span
            if done - first >= _LONGEST_QUOTED:
                end = text.find("\n", done)
                done = len(text) if end < 0 else end
            yield first, done
    if "alue" in text or "ALUE" in text:
        for match in _KEY_AND_VALUE.finditer(text):
            name = match[match.lastindex or 0]
            if certainty(name):
                first, last, _ = _bounds(text, match.end(), "")
                if not is_harmless(text[first:last], name):
                    yield first, last


def _value_of(text: str, match: re.Match[str]) -> Span | None:
    """The position of the value after a name; None if it is no secret."""
    name, separator = match[1], match[2].strip()
    sureness = _certainty_at(text, match)
    in_url = _SCHEME_END.fullmatch(text, max(0, match.start() - 4), match.start())
    if not sureness or (in_url and _PASSWORD_IN_URL.match(text, match.start(2))):
        return None
    if separator in ("", "is") and not name.startswith("-"):
        return _value_in_prose(text, match, sureness)
    span = _delimited(text, match)
    if span is None:
        return _assigned(text, match, sureness)
    return None if is_harmless(_beginning(text, *span), name) else span


def _certainty_at(text: str, match: re.Match[str]) -> int:
    """The certainty of a name, with the word before it and its separator: ``API key``, ``cache key``."""
    name, separator = match[1], match[2].strip()
    found = certainty(name)
    if found == POSSIBLE and "," in separator and not name.startswith("-"):
        return 0
    if found and separator == ">" and text[match.start() - 1 : match.start()] != "<":
        return 0
    if found and name.lower() == "key":
        word = _WORD_BEFORE.search(text, max(0, match.start() - 16), match.start())
        name = f"{word[1].upper()}_KEY" if word is not None else name
        found = certainty(name)
    return 0 if found and is_harmless_name(name) else found


def _delimited(text: str, match: re.Match[str]) -> Span | None:
    """The value of a parameter of a URL, an element of XML or a header; None for any other."""
    before, separator = text[max(0, match.start() - 1) : match.start()], match[2].strip()
    if separator == ">":
        return match.end(), _closing(text, match.end(), "<")
    found = None
    if before and before in "?&;" and separator == "=":
        found = _IN_QUERY.match(text, match.end())
    elif parts_of(match[1]) in _HEADERS and not _QUOTE.match(text, match.end()):
        found = (_IN_HEADER if before in ("'", '"', "`") else _TO_LINE_END).match(text, match.end())
    return found.span() if found else None


def _assigned(text: str, match: re.Match[str], sureness: int) -> Span | None:
    """The value of a variable, a setting or an option, if it is a secret."""
    name, separator = match[1], match[2].strip()
    before = text[max(0, match.start() - 1) : match.start()]
    first, last, is_quoted = _bounds(text, match.end(), before if before not in match[2] else "")
    is_set = is_quoted or "=" in separator or not separator
    if not is_quoted and _goes_on(text, match, last, sureness, is_set=is_set):
        end = text.find("\n", last)
        last = len(text) if end < 0 else end
    value = _beginning(text, first, last)
    if is_harmless(value, name):
        return None
    return (first, last) if sureness == CERTAIN or _is_likely(value, name, is_set=is_set) else None


def _goes_on(text: str, match: re.Match[str], last: int, sureness: int, *, is_set: bool) -> bool:
    """Whether a value that is not quoted extends to the end of the line."""
    is_first = sureness == CERTAIN and _is_at_line_start(text, match.start())
    has_words = _WORDS_OF_A_VALUE.match(text, last) is not None
    if not is_set:
        return is_first or (sureness == CERTAIN and has_words)
    is_spaced = sureness == CERTAIN and match[2].startswith(" ")  # name = value, anywhere in a line
    return (is_first or is_spaced or match[1].isupper()) and has_words and text[last - 1 : last] != ":"


def _beginning(text: str, first: int, last: int) -> str:
    """As much of a value as decides whether it is a secret."""
    return text[first : min(last, first + _LONGEST_HARMLESS + 1)]


def _is_likely(value: str, name: str, *, is_set: bool) -> bool:
    """Whether a value is a secret if its name may mean something else."""
    parts = parts_of(name)
    if _CALL.fullmatch(value) or (_WORDS.fullmatch(value) and not ends_as_secret(name)):
        return False
    if is_set and parts not in _VAGUE:
        return True
    if parts not in _VAGUE and ends_as_secret(name) and _HEX.fullmatch(value):
        return True
    if " " in parts and (name.isupper() or not _WORDS.fullmatch(value)):
        return True
    return is_random(value, _MIN_RANDOM if parts in _VAGUE and name.islower() and name[0] != "-" else _MIN_PASSWORD)


def _value_in_prose(text: str, match: re.Match[str], sureness: int) -> Span | None:
    """The position of a value that follows a name after a space, as in a Dockerfile or a message."""
    first, last, is_quoted = _bounds(text, match.end(), "")
    value = _beginning(text, first, last)
    if _SETTER.search(text[max(0, match.start() - 8) : match.start()]):
        return (first, last) if not is_harmless(value, match[1]) else None
    if sureness == CERTAIN and _HEX.fullmatch(value):
        return first, last
    is_variable = "_" in match[1] and match[1].rpartition(".")[2].isupper()
    least = _MIN_RANDOM if is_quoted else _MIN_IN_PROSE
    least = _MIN_PASSWORD if sureness == CERTAIN or is_variable else least
    return (first, last) if is_random(value, least) else None


def _bounds(text: str, start: int, before: str) -> tuple[int, int, bool]:
    """Beginning and end of a value, and whether it is quoted."""
    quote = _QUOTE.match(text, start)
    if quote is not None:
        mark = quote[1] + quote[2]
        end = _closing(text, quote.end(), mark)
        return quote.end(), end, True
    if before and before in "\"'`":  # the name is in quotes itself: -e "NAME=value"
        end = _closing(text, start, before)
        return start, end, False
    if text[start : start + 1] in ("[", "("):
        end = _closing(text, start, "]" if text[start] == "[" else ")")
        return start, min(end + 1, len(text)), False
    scheme = _SCHEME_OF_AUTH.match(text, start)
    bare = scheme or _BARE.match(text, start)
    end = bare.end() if bare else start
    if not text.endswith(HIDDEN, start, end):
        value = text[start:end]
        end = start + len(value.rstrip(",;" if any(mark in value for mark in "([{") else ")]},;"))
    return start, end, False


def _closing(text: str, start: int, mark: str) -> int:
    """The position of the closing quotation mark; the end of the line without one."""
    line_end = text.find("\n", start, start + _LONGEST_QUOTED)
    line_end = min(len(text), start + _LONGEST_QUOTED) if line_end < 0 else line_end
    end = text.find(mark, start, line_end)
    while end > start and mark in "\"'`" and text[end - 1] == "\\" and text[end - 2] != "\\":
        end = text.find(mark, end + 1, line_end)
    return line_end if end < 0 else end


def _is_at_line_start(text: str, start: int) -> bool:
    begin = text.rfind("\n", max(0, start - _MOST_BEFORE), start) + 1
    if begin == 0 and start > _MOST_BEFORE:
        return False
    return _LINE_START.fullmatch(text, begin, start) is not None


def is_harmless(value: str, name: str) -> bool:
    """Whether a value is a switch, a number, a path or a variable instead of a secret."""
    if len(value) > _LONGEST_HARMLESS:
        return False
    value = value.strip().strip("\"'`")
    if not value or _NO_SECRET.fullmatch(value):
        return True
    if _PATH.fullmatch(value) and (_ROOT.match(value) or name.upper() in FOLDERS):
        return True
    if _NUMBER.fullmatch(value):
        digits = sum(map(str.isdigit, value))
        is_count = name.upper().endswith(("TOKENS", "ID", "SESSION", "SESSIONS", "SIG", "KEYS"))
        return digits < 4 if "PASS" in name.upper() else is_count or digits <= _SHORT_NUMBER  # noqa: PLR2004
    return False


def stands_for_a_value(value: str) -> bool:
    """Whether a value is a placeholder, a variable or a word of a message."""
    return _NO_SECRET.fullmatch(value) is not None


def is_random(value: str, least: int) -> bool:
    """Whether a value has a run of letters and digits that makes no word, and is no digest or UUID."""
    if _DIGIT.search(value) is None:
        return False
    value = value.strip("\"'`.,;")
    if _IDENTIFIER.fullmatch(value) or value.startswith(("_Z", "0x", "sha256")):
        return False
    for run in _RUN.findall(value[:_LONGEST_HARMLESS]):
        letters = sum(map(str.isalpha, run))
        if len(run) >= least and letters >= 3 and len(run) > letters:  # noqa: PLR2004
            return True
    return False


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
