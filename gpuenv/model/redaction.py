"""Finds and hides secrets in texts: by the name before a value, by the form of a token, and by entropy in URLs.

All output passes through ``hide_secrets``; nothing is hidden before it is analysed. Every pattern is linear: a name is
matched from its beginning only, and what follows a match is not searched again.
"""

from __future__ import annotations

import re

from gpuenv.model.secret_names import (
    CERTAIN,
    FOLDERS,
    POSSIBLE,
    certainty,
    ends_as_secret,
    is_harmless_name,
    is_secret_name,
    parts_of,
)
from gpuenv.model.strings import pattern

TYPE_CHECKING = False  # imported before the first child starts; typing takes as long as that
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Span = tuple[int, int]

HIDDEN = "(redacted)"
MARGIN = 512  # characters after the end of a shortened text that show whether a secret goes on there

# Tokens by their documented forms. Where a pattern has a group, only the group is hidden.
_FORMS = (
    r"gh[pousr]_\w{10,}|github_pat_\w{10,}",  # GitHub Docs, token formats
    r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[\w.-]{10,}",  # GitLab Docs, token overview
    r"npm_[A-Za-z0-9]{20,}",  # npm Docs, about access tokens; npm_config_... are variables
    r"pypi-(?=[a-z0-9_-]{0,40}[A-Z])[\w-]{16,}",  # PyPI Help, API tokens; names of packages are in lower case
    r"dckr_(?:pat|oat)_[\w-]{8,}",  # Docker Docs, access tokens
    r"hf_[A-Za-z0-9]{16,}",  # Hugging Face Docs, security tokens
    r"nvapi-[\w-]{12,}",  # NVIDIA NGC
    r"sk-(?:ant-|proj-|or-|svcacct-)?[\w-]{20,}",  # OpenAI, Anthropic
    r"[sr]k_(?:live|test)_\w{10,}|whsec_\w{16,}",  # Stripe
    r"xox[a-z]-[\w-]{10,}|xapp-[\w-]{10,}",  # Slack, token types
    r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA|ANVA)[A-Z0-9]{16}",  # AWS IAM, unique identifiers
    r"AIza[\w-]{30,}|ya29\.[\w.-]{16,}|GOCSPX-[\w-]{16,}",  # Google Cloud
    r"SG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}",  # Shopify
    r"do[opr]_v1_[0-9a-f]{16,}",  # DigitalOcean
    r"hv[sbr]\.[\w-]{20,}",  # HashiCorp Vault
    r"sq0[a-z]{3}-[\w-]{20,}",  # Square
    r"dapi[0-9a-f]{32}|pul-[0-9a-f]{40}|lin_api_\w{20,}|dp\.pt\.\w{20,}|ATATT3[\w=-]{20,}",  # Databricks and others
    r"AKC[A-Za-z0-9]{30,}",  # Artifactory
    r"[0-9a-z]{32}-us\d{1,2}\b",  # Mailchimp
    r"(?:AC|SK)[0-9a-f]{32}\b",  # Twilio
    r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",  # age
    r"\d{8,10}:[\w-]{35}(?![\w-])",  # Telegram
    r"[MNO][A-Za-z\d_-]{23,25}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"eyJ[\w-]{10,}(?:\.[\w-]{4,}(?:\.[\w-]*)?|(?=\.{2,3}|\s*$))",  # RFC 7519: a JSON Web Token
    r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{8,})",  # Slack, incoming webhooks
    r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/([\w/-]{8,})",  # Discord, webhooks
    r"[\w-]{1,63}\.webhook\.office\.com/([\w/@-]{8,})",  # Microsoft Teams, incoming webhooks
    r"outlook\.office(?:365)?\.com/webhook/([\w/@-]{8,})",  # the same, formerly
    r"(?:chat\.googleapis\.com/v1/spaces|maker\.ifttt\.com/trigger|hooks\.zapier\.com/hooks)/([\w/-]{8,})",
)
_FORM = pattern(r"(?<![A-Za-z0-9_])(?:" + "|".join(_FORMS) + ")")
_CONDA_TOKEN = pattern(r"(?<=/t/)[\w-]{8,}(?=/)")  # conda, conda/common/url.py, split_conda_url_easy_parts
_BEARER = pattern(r"\b[Bb]earer\s{1,3}([\w.~+/=-]{8,})")  # RFC 6750
_PRIVATE_KEY = pattern(  # RFC 7468, section 10; and PuTTY's format. A key may be cut
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S])*(?:-----END [A-Z0-9 ]{0,40}-----)?"
    r"|PuTTY-User-Key-File-\d[\s\S]*"
)
_KEY_BEGIN = pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-\d")
# The end of a line in a key that is quoted line by line.
_KEY_LINE = pattern(r"[A-Za-z0-9+/=]{1,80}(?:\\n)?[\"',]{0,3}$|(?:Proc-Type|DEK-Info): [\w, -]{1,80}$")
_DIGITS = pattern(r"\d+")
_KEY_END = pattern(r"-----END ")
# A whole line of base64 is one of a key or a certificate; a digest in hexadecimal is in one case.
_BASE64_LINE = pattern(
    r"(?m)(?:^|(?<=[\s\"':|>]))(?=[a-z0-9+/]{0,70}[A-Z])(?=[A-Z0-9+/]{0,70}[a-z])[A-Za-z0-9+/]{60,76}={0,2}$"
)

