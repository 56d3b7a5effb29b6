"""What secrets look like: tokens by issuer, web addresses that are secrets, passwords in commands and in phrases.

Each row of a table is a regular expression. Its groups are the secrets; without a group, all of it is one. A row is
linear: it begins with fixed text or at the beginning of a word, and what repeats has a largest number.
"""

from __future__ import annotations

import re

from gpuenv.model.strings import pattern

# Tokens, by the documentation of their issuers.
_TOKENS = (
    r"gh[pousr]_\w{10,}|github_pat_\w{10,}",  # GitHub
    r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[\w.-]{10,}|GR1348941[\w-]{20,}",  # GitLab
    r"npm_[A-Za-z0-9]{20,}",  # npm; npm_config_... are variables
    r"pypi-(?=[a-z0-9_-]{0,40}[A-Z])[\w-]{16,}|rubygems_[0-9a-f]{20,}",  # names of packages are in lower case
    r"dckr_(?:pat|oat)_[\w-]{8,}|AKC[A-Za-z0-9]{30,}",  # Docker, Artifactory
    r"hf_[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{20,}",  # Hugging Face, Replicate
    r"nvapi-[\w-]{12,}",  # NVIDIA NGC
    r"sk-(?:ant-|proj-|or-|svcacct-)?[\w-]{20,}|gsk_\w{20,}",  # OpenAI, Anthropic, OpenRouter, Groq
    r"[sr]k_(?:live|test)_\w{10,}|whsec_\w{16,}|sq0[a-z]{3}-[\w-]{20,}",  # Stripe, Square
    r"xox[a-z](?:\.xox[a-z])?-[\w-]{10,}|xapp-[\w-]{10,}",  # Slack
    r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA|ANVA)[A-Z0-9]{16}",  # AWS
    r"AIza[\w-]{30,}|ya29\.[\w.-]{16,}|GOCSPX-[\w-]{16,}|1//0[\w-]{30,}",  # Google
    r"SG\.[\w-]{16,}\.[\w-]{16,}|[0-9a-z]{32}-us\d{1,2}\b",  # SendGrid, Mailchimp
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}|do[opr]_v1_[0-9a-f]{16,}",  # Shopify, DigitalOcean
    r"hv[sbr]\.[\w-]{20,}|[sb]\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}\b|\w{14}\.atlasv1\.[\w-]{20,}",  # HashiCorp
    r"dapi[0-9a-f]{32}|pul-[0-9a-f]{40}|lin_api_\w{20,}|dp\.pt\.\w{20,}",  # Databricks, Pulumi, Linear, Doppler
    r"ATATT3[\w=-]{20,}|PMAK-[0-9a-f-]{20,}|NRAK-[A-Z0-9]{20,}",  # Atlassian, Postman, New Relic
    r"(?:HRKU-|pat-[a-z]{2}\d-|amzn\.mws\.)[0-9a-f-]{30,}",  # Heroku, HubSpot, Amazon MWS
    r"(?:figd|ntn|secret|glsa|sntry[su]|tskey-auth|CFPAT)[_-](?=[\w-]{0,60}\d)[A-Za-z0-9][\w=-]{28,}|EAAC\w{30,}",
    r"(?:AC|SK)[0-9a-f]{32}\b|EZ[AT]K\w{50,}",  # Twilio, EasyPost
    r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",  # age
    r"(?:bot)?\d{8,10}:[\w-]{35}(?![\w-])",  # Telegram
    r"[MNO][A-Za-z\d_-]{23,25}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"eyJ[\w+/-]{10,}(?:={1,2}|(?:\.[\w-]*){1,4}(?<=[\w-]{5})|(?=\.{2,3}|\s*$))",  # RFC 7519; and other JSON in base64
    r"\$(?:[156y]|2[abxy]|apr1|argon2\w{1,2}|scrypt)\$[\w./$=,+-]{20,}",  # crypt(5): hashes of passwords
)
# Web addresses that are secrets.
_ADDRESSES = (
    r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([\w/+-]{8,})",
    r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/([\w/-]{8,})",
    r"[\w-]{1,63}\.webhook\.office\.com/([\w/@-]{8,})|outlook\.office(?:365)?\.com/webhook/([\w/@-]{8,})",  # Teams
    r"(?:chat\.googleapis\.com/v1/spaces|maker\.ifttt\.com/trigger|hooks\.zapier\.com/hooks)/([\w/-]{8,})",
    r"(?:open\.feishu\.cn|open\.larksuite\.com)/open-apis/bot/v2/hook/([\w-]{8,})|hc-ping\.com/([\w/-]{8,})",
)
FORMS = pattern(rf"(?<![A-Za-z0-9_])(?:{'|'.join(_TOKENS + _ADDRESSES)})")

