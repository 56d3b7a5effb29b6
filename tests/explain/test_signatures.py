"""Rules for signatures as data: required fields and forbidden content."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from gpuenv.explain.explanation_types import Level, Signature
from gpuenv.explain.machine_evidence import EVIDENCE
from gpuenv.explain.normalize import clean
from gpuenv.explain.patterns import compiled
from gpuenv.explain.signatures import all_signatures
from gpuenv.model.causes import Cause
from tests.eval.messages import MESSAGES
from tests.eval.printed_messages import messages
from tests.eval.score import SETS, load
from tests.explain.message_ranking import ranked

SIGNATURES = all_signatures()
# Found on the machine or by a test only: no program prints that its sources disagree.
NOT_IN_A_TEXT = {Cause.SOURCES_DISAGREE, Cause.GPU_TEST_FAILED, Cause.INSTALL_INTERRUPTED}
# What only one report can contain: its author's folders, its line numbers, its issue.
OF_ONE_REPORT = re.compile(
    r"/home/(?!\w*\[)|[/\\]Users[/\\]|/tmp/\w|/mnt/|\bissues?/\d|#\d{2,}|line \d{2,}|0x[0-9a-f]{6,}"
    r"|(?<!setup\\)(?<!cupy\\)(?<!setup)(?<!cupy)\.py\b",
    re.IGNORECASE,
)
# Numbers to which programs themselves give a meaning: the compiler's error C1083, the linker's LNK2019, Windows's 1114.
NUMBERS = {"1083", "1114", "2001", "2019"}


def test_signature_names_are_unique() -> None:
    names = [signature.name for signature in SIGNATURES]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z-]+\.[a-z0-9-]+", name) for name in names)


def is_complete(signature: Signature) -> bool:
    """Evidence has a name; any other signature has weighted causes, the likeliest first."""
    if not (signature.literals and signature.source and signature.scope):
        return False
    if not all(literal == literal.lower() and len(literal) >= 3 for literal in signature.literals):
        return False
    if signature.level is Level.EVIDENCE:
        return bool(signature.evidence) and not signature.causes
    weights = [weight for _, weight in signature.causes]
    in_order = weights == sorted(weights, reverse=True) or len(weights) > 5
    return bool(weights) and all(0 < weight < 1 for weight in weights) and sum(weights) <= 1.08 and in_order


def test_every_signature_is_complete() -> None:
    assert [signature.name for signature in SIGNATURES if not is_complete(signature)] == []


def test_every_pattern_is_a_regular_expression() -> None:
    wrong = {}
    for signature in SIGNATURES:
        try:
            compiled(signature.pattern or "")
        except re.error as error:
            wrong[signature.name] = str(error)
    assert wrong == {}


def test_no_signature_contains_text_of_a_single_report() -> None:
    def of_one_report(text: str) -> bool:
        numbers = set(re.findall(r"(?<![\w\[.{,])\d{4,}(?!\d)", text))
        return OF_ONE_REPORT.search(text) is not None or not numbers <= NUMBERS

    texts = {signature.name: (*signature.literals, signature.pattern or "") for signature in SIGNATURES}
    found = {name: [text for text in of if of_one_report(text)] for name, of in texts.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_evidence_in_modifiers_and_requirements_exists() -> None:
    shown = {signature.evidence for signature in SIGNATURES} | set(EVIDENCE)
    wanted = {
        signature.name: {modifier.evidence.removeprefix("!") for modifier in signature.modifiers}
        | set(signature.requires)
        for signature in SIGNATURES
    }
    assert {name: evidence - shown for name, evidence in wanted.items() if evidence - shown} == {}


def test_titles_use_only_captured_groups() -> None:
    named = {
        signature.name: set(re.findall(r"\{(\w+)\}", f"{signature.title} {signature.decisive_fact}"))
        - set(compiled(signature.pattern or "").groupindex)
        for signature in SIGNATURES
    }
    assert {name: unknown for name, unknown in named.items() if unknown} == {}


def test_every_cause_that_a_text_can_show_has_a_signature() -> None:
    named = {cause for signature in SIGNATURES for cause, _ in signature.causes}
    judged = {Cause.GPU_TOO_OLD_FOR_ANY_DRIVER}  # by the number of the legacy branch
    assert set(Cause) - named - judged == NOT_IN_A_TEXT


def test_every_cause_has_a_fix() -> None:
    for cause in Cause:
        assert cause.fix, cause
        for fix in cause.fix:
            assert fix.text.isascii()
            assert fix.command is None or all(word and " " not in word.strip() for word in fix.command)
            assert not fix.safe, "a text does not say whose environment it is about"


def lower(pattern: str) -> str:
    """The pattern for lower-case text, where a search is twice as fast as one without regard to case."""
    return re.sub(r"\\.|\(\?P|[A-Z]", lambda match: match[0] if len(match[0]) > 1 else match[0].lower(), pattern)


@pytest.mark.long
def test_every_match_of_a_pattern_contains_one_of_its_literals() -> None:
    """Over every text that is at hand: what a pattern finds, one of its literals finds before it."""
    cases = [case.error_text for name in SETS for case in load(name)]
    printed = [message.text for message in messages()]
    texts = (*cases, *printed, *(text for texts in MESSAGES.values() for text in texts))
    windows = {
        f"{line} {after}".lower() for text in texts for line, after in pairwise((*map(clean, text.splitlines()), ""))
    }
    unseen = set()
    for signature in SIGNATURES:
        if signature.pattern is not None:
            found = re.compile(lower(compiled(signature.pattern).pattern)).search
            unseen |= {
                (signature.name, match[0])
                for window in windows
                if not any(literal in window for literal in signature.literals) and (match := found(window))
            }
    assert unseen == set()


@pytest.mark.parametrize(
    ("line", "is_the_driver"),
    [
        ("make[3]: *** [scripts/Makefile.build:243: nvidia/libspdm_ecc.o] Error 1", True),
        ("make[2]: *** [nvidia-drm.o] Error 1", True),
        ("nvidia/nv_clk.c:31:5: error: too few arguments to function 'clk_get'", True),
        ("make[3]: *** [scripts/Makefile.build:243: vboxdrv/memobj.o] Error 1", False),
        ("make: *** [/opt/nvidia/deepstream/sources/apps/app.o] Error 1", False),
        ("nvidia/nv_clk.c:31:5: warning: unused variable 'clk'", False),
    ],
)
def test_a_build_of_the_driver_module_is_recognized_without_a_path(line: str, *, is_the_driver: bool) -> None:
    result = [entry.cause for entry in ranked(line)]
    assert result == ([Cause.DRIVER_KERNEL_INCOMPATIBLE] if is_the_driver else [])