_SEPARATOR = (
    r"(?:\x1b\[[\d;]{0,12}m)?(?:&quot;|%22|%27|&#3[49];)?"
    r"\\{0,3}[\"'`]?(?:\[\d{0,4}\]|\])?[ \t]{0,3}"
    r"(?::[ \t]?(?:str|bytes|string|String|Optional\[str\])[ \t]{0,3})?"
    r"(?::=|=>|={1,3}|!==?|:(?!//|:)|%3[ADad]|&#61;|&gt;)[ \t]{0,3}"
)
_NAMED = pattern(
    r"(?<![\w.$-])(?=[\w.$-]*?(?i:pass|pat|pwd|token|key|secret|cred|auth|cookie|sig|sas|sess|jwt|otp|kennwort|contrase))([\w.$-]+)"
    rf"({_SEPARATOR}|>(?=[^<>\s])|[\"'][ \t]?,[ \t]?(?=[\"'])|[ \t]{{1,3}}(?:is[ \t])?(?=[^\s-]))"
)
_KEY_AND_VALUE = pattern(  # a variable of a container in Kubernetes, or of a task
    r"(?<![\w.-])[\"']?(?i:name|key)[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?([\w.-]{1,200})[\"']?[,\s]{1,40}"
    r"[\"']?(?i:value)[\"']?[ \t]{0,3}([:=])[ \t]{0,3}"
)
_QUOTE = pattern(r"[rbuf@$]{0,2}(\\{0,3})([\"'`]{3}|[\"'`])")
_BARE = pattern(r"(?:[^\s\"'`\\]|\\(?!\\{0,2}[\"'`])|[\"'`](?![,\]});:\s]|$)|\\{1,3}[\"'`](?![,\]});:\s]|$))+")
_IN_QUERY = pattern(r"[^&#\s\"'<>]+")
_IN_HEADER = pattern(r"[^\"'`\r\n]+")
_TO_LINE_END = pattern(r"[^\r\n]+")
_SCHEME_OF_AUTH = pattern(r"(?i:Basic|Bearer|Digest|Token|ApiKey|Negotiate|NTLM)[ \t]{1,3}[^\s\"'`,;]+")
# Where a line begins, or what follows a mark, a command or a number: the value of a setting goes on to its end.
_LINE_START = pattern(r"[\s\-+>|*#$]*(?:line \d+: )?(?:(?:export|ENV|ARG|set|setx|declare -x|env:) +)?")
_MOST_BEFORE = 64  # characters of a line before such a setting
_WORDS = pattern(r"[\W_]*(?:[A-Z]?[a-z]+|[A-Z]+)(?:[ .,/_-]{1,3}[A-Za-z]+)*[.,:;)]?")
_WORD_BEFORE = pattern(r"([A-Za-z]+)[ -]$")
_WORDS_OF_A_VALUE = pattern(r"(?: (?!-)(?!\S{0,40}\.py\b)[\w!?*.+-]{1,40}){1,8}\s*$", re.MULTILINE)
_VAGUE = frozenset(("KEY", "SIG", "SIGNATURE", "SESSION", "SESSIONS"))
_CALL = pattern(r"[A-Za-z_][\w.]*\(.*")
_SETTER = pattern(r"\b(?:ENV|ARG|setx|setenv)[ \t]+$")
_HEADERS = frozenset(("COOKIE", "SET COOKIE", "AUTHORIZATION", "PROXY AUTHORIZATION"))