_SPACE = r"(?:[ \t]{1,3}|[\"'],[ ]?|=)"  # between an option and its value; of a command quoted as a list, too
_VALUE = r"(?:\"([^\"\n]+)|'([^'\n]+)|([^\s\"'|;&]+))"
_FAR = r"[^\n|;&]{0,200}?"  # from the name of a program to its option


def _option(programs: str, options: str, value: str = _VALUE, space: str = _SPACE) -> str:
    """An option of these programs and its value."""
    return rf"(?<![\w.-])(?:{programs})(?:\.exe)?\b{_FAR}[\s\"'](?:{options}){space}{value}"


_ATTACHED = f"{_SPACE}?"  # the value may follow an option without a space
_COOKIES = r"([^\s\"']+(?:;[^\"'\n]+(?=[\"']))?)"
_STDIN = r"[^\n|]{0,200}?(?:[\w-]-stdin\b|--with-token|\bsudo\s(?:-\w+\s){0,3}-\w?S|-fd[ =]0|passwd\b|\bcryptsetup\b)"
_NETRC = r"(?:\blogin\s{1,8}\S{1,200}\s{1,8}(?:account\s{1,8}\S{1,200}\s{1,8})?|^\s{0,8}|\s{2})"
_IN_OTHER_LANGUAGES = r"(?i:\bmot[ _-]de[ _-]passe|\bsenha|пароль|密码|密碼|パスワード|비밀번호)"
_NO_PORT = r"(?!\d{1,5}(?:[:\s]|$))"

