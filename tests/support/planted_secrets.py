"""Secrets in the forms in which logs quote them, and texts that resemble them."""

from __future__ import annotations

from typing import NamedTuple

_WORD = "hunter2-Zq7"
_LONG = "Zq7xK2mVb9Tr4Lw8Ns3Yd6Hf1Jp5Gc0Ae2Ux7Ro4" + "Bi9Mt6Qk3Wv8Sz1Dy5"
_HEX = "3f9a1c7be2d84065a1b2c3d4e5f60718"
_BASE64 = "dHJhaW5lcjpodW50ZXIyLVpxNw=="
_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


class Planted(NamedTuple):
    """A line with a secret, and the part of it that must not be shown."""

    form: str
    line: str
    secret: str


def _planted(*rows: tuple[str, str]) -> tuple[Planted, ...]:
    """The secret of each row stands between the marks « and »."""
    found = []
    for form, marked in rows:
        before, _, rest = marked.partition("«")
        secret, _, after = rest.partition("»")
        found.append(Planted(form, f"{before}{secret}{after}", secret))
    return tuple(found)


BY_NAME = _planted(
    ("variable", f"DB_PASS=«{_WORD}»"),
    ("variable in a log", f"12:00:01 trainer INFO DB_PASS=«{_WORD}» loaded"),
    ("exported variable", f"export DB_PASS='«correct {_WORD} staple»'"),
    ("variable with spaces", f"PGPASSWORD=«correct {_WORD}»"),
    ("variable of a container", f"docker run -e DB_PASS=«{_WORD}» --gpus all image"),
    ("quoted variable of a container", f'docker run -e "DB_PASS=«correct {_WORD}»" image'),
    ("personal access token", f"GH_PAT=«{_WORD}»"),
    ("numbered variable", f"API_KEY_2=«{_WORD}»"),
    ("variable of PowerShell", f'$env:SMTP_PASSWD = "«{_WORD}»"'),
    ("variable in a list", f'"Env": ["PATH=/usr/bin","DB_PWD=«{_WORD}»","LANG=C"]'),
    ("variable of Kubernetes", f'{{"name": "DB_PASS", "value": "«{_WORD}»"}}'),
    ("lower-case setting", f"password=«{_WORD}»"),
    ("number as password", "db_password=«83512907»"),
    ("setting with a colon", f"  db.password: '«{_WORD}»'"),
    ("setting in YAML with spaces", f"smtp_password: «correct {_WORD}»"),
    ("passphrase", f"passphrase: «{_WORD}»"),
    ("camel case", f'"dbPassword": "«{_WORD}»"'),
    ("JSON", f'{{"user": "a", "clientSecret": "«{_WORD}»", "port": 1}}'),
    ("JSON in JSON", f'body: "{{\\"api_key\\":\\"«{_WORD}»\\"}}"'),
    ("Python dictionary", f"{{'token': '«{_WORD}»', 'x': 1}}"),
    ("Python argument", f'def connect(password: str = "«{_WORD}»") -> None:'),
    ("Go", f'authKey := "«{_WORD}»"'),
    ("XML", f"<password>«{_WORD}»</password>"),
    ("TOML", f'service_key = "«{_WORD}»"'),
    ("session", f"SESSION_TOKEN=«{_WORD}»"),
    ("WANDB_API_KEY", f"WANDB_API_KEY=«{_HEX}01234567»"),
    ("long option", f"tool login --db-password «{_WORD}» --verbose"),
    ("long option with =", f"tool login --api-key=«{_WORD}»"),
    ("option in a list of arguments", f"Command '['tool', '--token', '«{_WORD}»']' returned 1"),
    ("short option", f"java -Dtrust.password=«{_WORD}» -jar x.jar"),
    ("curl -u", f"curl -sS -u alice:«{_WORD}» https://host.example/x"),
    ("curl --user", f"curl --user 'alice:«{_WORD}»' https://host.example/x"),
    ("docker login -p", f"docker login -u alice -p «{_WORD}» host.example"),
    ("mysql -p", f"mysql -h host.example -ualice -p«{_WORD}» db"),
    ("openssl -passin", f"openssl rsa -in key.pem -passin pass:«{_WORD}»"),
    ("SQL", f"CREATE USER a IDENTIFIED BY '«{_WORD}»'"),
    ("Authorization: Bearer", f"> Authorization: Bearer «{_LONG}»"),
    ("Authorization: Basic", f"curl -H 'Authorization: Basic «{_BASE64}»' https://host.example"),
    ("bearer alone", f"sent Bearer «{_LONG}» to the host"),
    ("Cookie", f"Cookie: «sid={_WORD}; user=alice»"),
    ("Set-Cookie", f"< Set-Cookie: «sid={_WORD}; Path=/; HttpOnly»"),
    ("X-Api-Key", f"X-Api-Key: «{_WORD}»"),
    (".netrc", f"machine host.example login alice password «{_WORD}»"),
    ("a line of .netrc", f"  password «{_WORD}»"),
    (".docker/config.json", f'{{"auths": {{"host.example": {{"auth": "«{_BASE64}»"}}}}}}'),
    (".npmrc", f"//npm.example/:_authToken=«{_HEX[:8]}-{_HEX[8:12]}-{_HEX[12:16]}-{_HEX[16:20]}-{_HEX[20:32]}»"),
    (".pypirc", f"password = «{_WORD}»"),
    ("kubeconfig", f"    client-key-data: «LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo{_LONG}»"),
    ("words before a key in hexadecimal", f"logged in with API key «{_HEX}01234567»"),
    ("words before a colon", f"API key: «{_WORD}»"),
)
IN_URLS = _planted(
    ("URL of a database", f"postgres://alice:«{_WORD}»@db.example:5432/x"),
    ("URL of an index", f"Looking in indexes: https://alice:«{_WORD}»@pypi.example/simple"),
    ("password with @ and /", f"https://alice:«a@{_WORD}/b»@pypi.example/simple"),
    ("token as user", f"git+https://«{_WORD}»@git.example/x.git"),
    ("proxy without a scheme", f"proxy alice:«{_WORD}»@proxy.example:3128 refused"),
    ("URL without a scheme", f"Looking in indexes: //alice:«{_WORD}»@pypi.example/simple"),
    ("URL without a scheme and domain", f"fetching //alice:«{_WORD}»@mirror/simple"),
    ("second of two URLs", f"CONDA_CHANNELS=https://a.example/x,https://alice:«{_WORD}»@b.example/y"),
    ("URL within a URL", f"https://proxy.example/?u=https://alice:«{_WORD}»@b.example/y"),
    ("sig=", f"https://store.example/w.whl?sv=2024&sig=«{_WORD}%3D»&se=2026"),
    ("access_token=", f"https://host.example/x?access_token=«{_WORD}»&page=2"),
    ("key=", f"https://host.example/x?key=«{_WORD}»"),
    ("signed URL", f"https://s3.example/x?X-Amz-Expires=60&X-Amz-Signature=«{_HEX}{_HEX}»"),
    ("random value", f"https://host.example/api?code=«{_LONG}»"),
    ("channel of conda", f"https://conda.example/t/«tk-{_HEX[:12]}»/main/linux-64"),
    ("channel of conda without a scheme", f"conda.example:8443/conda/t/«tk-{_HEX[:12]}»/main/linux-64"),
    ("connection string", f"Server=db.example;User Id=alice;Password=«{_WORD}»;Encrypt=true"),
    ("Azure storage", f"AccountName=x;AccountKey=«{_LONG}{_LONG[:28]}==»;EndpointSuffix=core.example"),
    ("Slack webhook", f"https://hooks.slack.com/services/«T0AB12CD3/B0AB12CD3/{_LONG[:24]}»"),
    ("Discord webhook", f"https://discord.com/api/webhooks/«123456789012345678/{_LONG}»"),
    ("Teams webhook", f"https://x.webhook.office.com/«webhookb2/{_HEX}@{_HEX}/IncomingWebhook/{_HEX}»"),
)
BY_FORM = _planted(
    ("GitHub", f"cloning with «ghp_{_LONG[:36]}»"),
    ("GitHub, fine-grained", f"cloning with «github_pat_{_LONG[:22]}_{_LONG[:30]}»"),
    ("GitLab", f"cloning with «glpat-{_LONG[:20]}»"),
    ("GitLab feature flags", f"client «glffct-{_LONG[:20]}» refused"),
    ("GitLab runner", f"registering with «GR1348941{_LONG[:20]}»"),
    ("npm", f"publishing with «npm_{_LONG[:36]}»"),
    ("PyPI", f"publishing with «pypi-AgEIcHlwaS5vcmc{_LONG}{_LONG[:20]}»"),
    ("Docker", f"pulling with «dckr_pat_{_LONG[:27]}»"),
    ("Hugging Face", f"loading with «hf_{_LONG[:34]}»"),
    ("NVIDIA NGC", f"pulling with «nvapi-{_LONG}»"),
    ("OpenAI", f"asking with «sk-proj-{_LONG[:40]}»"),
    ("Slack", f"posting with «xoxb-123456789012-123456789012-{_LONG[:24]}»"),
    ("AWS", "signing with «AKIAZQ7XK2MVB9TR4LW8»"),
    ("Google", f"asking with «AIza{_LONG[:35]}»"),
    ("Google OAuth", f"asking with «ya29.{_LONG[:40]}»"),
    ("SendGrid", f"mailing with «SG.{_LONG[:22]}.{_LONG[:43]}»"),
    ("Shopify", f"asking with «shpat_{_HEX}»"),
    ("DigitalOcean", f"asking with «dop_v1_{_HEX}{_HEX}»"),
    ("Stripe", f"paying with «sk_live_{_LONG[:24]}»"),
    ("Vault", f"reading with «hvs.{_LONG[:30]}»"),
    ("Telegram", f"bot «1234567890:{_LONG[:35]}» started"),
    ("JSON Web Token", f"sent «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.{_LONG[:43]}»"),
    ("private key in one line", f"key -----BEGIN RSA PRIVATE KEY-----\\n«{_BODY}»\\n-----END RSA PRIVATE KEY-----"),
    ("private key that is cut", f"-----BEGIN OPENSSH PRIVATE KEY----- «{_BODY[:30]}»"),
    ("a line of a private key", f"«{_BODY}»"),
)
_LETTERS = "correcthorse1"
IN_COMMANDS = _planted(
    ("curl -b", f"curl -b sid=«{_WORD}» https://host.example/x"),
    ("curl -b, quoted", f"curl -sSb 'sid=«{_WORD}; user=a»' https://host.example/x"),
    ("curl --cookie", f'curl --cookie "sid=«{_WORD}»" https://host.example/x'),
    ("curl -b in a list", f"['curl', '-b', 'sid=«{_WORD}»', 'https://host.example']"),
    ("smbclient -U", f"smbclient //host.example/share -U alice%«{_LETTERS}»"),
    ("smbclient -U with a domain", f"smbclient -U 'DOM\\alice%«{_LETTERS}»' //host.example/share"),
    ("echo into docker login", f"+ echo «{_LETTERS}» | docker login -u alice --password-stdin host.example"),
    ("printf into podman login", f"printf '%s' '«{_LETTERS}»' | podman login --password-stdin"),
    ("here-string into docker login", f"docker login --username alice --password-stdin <<< '«{_LETTERS}»'"),
    ("echo into sudo", f"echo «{_LETTERS}» | sudo -S apt-get install cuda"),
    ("docker login -p after -u=", f"docker login -u=alice -p«{_LETTERS}»"),
    ("helm registry login -p", f"helm registry login -u alice -p «{_LETTERS}» host.example"),
    ("mysql -p, quoted", f"mysqldump -ualice -p'«{_LETTERS} {_WORD}»' db"),
    ("sshpass -p", f"sshpass -p «{_LETTERS}» ssh host.example -p 2222"),
    ("mongo -p", f"mongosh mongodb://host.example -u alice -p «{_LETTERS}»"),
    ("twine -p", f"twine upload -u alice -p «{_LETTERS}» dist/*"),
    ("sqlcmd -P", f"sqlcmd -S host.example -U sa -P '«{_LETTERS}»'"),
    ("ldapsearch -w", f"ldapsearch -x -D cn=admin -w «{_LETTERS}» -b dc=x"),
    ("7z -p", f"7z x -p«{_LETTERS}» a.7z"),
    ("htpasswd -b", f"htpasswd -nbB alice «{_LETTERS}»"),
    ("keytool -storepass", f"keytool -list -storepass «{_LETTERS}» -keystore a"),
    ("wandb login", f"wandb login «{_HEX}01234567»"),
    ("Poetry", f"poetry config http-basic.internal alice «{_LETTERS}»"),
    ("net use", f"net use Z: \\\\host.example\\share «{_LETTERS}» /user:alice"),
    ("PowerShell's SecureString", f"ConvertTo-SecureString '«{_LETTERS}»' -AsPlainText -Force"),
    ("PowerShell's variable", f'[Environment]::SetEnvironmentVariable("X_TOKEN", "«{_LETTERS}»")'),
    (".netrc with an account", f"machine host.example login alice account x password «{_LETTERS}»"),
    ("mount", f"mount -t cifs -o user=alice,pass=«{_LETTERS}»,uid=1000 //host.example/share /mnt"),
    ("Dockerfile", f"Step 4/9 : ENV API_KEY «{_LETTERS}»"),
    ("build argument", f"docker build --build-arg PIP_TOKEN=«{_LETTERS}» ."),
    ("literal of a Kubernetes secret", f"kubectl create secret generic x --from-literal=password=«{_LETTERS}»"),
    ("Windows", f'C:\\> set "X_TOKEN=«{_LETTERS}»"'),
    ("fish", f"set -gx X_TOKEN «{_LETTERS}»"),
    ("short name", f"LDAP_BIND_PW=«{_LETTERS}»"),
    ("setting of an INI file with spaces", f"password = «correct {_WORD} battery»"),
    ("webhook by name", f"SLACK_WEBHOOK=https://host.example/«{_WORD}»"),
    ("attribute of XML", f'<Password value="«{_LETTERS}»" />'),
    ("header in a list", f'"set-cookie": ["«sid={_WORD}; Path=/»"]'),
    ("token in hexadecimal", f"notebook token: «{_HEX}»"),
    ("URL-encoded", f"%22password%22%3A%22«{_WORD}»%22"),
    ("another language", f"пароль: «{_WORD}»"),
    ("Kaggle", f'{{"username":"alice","key":"«{_HEX}»"}}'),
    ("hash of a password", f"alice:«$6$saltsalt${_LONG}»:19000:0"),
    ("docker config of Kubernetes", ".dockerconfigjson: «eyJhdXRocyI6eyJoIjp7ImF1dGgiOiJ4In19fQ==»"),
    ("Slack webhook of a government", f"https://hooks.slack-gov.com/services/«T0AB12CD3/B0AB12CD3/{_LONG[:24]}»"),
    ("webhook with a UUID", "https://hc-ping.com/«7e1c05aa-61d3-4b2f-8a90-0b1d2f3a4c5e»"),
    ("Telegram in a URL", f"https://api.telegram.example/bot«1234567890:{_LONG[:35]}»/send"),
    ("any random word", f"uploading with «{_LONG[:44]}» to the host"),
)
# Texts of some lines with a secret in another line than its name.
IN_LINES_AFTER = (
    f"DB_PASSWORD:\n  {_WORD}\nnext: 1",
    f"DB_PASSWORD=\\\n{_WORD}\nnext",
    f"password: |\n  {_WORD}\n  {_WORD}\nother: 1",
    f"token: >-\n    {_WORD}\nother: 1",
    f"docker login \\\n  --password \\\n  {_WORD}\n",
    f"docker login -u alice \\\n  -p {_WORD}\n",
    f"curl \\\n  -b sid={_WORD} \\\n  https://host.example",
    f'"password":\n   "{_WORD}",\n',
    f'[\n "--token",\n "{_WORD}"\n]',
    f"- name: DB_PASS\n  value: {_WORD}",
    f"<password>\n  {_WORD}\n</password>",
    f"SECRET = '''\n{_WORD}\n'''",
    f'token = """\n{_WORD}"""',
    f"Password: \n{_WORD}\n",
)
WORD = _WORD
PLANTED = BY_NAME + IN_URLS + BY_FORM + IN_COMMANDS
(LONG_URL,) = _planted(("URL with a long password", f"https://ci:«{'hunter2-' * 50}»@pypi.example/simple"))