# Options with a user's name and password, and options of programs for a password.
_USER_OPTION = pattern(
    r"(?<![\w-])(?:-[uU]|--(?:proxy-)?user)(?:[ =]|[\"'],[ ]?|(?<=-u)|(?<=-U))[\"']?([^\s:\"'/=]{1,64}):([^\s\"']+)"
)
_PASSWORD_OPTION = pattern(
    r"\b(?:mysql\w{0,12}|mariadb|sshpass|redis-cli|login)\b[^\n|;&]{0,120}?"
    r"[\s\"']-[pa](?:[ ]|[\"'],[ ]?)?[\"']?([^\s\"']+)"
)
_NETRC = pattern(r"(?:\blogin\s{1,8}\S{1,200}\s{1,8}|^\s{0,8}|\s{2})password\s{1,8}(\S+)(?=\s|$)", re.MULTILINE)
_PHRASES = pattern(  # SQL; openssl(1), pass phrase options; prompts; clients of HTTP in Python; JDBC of Oracle
    r"(?i:\bidentified\s{1,3}by\s{1,3}|-pass\w{0,6} pass:"
    r"|\b(?:password|passphrase) for [^\n:]{1,80}:[^\n:]{0,80}:? )[\"']?([^\s\"';]+)"
    r"|BasicAuth\([\"'][^\"'\n]{0,64}[\"'],\s?[\"']([^\"'\n]+)|:thin:[^\s/@]{1,64}/([^\s@]+)@"
)
_ADDRESS = pattern(r"\b\w[\w+.-]{0,39}://([^\s'\"`<>]+)")
_HOST = pattern(r"\[.*|localhost|[\w-]*\.[\w.-]*(?::\d{1,5})?|[\w-]+:\d{1,5}")
_USER_AT_HOST = pattern(
    r"(?<![\w/.:-])(?!mailto:)[\w.+-]{1,64}:([^\s:@/'\"]{3,200})@(?=[\w.-]{1,200}(?:\.[a-z]{2,24}\b|:\d))"
)
_ENGINE_RUN = pattern(r"\b(?:docker|podman|nerdctl|kubectl|chown|install|su|sudo)\b")

