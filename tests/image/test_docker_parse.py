"""The parser of Dockerfiles, compared with BuildKit's own, and the parser of shell commands."""

from __future__ import annotations

import dockerfile
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.image.dockerfile.parse import DockerfileError, parse, source_text
from gpuenv.image.dockerfile.shell import commands
from gpuenv.image.dockerfile.variables import Expansion, substitute


def unknown(name: str) -> str | None:
    del name
    return None


SAMPLES = (
    "FROM a\nRUN b",
    "# escape=`\nFROM a\nRUN b `\n c \\",
    "# syntax=x/y:1\n# escape=`\nFROM a\nRUN a`\n b",
    "FROM a\n# escape=`\nRUN b \\\n c",
    "\n# escape=`\nFROM a\nRUN b \\\n c",
    "# other=x\n# escape=`\nFROM a\nRUN b \\\n c",
    "# syntax=x\n# Escape = `\nFROM a\nRUN b `\n c",
    "FROM --platform=linux/amd64 a AS b\nCOPY --from=b --chown=1:1 x y",
    "FROM a\nRUN --mount=type=cache,target=/x --network=none b \\\n\n# comment\n   c",
    "FROM a\nRUN <<EOF\na\n  EOF\nEOF\nRUN c",
    "FROM a\nCOPY <<-one <<'two' /x/\n\t1\n\tone\n2\ntwo\nRUN d",
    "FROM a\nRUN cat <<<x && echo 1<<2\n2\nRUN echo '<<x' \"a <<y\"",
    "FROM a\nENV A=1 B='2 3' C=\"4 \\\n5\"",
    "FROM a\r\nRUN b \\\r\n  c\r\n",
    "FROM a\nRUN b \\\\\nRUN c",
    "FROM a\nRUN b \\   \n  c",
    "  from a\n   run b",
    'FROM a\nHEALTHCHECK --interval=5s CMD x\nONBUILD RUN y\nSHELL ["a", "b"]',
    "FROM a\nONBUILD CMD <<EOF\nRUN b",
    "FROM a\nRUN a \\\n",
    "FROM a\nLABEL x=y\n\n\n#\n\nUSER u",
)


def ours(text: str) -> list[tuple[str, int, int, tuple[str, ...], tuple[str, ...]]]:
    return [
        (each.keyword, each.line, each.end_line, each.flags, tuple(heredoc.name for heredoc in each.heredocs))
        for each in parse(text)
    ]


def theirs(text: str) -> list[tuple[str, int, int, tuple[str, ...], tuple[str, ...]]]:
    return [
        (each.cmd.upper(), each.start_line, each.end_line, each.flags, tuple(h.name for h in each.heredocs))
        for each in dockerfile.parse_string(text)
    ]


@pytest.mark.parametrize("text", SAMPLES)
def test_a_dockerfile_is_parsed_as_by_buildkit(text: str) -> None:
    assert ours(text) == theirs(text)


def test_the_heredocs_of_onbuild_are_read() -> None:
    """The other parser takes their lines, but does not list them."""
    text = "FROM a\nONBUILD RUN <<EOF\nb c\nEOF\nONBUILD COPY <<A <<B /\nA\nB\nRUN d"
    assert [entry[:4] for entry in ours(text)] == [entry[:4] for entry in theirs(text)]
    assert [entry[4] for entry in ours(text)] == [(), ("EOF",), ("A", "B"), ()]


def test_the_directive_check_may_precede_others() -> None:
    """It is new in Dockerfile 1.8, which the other parser does not know."""
    assert ours("# check=skip=all\n# escape=`\nFROM a\nRUN b `\n c") == [("FROM", 3, 3, (), ()), ("RUN", 4, 5, (), ())]


def test_a_repeated_directive_is_refused() -> None:
    with pytest.raises(DockerfileError, match="line 2: the directive escape"):
        parse("# escape=`\n# escape=`\nFROM a")


LINES = st.lists(
    st.sampled_from(
        [
            "FROM a",
            "RUN b",
            "RUN b \\",
            "  c",
            "  c \\",
            "",
            "# x",
            "ENV A=1",
            "ENV A=1 \\",
            "COPY a b",
            "RUN <<E",
            "E",
            "\t",
        ]
    ),
    max_size=12,
)


@settings(max_examples=300)
@given(LINES)
def test_any_lines_are_parsed_as_by_buildkit(lines: list[str]) -> None:
    text = "\n".join(["FROM start", *lines])
    try:
        expected = theirs(text)
    except dockerfile.GoParseError:
        return
    known = {"FROM", "RUN", "ENV", "COPY"}
    if any(entry[0] not in known for entry in expected):
        with pytest.raises(DockerfileError):
            parse(text)  # BuildKit leaves unknown instructions to a later step
        return
    assert ours(text) == expected


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except DockerfileError as error:
        assert "line" in str(error) or "characters" in str(error)  # noqa: PT017 - refused or not, both are right


@given(st.text(alphabet="ab $(){}'\"\\`;&|<>\n#=", max_size=60))
def test_any_shell_text_ends(text: str) -> None:
    for command in commands(source_text(text, 1), unknown, Expansion()):
        assert command.words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b && c 'd e' || f", [["a", "b"], ["c", "d e"], ["f"]]),
        ('x "a $V b" $V ${W:-w} ${V:+v}', [["x", "a 1 b", "1", "w", "v"]]),
        ("a > b 2>&1 < c; d | e &", [["a"], ["d"], ["e"]]),
        ("A=1 B=2 sudo -E env C=3 pip install x", [["pip", "install", "x"]]),
        ("(cd a && b); { c; }", [["cd", "a"], ["b"], ["c"]]),
        ("a # b && c\nd", [["a"], ["d"]]),
        ("a \\\n b", [["a", "b"]]),
        ("sh -c 'a; b'", [["a"], ["b"]]),
        ("a $(b; c) `d` e", [["a", "$(b; c)", "`d`", "e"]]),
        ("if a; then b; else c; fi", [["a"], ["b"], ["c"]]),
    ],
)
def test_commands_are_separated(text: str, expected: list[list[str]]) -> None:
    found = commands(source_text(text, 1), {"V": "1"}.get, Expansion())
    assert [[word.text for word in command.words] for command in found] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A-${A}", "1-1"),
        ("${B:-2}${B-3}", "23"),
        ("${A:-2}", "1"),
        ("${A:+x}", "x"),
        ("${E:+x}", ""),
        ("$B", "$B"),
        ("${B:-${A}}", "1"),
        ("${A%%x}", "1"),
        ("${U%%x}", "${U%%x}"),
        ("no", "no"),
    ],
)
def test_known_variables_are_replaced(text: str, expected: str) -> None:
    assert substitute(text, {"A": "1", "E": ""}.get) == expected
