"""The options of an installer's call, read by the names that take a value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuenv.image.dockerfile.shell import ShellWord

# Options that take a word of their own: pip 23.2.1, pip install --help; uv 0.13.8, uv pip install, uv add and uv sync
# --help (run 2026-11-21); poetry 2.5.1 and pdm 2.29.3, install --help (run 2026-11-22). Those of conda
# were not looked up.
_WITH_VALUE = frozenset(
    (
        *("-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints", "-e", "--editable"),
        *("-t", "--target", "--prefix", "--root", "-i", "--index-url", "--extra-index-url", "-f", "--find-links"),
        *("--platform", "--python-version", "--implementation", "--abi", "--no-binary", "--only-binary"),
        *("--cache-dir", "--src", "--progress-bar", "--timeout", "--retries", "--proxy", "--cert", "--client-cert"),
        *("--trusted-host", "--upgrade-strategy", "--python", "-p", "--resolution", "--torch-backend", "--group"),
        *(
            "--extra",
            "--extras",
            "-E",
            "-G",
            "--index",
            "--default-index",
            "--index-strategy",
            "--config-settings",
            "-C",
        ),
        *("--global-option", "--report", "--log", "--exclude-newer", "--link-mode", "--prerelease", "-P"),
        *("--keyring-provider", "--override", "--overrides", "--build-constraint", "--directory", "--project"),
        *("-n", "--name", "--channel", "--file", "--reinstall-package", "--upgrade-package", "--no-build-package"),
        *("--no-binary-package", "--refresh-package", "--exists-action", "--root-user-action", "--use-feature"),
        *("--use-deprecated", "--allow-insecure-host", "--build-constraints", "-b", "--color", "--config-file"),
        *("--config-setting", "--config-settings-package", "--exclude-newer-package", "--excludes", "--fork-strategy"),
        *("--no-build-isolation-package", "--no-editable-package", "--no-sources-package", "--output-format"),
        *("--prerelease-package", "--python-platform", "--upgrade-group", "--bounds", "--branch", "--marker"),
        *("--no-install-package", "--optional", "--package", "--rev", "--script", "--tag", "--no-extra", "--no-group"),
        *("--only-group", "--with", "--without", "--only", "-o", "--output", "--output-file", "-m", "--manifest-path"),
    )
)
# Short ones that take none, in one word with one that may: ``-qr requirements.txt``.
_BUNDLE = re.compile(r"-[IUqvy]+([A-Za-z].*)", re.DOTALL)


@dataclass(slots=True)
class Options:
    """The options of one call of pip."""

    positional: list[ShellWord] = field(default_factory=list)
    values: dict[str, list[ShellWord]] = field(default_factory=dict)

    def of(self, *names: str) -> list[ShellWord]:
        """The values of an option by its names."""
        return [word for name in names for word in self.values.get(name, ())]


def read_options(words: Sequence[ShellWord], flags: frozenset[str] = frozenset()) -> Options:
    """The options of a call; ``flags`` are those that take no word although others' of that name do."""
    found = Options()
    position = 0
    while position < len(words):
        word = _unbundled(words[position], flags)
        name, equals, value = word.text.partition("=")
        if not word.text.startswith("-") or word.text == "-":
            found.positional.append(word)
        elif equals and name.startswith("--"):
            found.values.setdefault(name, []).append(ShellWord(value, word.line, word.known))
        elif word.text in _WITH_VALUE - flags and position + 1 < len(words):
            position += 1
            found.values.setdefault(word.text, []).append(words[position])
        elif word.text[:2] in _WITH_VALUE - flags and len(word.text) > len("-r"):
            found.values.setdefault(word.text[:2], []).append(ShellWord(word.text[2:], word.line, word.known))
        else:
            found.values.setdefault(name, [])
        position += 1
    return found


def _unbundled(word: ShellWord, flags: frozenset[str]) -> ShellWord:
    """An option with a value, without the ones before it in the same word."""
    match = _BUNDLE.fullmatch(word.text)
    inner = f"-{match[1]}" if match is not None else ""
    return ShellWord(inner, word.line, word.known) if inner[:2] in _WITH_VALUE - flags else word