HARMLESS = (
    "PWD=/home/alice/work",
    "DESKTOP_SESSION=ubuntu-xorg GDMSESSION=plasma XDG_SESSION_DESKTOP=KDE XDG_SESSION_CLASS=user",
    "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus",
    "/home/t/thompson/lib64/libcuda.so.1: file too short",
    "file:///scratch/t/simulations/wheels",
    "OLDPWD=/srv/data/run",
    "PATH=/usr/local/cuda/bin:/usr/bin",
    "KEYBOARD=us",
    "AUTHOR: Jane Doe <jane@host.example>",
    "cache key: py311-linux-abc123",
    "sort_key=created_at",
    "primary_key: id",
    "- key: nvidia.com/gpu",
    "publicKeyToken=b77a5c561934e089",
    "KeyError: 'device'",
    "AuthenticationError: token is missing",
    "max_tokens=512 tokens/s: 1000.25",
    "tokenizer: gpt2-medium",
    "pad_token: '<pad>' eos_token_id: 50256",
    "error: unexpected token ';'",
    "token_type: bearer",
    "use_auth_token=False",
    "token: none",
    "PASS: test_smoke.py::test_fft",
    "pass 3: compiling kernels",
    "Xid 31, pass=2",
    "password authentication failed for user postgres",
    "password: required",
    "PASSWORD_FILE=/run/secrets/db",
    "SSH_AUTH_SOCK=/tmp/ssh-abc/agent.12",
    "--token-file /etc/token --no-auth",
    "password=${DB_PASSWORD}",
    "TOKEN=$GITHUB_TOKEN",
    "TOKEN=<your token>",
    "session=3 sig=11 signature: _ZN4cupy6kernelEv",
    "x86/PAT: Configuration [0-7]: WB  WC  UC- UC",
    "SIGSEGV: signal 11",
    "secretary: none of it",
    "compass=north bypass=1",
    "bearer of bad news",
    "docker run -u 1000:1000 --gpus all nvidia/cuda:12.4.1-base",
    "nvidia/cuda@sha256:9f2c5bd0a4e6c1d7b8a3f0e1d2c3b4a5968778695a4b3c2d1e0f9a8b7c6d5e4f",
    "git+https://github.com/cupy/cupy.git@v13.6.0",
    "https://registry.example/@scope/package",
    "ssh://git@github.com/cupy/cupy.git",
    "commit 47d6dd6971b0c9d8e7f60618293a4b5c6d7e8f90",
    "uuid 4b50389791bc-not, 3d4db13e-c42d-5555-98f4-8b50389791bc",
    "cupy/_core/core.so,sha256=pQ4wE8rT1yU6iO3aS9dF5gH2jK7lZ0xC4vB8nM1q_-w,12345",
    "--hash=sha256:90e1d2c3b4a5968778695a4b3c2d1e0f90e1d2c3b4a5968778695a4b3c2d1e0f",
    "undefined symbol: _ZN3c104cuda14ExchangeDeviceEi",
    "pci 10de:2684 at 0000:3b:00.0 subsystem 10de:167c",
    "https://host.example/x?page=2&sort=key&version=12.4.1",
    "https://files.example/cupy_cuda12x-13.6.0-cp311-cp311-manylinux2014_x86_64.whl#sha256=90e1d2c3b4a5968778695a4b3c2d1e0f",
    "pypi-simple-index==1.2.0 npm_config_cache=/tmp/npm hf_raise_for_status sk-learn",
    "Driver Version: 550.54.14   CUDA Version: 12.4",
    "/usr/lib/python3/site-packages/keyring/backends/SecretService.py:12",
    "CUDA_MODULE_LOADING=LAZY NVIDIA_VISIBLE_DEVICES=all",
    "mailto:jane@host.example",
    "docker run -p 8080:80 --publish 8081:81 -u alice:users image -p value",
    "ssh login -p 2222 host.example; pip -p value; uv pip install -p 3.11 cupy; curl -b cookies.txt host.example",
    "echo hello | docker build -t x - ; echo yes | apt-get install cuda-toolkit-12-4",
    "openssl req -key /etc/key.pem -config x.cnf -kdf",
    "mkdir -p /opt/cuda; cp -p a b; nvidia-smi -pl 300; python -P -m pip; zip -r a.zip dir; http -a",
    "nvidia/cuda:12.4.1@sha256:9f2c5bd0a4e6c1d7b8a3f0e1d2c3b4a5968778695a4b3c2d1e0f9a8b7c6d5e4f",
    "cuda:12.4.1-base@sha256:9f2c5bd0a4e6c1d7b8a3f0e1d2c3b4a5968778695a4b3c2d1e0f9a8b7c6d5e4f",
    "container 90e1d2c3b4a5968778695a4b3c2d1e0f90e1d2c3b4a5968778695a4b3c2d1e0f exited",
    "MONKEY=1 tokenizers==0.15.2 passed=4 patch=7 author: x",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x8x1_SE_1LDSB0_APM1_ABV0_ACED0",
    "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x128_32x5_nn_align8>(Params)",
    "sha384-oqVuAfXRKap7fdgcCY5uykM6R9GqQ8KuxyrxHNQlGYl1kPzQho1wx4JwY8wCabcd libcublasLt.so.12.4.5.8",
    "at::native::DistributionNullaryKernelUsingCurandPhilox4x32WithOffsetAndSeed",
    "set -x; set -e; shows: password:",
    "//registry.example/@scope/package //registry.example:8080/@scope/package // see jane@host.example",
)
PRIVATE_KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}\n{_BODY[::-1]}\ndGVzdA==\n-----END RSA PRIVATE KEY-----"


def shown_parts(planted: Planted, text: str) -> list[str]:
    """The parts of the secret that a text shows: of words, all; of a token, any eight characters."""
    words = [word for word in planted.secret.split() if any(map(str.isdigit, word))]
    pieces = (word[start : start + 8] for word in words for start in range(max(1, len(word) - 7)))
    return [piece for piece in pieces if piece in text]