# Passwords in arguments of programs, by their manuals. The first text of a row is in every line that the row matches.
_COMMANDS = (
    ("-p", _option(r"mysql\w{0,12}|mariadb[\w-]{0,9}|sshpass|7za?|7zr", "-p", space=_ATTACHED)),
    ("login", _option(r"\w{1,12}[ \"',]{1,5}login", "-p", _NO_PORT + _VALUE, _ATTACHED)),  # docker, podman, helm, az
    ("-p", _option(r"mongo\w{0,9}|psexec(?:64)?|ncftp\w{0,5}|publish|upload", "-p")),
    ("-P", _option(r"sqlcmd|bcp|unzip|zip|ipmitool", "-P")),
    ("redis-cli", _option(r"redis-cli", "-a|--pass")),
    ("ldap", _option(r"ldap(?:add|compare|delete|modify|passwd|search|whoami)", "-w")),
    ("snmp", _option(r"snmp\w{1,9}", "-[cAX]")),
    ("/p:", _option(r"x?freerdp\d?|mstsc", "/p:", space="")),
    ("openssl", _option(r"openssl", "-[kK]")),
    ("curl", _option(r"curl", r"-[A-Za-z]{0,6}b|--cookie", rf"[\"']?[\w.-]{{1,64}}={_COOKIES}", _ATTACHED)),
    ("-a", _option(r"(?:https?|xhs?)(?!:)", r"-a|--auth", r"[\"']?[^\s:\"']{1,64}:([^\s\"']+)")),
    ("lftp", _option(r"lftp", r"-u", r"[\"']?[^\s,\"']{1,64},([^\s\"']+)")),
    ("%", _option(r"smb\w{1,9}|rpcclient|winexe|net", r"-U|--user", r"[\"']?[^\s%\"']{1,64}%([^\s\"']+)")),
    ("htpasswd", rf"\bhtpasswd\s(?=-\w{{0,6}}b)-(?:\w{{0,6}}n\w{{0,6}}|\w{{1,8}}\s\S{{1,200}})\s\S{{1,200}}\s{_VALUE}"),
    ("rabbitmqctl", r"\brabbitmqctl\s\w{1,20}\s\S{1,64}\s(\S+)"),
    ("config", r"\bconfig\s(?:http-basic\.\S{1,64}\s\S{1,64}|pypi-token\.\S{1,64})\s(\S+)"),  # Poetry
    ("login", r"\b(?:wandb|vault)\slogin\s(?!-)(\S+)"),
    ("net use", r"\bnet\suse\s(?:\S{1,3}\s)?\\\\\S{1,200}\s(?![/*])(\S+)"),
    ("Secure", rf"ConvertTo-SecureString\s(?:-String\s)?{_VALUE}"),  # PowerShell
    ("Set", rf"SetEnvironmentVariable\([\"']\w{{0,60}}(?:TOKEN|KEY|PASS|PWD|SECRET)\w{{0,60}}[\"'],\s?{_VALUE}"),
    # On standard input.
    (
        "|",
        rf"\b(?:echo|printf)\s(?:-\w{{1,2}}\s|[\"']%s(?:\\n)?[\"']\s){{0,2}}{_VALUE}[\"']?\s{{0,3}}\|{_STDIN}",
    ),
    ("<<<", rf"(?:[\w-]-stdin|--with-token)\b[^\n|;&]{{0,200}}?<<<\s?{_VALUE}"),
)
# Phrases with a password.
_PHRASES = (
    ("password", rf"{_NETRC}password\s{{1,8}}(\S+)(?=\s|$)"),
    ("", r"\b(?i:identified\s{1,3}by)\s{1,3}[\"']?([^\s\"';]+)"),  # SQL
    ("-pass", r"-pass\w{0,6} pass:([^\s\"';]+)"),  # openssl(1), pass phrase options
    (" for ", r"\b(?i:password|passphrase) for [^\n:]{1,80}:[^\n:]{0,80}:? [\"']?([^\s\"';]+)"),
    ("", r"\b(?i:password|passwd|passphrase|passcode) (?:is )?(?:\"([^\"\n]+)\"|'([^'\n]+)')"),
    ("is:", r"\b(?i:password|passphrase|passcode) is: {0,2}[\"']?([^\s\"';]+)"),
    ("", rf"(?:{_IN_OTHER_LANGUAGES})[\"']?\s{{0,3}}[:=\uff1a]\s{{0,3}}[\"']?([^\s\"']+)"),
    ("BasicAuth(", r"BasicAuth\([\"'][^\"'\n]{0,64}[\"'],\s?[\"']([^\"'\n]+)"),  # clients of HTTP in Python
    ("SecretStr(", r"SecretStr\((?:\"([^\"\n]+)|'([^'\n]+))"),  # Pydantic
    (":thin:", r":thin:[^\s/@]{1,64}/([^\s@]+)@"),  # JDBC of Oracle
    ('"key"', r"\"username\":\s?\"[^\"\n]{1,64}\",\s?\"key\":\s?\"([^\"\n]+)"),  # Kaggle
    # Channels of conda: conda/common/url.py, split_conda_url_easy_parts; /home/t/thompson/ is a folder.
    ("/t/", r"(?:://[^\s/]{1,200}|\.[a-z]{2,10}(?::\d{1,5})?)(?:/[\w.-]{1,64}){0,3}/t/([\w-]{8,})(?=/)"),
    ("earer", r"\b[Bb]earer\s{1,3}((?=[A-Za-z.~+/=_-]{0,200}\d)[\w.~+/=-]{8,})"),  # RFC 6750
)
COMMANDS = tuple((hint, pattern(row, re.MULTILINE)) for hint, row in _COMMANDS + _PHRASES)
USER_OPTION = pattern(
    r"(?<![\w-])(?:-[uU]|--(?:proxy-)?user)(?:[ =]|[\"'],[ ]?|(?<=-[uU]))[\"']?[^\s:\"'/=]{1,64}:(?!\d+\b)([^\s\"']+)"
)
# Programs whose option -u has a user and a group.
OTHER_USER = pattern(r"\b(?:docker|podman|nerdctl|kubectl|chown|install|su|sudo)\b")

# RFC 7468, section 10, and PuTTY's format: a key in one line, which may be cut; where one begins and ends.
PRIVATE_KEY = pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S])*(?:-----END [A-Z0-9 ]{0,40}-----)?"
    r"|PuTTY-User-Key-File-\d[\s\S]*"
)
KEY_BEGIN = pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-\d")
KEY_END = pattern(r"-----END ")
# The end of a line in a key that is quoted line by line.
KEY_LINE = pattern(r"[A-Za-z0-9+/=]{1,80}(?:\\n)?[\"',]{0,3}$|(?:Proc-Type|DEK-Info): [\w, -]{1,80}$")
# A whole line of base64 is one of a key or a certificate; a digest in hexadecimal is in one case,
# and a name has words.
BASE64_LINE = pattern(
    r"(?m)(?:^|(?<=[\s\"':|>]))(?=[a-z0-9+/]{0,70}[A-Z])(?=[A-Z0-9+/]{0,70}[a-z])"
    r"(?![A-Za-z0-9+/]{0,67}[a-z]{9})[A-Za-z0-9+/]{60,76}={0,2}$"
)
