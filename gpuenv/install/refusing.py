"""What to say, and to advise, where an installer refuses or fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuenv.install.errors import InstallError, InstallFailed, NothingFits
from gpuenv.install.settings import bearing, joined
from gpuenv.install.wants import Want, required_name
from gpuenv.model.secrets import hide_secrets

if TYPE_CHECKING:
    from gpuenv.install.resolving import Caller

# The last two leave out what was uploaded after a day.
CONSTRAINTS = ("UV_CONSTRAINT", "UV_OVERRIDE", "PIP_CONSTRAINT", "UV_EXCLUDE_NEWER", "PIP_UPLOADED_PRIOR_TO")
NOTHING_THERE = re.compile(r"from versions: none")  # pip's word for an index that has none of it, or is out of reach
# What uv 0.13.9 says without a network of a package that its cache lacks: the last of one with an extra, of which it
# says the same as of a release that no index has.
_NOT_CACHED = re.compile(
    r"not found in the cache|to be downloaded from a registry|network was disabled|[Tt]here (?:is|are) no versions? of"
)
# The disk or the network: no setting of what is installed.
_SURROUNDINGS = re.compile(
    r"No space left|network|connect|resolve host|dns|timed? ?out|name resolution|unreachable", re.IGNORECASE
)
_NO_INDEX = re.compile(
    rf"{NOTHING_THERE.pattern}|[Tt]here (?:is|are) no versions? of|not found in the (?:package registry|provided)"
)
_NO = ("", "0", "f", "false", "n", "no", "off")  # in a variable of uv's or pip's
_NAMED = 5
OF_ITS_OWN = "Install into an environment of its own: python -m venv NAME, then gpuenv install --python NAME."
_OF_THE_INDEX = (
    "Look at the index in use (UV_DEFAULT_INDEX, uv.toml, pip config list): it lacks that release, or its wheel for "
    "this Python and platform."
)


def remedy_for(why: str) -> str | None:
    """What to do about the commonest failures."""
    if re.search(r"No space left", why):
        return "Make room on the disk that the environment, the cache or the temporary folder is on."
    if NOTHING_THERE.search(why):
        return "Look at the network, proxy and index settings (pip config list): the index in use gives nothing for it."
    if re.search(r"hash", why, re.IGNORECASE):
        return "The index gave another file than was planned: try again, and if it stays so, ask who runs the index."
    if _SURROUNDINGS.search(why):
        return "Look at the network, proxy and index settings; gpuenv bundle prepares an install without a network."
    return None


def cure(why: str, caller: Caller) -> str | None:
    """The same, where more is known: the network may be out of use because the user said so."""
    if not _lacks_files(why, caller):
        usual = remedy_for(why)
        return usual if _SURROUNDINGS.search(why) else look_at_settings(caller, why) or usual
    ways = ["leave out --offline"] if caller.options.offline else []
    way = " and ".join([*ways, f"unset {caller.installer.offline_variable}"] if _told_offline(caller) else ways)
    over = "Or carry everything over: gpuenv bundle there, gpuenv install --bundle here."
    if caller.installer.telling_cache() is None:
        return f"Let it use the network, without which its cache is of no use (that of uv would be): {way}. {over}"
    return f"Fill the cache while there is a network: {way}. {over}"


def look_at_settings(caller: Caller, why: str) -> str | None:
    """What to do where the user's own settings bear on a failure; that no index is asked, where that is what failed."""
    settings = [entry for entry in bearing(caller) if "no-index" not in entry.key or _NO_INDEX.search(why)]
    return f"Look first at your own settings that bear on it: {joined(settings[:_NAMED])}." if settings else None


def lacking(why: str, requirements: Sequence[str], caller: Caller) -> InstallFailed | None:
    """The installer's failure where it may use no network and lacks files; None where that is not what it says."""
    if not _lacks_files(why, caller):
        return None
    told = f"{caller.installer.label} lacks files of {' '.join(requirements)}: without a network it takes what "
    return InstallFailed(f"{told}{_cache_of(caller)}, and says: {why}", cure(why, caller))


def _lacks_files(why: str, caller: Caller) -> bool:
    """Whether files are wanting because no network may be used; a bundle brings its own."""
    offline = caller.options.offline or _told_offline(caller)
    wanting = _NOT_CACHED.search(why) or NOTHING_THERE.search(why)
    return offline and caller.options.find_links is None and wanting is not None


def _told_offline(caller: Caller) -> bool:
    """Whether a variable of the installer's own keeps it from every index."""
    return caller.environment.get(caller.installer.offline_variable, "").lower() not in _NO


def _cache_of(caller: Caller) -> str:
    """The folder that the installer says its files are kept in."""
    asked = caller.installer.telling_cache()
    said = caller.run(asked).stdout.strip() if asked else ""
    return f"its cache holds ({said})" if said else "is at hand on this machine"


def nothing_fits(
    why: str,
    requirements: Sequence[str],
    stay: Sequence[str],
    caller: Caller,
    kept: Sequence[Want] = (),
    *,
    beside: bool = True,
) -> InstallError:
    """What is asked for cannot live with what is there, which needs what is ``kept``, or with what the user forbids.

    Without a network that is not to be told where the installer lacks files: it is the installer that failed then.

    Args:
        why: what the installer says.
        requirements: what is asked for.
        stay: what the environment holds.
        caller: who ran the installer.
        kept: the needs of what is there.
        beside: whether an empty environment would take it: if not, what is there is not the reason.
    """
    failed = lacking(why, requirements, caller)
    if failed is not None:
        return failed
    pinned = f" It holds {', '.join(stay)}, which other packages there need." if stay and beside else ""
    named = set(re.findall(r"[\w.-]*\w", why.lower())) - {required_name(text) for text in requirements}
    needing = list(dict.fromkeys(f"{want.by} needs {want.text}" for want in kept if want.name in named))
    if needing and beside:
        pinned += f" Of what is there, {', '.join(needing[:_NAMED])}."
    forbidding = [name for name in CONSTRAINTS if caller.environment.get(name)]
    under = "".join(f" and under {name}={hide_secrets(caller.environment[name])}" for name in forbidding)
    remedy = look_at_settings(caller, why) or (OF_ITS_OWN if beside else _OF_THE_INDEX)
    if forbidding:
        remedy = f"Look at these constraints first; to do without them: unset {' '.join(forbidding)}"
    elif "exclude-newer" in why:
        remedy = "Look at exclude-newer in uv.toml or pyproject.toml: it leaves out what was uploaded later."
    here = "be installed beside what the environment holds"
    where = here if beside or forbidding else "be had, whatever the environment holds"
    return NothingFits(f"{' '.join(requirements)} cannot {where}{under}.{pinned} {why}", remedy)
