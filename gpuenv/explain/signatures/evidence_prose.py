"""Evidence in the user's own words about machine and program: it changes the weights of causes."""

from __future__ import annotations

from gpuenv.explain.signatures.evidence_common import evidence

_SOMEONE = r"(?:some(?:body|one) else|an?other (?:user|person|team|group)|(?:my |a |one )(?:colleague|coworker))"
_MUCH = r"(?:\w+ ){0,2}?(?:\d[\d.]*(?: of \d+)? ?[GM](?:i?B)?\b|\d{2} ?%|the rest|most of|all of|almost all)"

SIGNATURES = (
    evidence(
        "numpy-does",
        (
            "numpy does",
            "numpy accept",
            "numpy allow",
            "numpy handle",
            "numpy cast",
            "numpy work",
            "numpy support",
            "with numpy",
            "in numpy",
        ),
        r"\bNumPy (?:does|accepts|allows|handles|casts|works|supports)\b|\b(?:works|is fine|passes|succeeds) (?:fine )?(?:in|with) numpy\b",
    ),
    evidence(
        "others-hold",
        (
            *("another user", "another process", "another program", "another job", "another pod", "another team"),
            *("other user", "other process", "other program", "other job", "other pod", "by another", "by other"),
            *("someone else", "somebody else", "colleague", "coworker", "zombie process", "the rest"),
            *("taken by", "held by", "used by", "owned by", "occupied by", "preallocated by", "(user: "),
            *("pod", "job", "pid ", "process"),
            *("foreign ", "zombie", "co-scheduled", "slic", "another ", "second ", "other "),
            *("stale ", "earlier ", "orphan", "leftover", "forgotten", "previous "),
        ),
        # "no other process uses it" is the contrary, and so is advice on what to look for.
        r"\b(?<!no )(?<!any )(?<!whether )(?<!if )(?<!close )(?<!stop )(?<!kill )(?<!quit )(?<!check )(?<!check for )(?:another|other) (?:user|process|program|job|pod|container|team|person)\w*\b(?:(?!\bnot\b|n't\b).){0,60}\b(?:us(?:es?|ing|ed)|hold\w*|held|occup\w*|tak\w*|took|owns?)\b"
        r"|\b(?<!not )in use by (?:another|other)\b|\b(?<!no )zombie process"
        rf"|(?:\b(?:belongs? to|is|are)|'s|\b(?:owned|used|held|taken|occupied) by) {_SOMEONE}"
        rf"|\b(?:{_SOMEONE}|(?:pods?|jobs?|pid|process(?:es)?) [#:]?\d[\d+,&-]{{0,20}}) (?:\([^()]{{1,40}}\) )?(?:already )?(?:took|takes?|ha[sv]e? taken|holds?|held|occup\w+|owns?|hogs?|uses?|keeps?) {_MUCH}(?!.{{0,20}}\b(?:mine|itself)\b)"
        r"|\d ?[GM](?:i?B)? (?:is |are |was |were |already )*(?:taken|held|used|owned|occupied) by (?:(?:job|pid|process|pods?) [#:]?\d|another|other|some)|\d ?[GM]i?B \(user: "
        r"|\([^()]{0,40}\b(?:another|other) (?:user|process|job|team)\b[^()]{0,40}\) (?:owns|holds|uses|takes) "
        r"|\b(?:stale|earlier|orphaned|leftover|forgotten|previous) (?:[\w-]{1,20} )?(?:python|process|notebook|jupyter kernel|session|job|cluster|server|interpreter|worker)(?:e?s)?\b.{0,60}\b(?:keeps?|holds?|held|occup\w+|still (?:uses?|ha[sv]e?)|owns?)\b"
        r"|\bpreallocated by an(?:other| earlier)"
        r"|\b(?<!if )(?<!whether )(?<!no )(?:job|process|worker|task|session|notebook|pod)s? of (?:an?other|a different|some) (?:user|tenant|team|person|job|student|container)"
        r"|\b(?<!if )(?<!whether )(?:an?other|some) (?:person|user|tenant|team|student|colleague|job)'s (?:\w+ )?(?:job|process|worker|task|session|notebook|server|pod)"
        r"|\b(?<!if )(?<!whether )(?<!no )(?<!check for )another (?:\w+ )?(?:\w+ )?\(?(?:pid|PID) \d+\)?|\banother (?:\w+ ){1,2}\d{3,6} ?Mi?B\b|\bforeign (?:task|job|process|pid|pod)\b"
        r"|\b(?:forgotten|orphaned|zombie|leftover|other|second) (?:\w+ )?(?:notebook|session|kernel|process|job|server|instance)\b.{0,40}\b(?:has (?:all|everything|it all)|grabbed|took everything|takes everything)\b|\bzombie\b.{0,30}\b\d+(?:\.\d)? ?[GM]i?B\b"
        r"|\bco-scheduled\b.{0,40}\b(?:GPU|time[- ]slic\w+)|\b(?:GPU )?time[- ]slic\w+.{0,40}\bneighbou?rs?\b",
    ),
    # What does not fit although there is room: an idle pool, fragments, or others.
    evidence(
        "room-reported",
        ("room", "enough", "plenty", "should fit", "fits "),
        r"\bshould (?:still |easily )?(?:have|be) (?:\w+ ){0,2}?(?:room|enough|sufficient|plenty)\b|\b(?:is|are|was|were|has|have|with|got|still) (?:more than |way more than )?(?:enough|plenty of|lots of|sufficient) (?:\w+ ){0,3}?(?:memory|VRAM|room)\b|\bshould (?:\w+ ){0,2}?fit\b|\bfits (?:easily|comfortably)\b",
    ),
    evidence(
        "warning-unwanted",
        ("warning", "warns"),
        r"\b(?:warnings?|warns)\b.{0,160}\b(?:harmless|annoying|silenced?|suppress\w*|disabled?|hid(?:e|den)|ignored?|unnecessary|not (?:needed|necessary|relevant|used)|only relevant|even though|nevertheless)\b",
    ),
)