_VARIABLE = r"\$[A-Z_][A-Z0-9_]*|\$\{[A-Za-z_]\w*\}|%\w+%|\$?\{\{[^}]*\}\}?|\$\([^)]*\)?"
_NO_SECRET = pattern(  # what stands in place of a value, and values of switches
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
_DIGIT = pattern(r"\d")
_RUN = pattern(r"[A-Za-z0-9+/=]+")
_MIN_RANDOM = 8  # characters with letters and digits that make no word
_MIN_PASSWORD = 6
_MIN_QUERY = 20
_MIN_DISTINCT = 10  # characters of a random query value
_SHORT_NUMBER = 5  # digits
_LONGEST_HARMLESS = 200
_LONGEST_QUOTED = 16384  # characters that are searched for a closing mark


def has_credentials(text: str) -> bool:
    """Whether a URL in the text has a user name or a password."""
    return "://" in text and next(_credentials(text), None) is not None


def hide_secrets(text: str) -> str:
    """The text with ``(redacted)`` in place of every secret; names, paths and digests stay."""
    if len(text) < _MIN_PASSWORD:
        return text
    parts, end = [], 0
    for first, last in secret_spans(text):
        parts += [text[end:first], HIDDEN]
        end = last
    return "".join((*parts, text[end:])) if parts else text


def hide_value(name: str, value: str) -> str:
    """The value of a variable or a key without secrets; ``(redacted)`` if its name is one of secrets."""
    is_named = certainty(name) == CERTAIN or (name.isupper() and is_secret_name(name))
    if is_named and not is_harmless_name(name) and not _is_harmless(value, name):
        return HIDDEN
    return hide_secrets(value)


class LineRedactor:
    """Hides the secrets in lines one by one; a private key may go on over many of them."""

    def __init__(self) -> None:
        self._before: str | None = None  # what stands before each line of a private key; None outside of one

    def hide(self, line: str) -> str:
        """The next line without secrets."""
        match = _KEY_LINE.search(line.rstrip()) if self._before is not None else None
        if match is not None and _DIGITS.sub("0", line[: match.start()]) == self._before:
            return f"{line[: match.start()]}{HIDDEN}"
        begin = next(reversed(list(_KEY_BEGIN.finditer(line))), None) if "-" in line else None
        is_open = begin is not None and _KEY_END.search(line, begin.start()) is None
        self._before = _DIGITS.sub("0", line[: begin.start()]) if begin is not None and is_open else None
        return hide_secrets(line)


def hide_in_lines(lines: Iterable[str]) -> list[str]:
    """The lines of a text without secrets."""
    redactor = LineRedactor()
    return [redactor.hide(line) for line in lines]


def cut_text(text: str, most: int) -> str:
    """The text shortened to ``most`` characters, so that no secret loses the end by which it is recognized."""
    if len(text) <= most:
        return text
    end, spans = most - 4, secret_spans(text[: most + MARGIN])
    while True:
        left = secret_spans(f"{text[:end]} ...")
        lost = [first for first, last in spans if first < end and not _is_within((first, min(last, end)), left)]
        if not lost:
            return f"{text[:end]} ..."
        end = min(lost)


def _is_within(span: Span, others: Iterable[Span]) -> bool:
    return any(first <= span[0] and span[1] <= last for first, last in others)


def secret_spans(text: str) -> list[Span]:
    """Where the secrets are, in order and without overlaps."""
    found = sorted(span for finder in _FINDERS for span in finder(text) if span[0] < span[1])
    merged: list[Span] = []
    for first, last in found:
        if merged and first < merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _forms(text: str) -> Iterator[Span]:
    for match in _FORM.finditer(text):
        yield match.span(match.lastindex or 0)
    if "/t/" in text:
        yield from (match.span() for match in _CONDA_TOKEN.finditer(text))
    if "earer" in text:
        yield from (match.span(1) for match in _BEARER.finditer(text) if _is_random(match[1], _MIN_RANDOM))


def _private_keys(text: str) -> Iterator[Span]:
    if "PRIVATE KEY" in text or "PuTTY" in text:
        yield from (match.span() for match in _PRIVATE_KEY.finditer(text))
    if len(text) >= 60:  # noqa: PLR2004 - the shortest line of base64 in _BASE64_LINE
        yield from (match.span() for match in _BASE64_LINE.finditer(text))


def _named(text: str) -> Iterator[Span]:
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
            if certainty(match[1]):
                first, last, _ = _bounds(text, match.end(), "")
                if not _is_harmless(text[first:last], match[1]):
                    yield first, last


def _value_of(text: str, match: re.Match[str]) -> Span | None:
    """Where the value after a name is; None for one that is no secret."""
    name, separator = match[1], match[2].strip()
    sureness = _certainty_at(text, match)
    if not sureness:
        return None
    if separator in ("", "is") and not name.startswith("-"):
        return _value_in_prose(text, match, sureness)
    span = _delimited(text, match)
    if span is None:
        return _assigned(text, match, sureness)
    return None if _is_harmless(_beginning(text, *span), name) else span


def _certainty_at(text: str, match: re.Match[str]) -> int:
    """How certain the name is one of secrets, with the word before it and its separator: ``API key``, ``cache key``."""
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
    first, last, is_quoted = _bounds(text, match.end(), text[max(0, match.start() - 1) : match.start()])
    is_set = is_quoted or "=" in separator or not separator
    if not is_quoted and _goes_on(text, match, last, sureness, is_set=is_set):
        end = text.find("\n", last)
        last = len(text) if end < 0 else end
    value = _beginning(text, first, last)
    if _is_harmless(value, name):
        return None
    return (first, last) if sureness == CERTAIN or _is_likely(value, name, is_set=is_set) else None


def _goes_on(text: str, match: re.Match[str], last: int, sureness: int, *, is_set: bool) -> bool:
    """Whether a value that is not quoted goes on to the end of the line."""
    if not is_set:
        is_all = _is_at_line_start(text, match.start()) or _WORDS_OF_A_VALUE.match(text, last)
        return sureness == CERTAIN and bool(is_all)
    return match[1].isupper() and text[last - 1 : last] != ":" and _WORDS_OF_A_VALUE.match(text, last) is not None


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
    if " " in parts and (name.isupper() or not _WORDS.fullmatch(value)):
        return True
    return _is_random(value, _MIN_RANDOM if parts in _VAGUE and name.islower() and name[0] != "-" else _MIN_PASSWORD)


def _value_in_prose(text: str, match: re.Match[str], sureness: int) -> Span | None:
    """Where the value is that follows a name after a space, as in a Dockerfile or a message."""
    first, last, _ = _bounds(text, match.end(), "")
    value = _beginning(text, first, last)
    if _SETTER.search(text[max(0, match.start() - 8) : match.start()]):
        return (first, last) if not _is_harmless(value, match[1]) else None
    is_variable = "_" in match[1] and match[1].rpartition(".")[2].isupper()
    least = _MIN_PASSWORD if sureness == CERTAIN or is_variable else _MIN_QUERY
    return (first, last) if _is_random(value, least) else None


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
    """Where the closing quotation mark is; the end of the line where there is none."""
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


def _is_harmless(value: str, name: str) -> bool:
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


def _is_random(value: str, least: int) -> bool:
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


def _credentials(text: str) -> Iterator[Span]:
    """User names and passwords in URLs; ``@`` after the host is a branch or a scope."""
    for match in _ADDRESS.finditer(text):
        rest = match[1]
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        host = authority.rpartition("@")[2]
        if "@" in rest and ":" in authority and not _HOST.fullmatch(host):
            last = rest.rindex("@")  # a slash in the password
        elif "@" in authority:
            last = authority.rindex("@")
        else:
            continue
        if last and rest[:last] not in ("git", HIDDEN) and re.match(r"[\w.\[-]", rest[last + 1 :]):
            yield match.start(1), match.start(1) + last


def _urls(text: str) -> Iterator[Span]:
    """Credentials in URLs, and random values in their queries."""
    if "://" in text:
        yield from _credentials(text)
        if "?" in text or "&" in text:
            yield from _random_queries(text)
    if "@" in text:
        yield from (match.span(1) for match in _USER_AT_HOST.finditer(text))


_QUERY = pattern(r"[?&]([\w.-]{1,40})=([^&#\s\"'<>]{20,})")
_DIGEST_NAME = pattern(r"(?i:hash|sha\d*|md5|digest|checksum|version|v|ref|commit|rev|file|name|url|uri|path|q|query)")


def _random_queries(text: str) -> Iterator[Span]:
    for match in _QUERY.finditer(text):
        value = match[2]
        is_mixed = any(map(str.isdigit, value)) and len(set(value[:64])) >= _MIN_DISTINCT
        if is_mixed and not _DIGEST_NAME.fullmatch(match[1]) and _is_random(value, _MIN_QUERY):
            yield match.span(2)


def _options(text: str) -> Iterator[Span]:
    """Passwords in options of programs, in .netrc and in SQL."""
    for match in _USER_OPTION.finditer(text) if "-u" in text or "user" in text or "-U" in text else ():
        if not match[2].isdigit() and not _ENGINE_RUN.search(text[max(0, match.start() - 200) : match.start()]):
            yield match.span(2)
    if " -p" in text or " -a" in text or "'-p" in text or '"-p' in text:
        yield from (match.span(1) for match in _PASSWORD_OPTION.finditer(text))
    if "password" in text:
        yield from (match.span(1) for match in _NETRC.finditer(text) if not _NO_SECRET.fullmatch(match[1]))
    yield from (match.span(match.lastindex or 0) for match in _PHRASES.finditer(text))


_FINDERS = (_forms, _private_keys, _named, _urls, _options)
