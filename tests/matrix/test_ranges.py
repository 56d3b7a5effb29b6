"""Whether a release is in a range: the same answer as the library of packaging gives."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from gpuenv.matrix.ranges import within

NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
ENDS = st.sampled_from(["", "", "", "rc1", "a2", ".dev3", ".post1", "+cu12"])
RELEASES = st.builds(str.__add__, NUMBERS, ENDS)
SIGNS = st.sampled_from([">=", "<=", "==", "!=", "<", ">"])
CLAUSES = st.one_of(
    st.builds(str.__add__, SIGNS, NUMBERS),
    st.builds("{} {}".format, SIGNS, st.builds(str.__add__, NUMBERS, st.sampled_from(["", "rc1", ".post1"]))),
    st.builds("=={}.*".format, NUMBERS),
    st.builds("~={}.1".format, NUMBERS),
    st.builds("==={}".format, NUMBERS),
)


@given(RELEASES, st.lists(CLAUSES, max_size=3).map(",".join))
@example("13.5.0", ">=13.5,<14")
@example("14.0.0rc1", "<14")
@example("1.0.0", "==1")
@example("01.2", "==1.2")
@example("0.0", ">=0")
def test_the_answer_is_that_of_packaging(release: str, wanted: str) -> None:
    assert within(release, wanted) is SpecifierSet(wanted).contains(Version(release), prereleases=True)


@pytest.mark.parametrize("release", ["", "unknown", "1..2", "1.x", "²", "-1"])
def test_what_is_no_version_is_refused(release: str) -> None:
    with pytest.raises(InvalidVersion):
        within(release, ">=1")


def test_final_releases_need_no_library() -> None:
    script = (
        "import sys\n"
        "from gpuenv.matrix.ranges import within\n"
        "assert within('14.2.0', '>=13,<15') and not within('14.2', '!=14.2.0')\n"
        "assert 'packaging.specifiers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
