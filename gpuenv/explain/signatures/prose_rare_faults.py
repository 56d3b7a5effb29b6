"""Faults that no program prints, in the user's own words: a result read too early, two wheels at once, a late node."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.prose_devices import ADVICE
from gpuenv.model.causes import Cause

_REPORTS = "reports"
_WHEEL = r"cupy[-_]cuda1\d[x\d]"
_UNREADY = r"(?:uninitiali[sz]ed|garbage|stale|random (?:data|content|bytes)|(?:the )?old values?|wrong values?)"
_READS = r"(?:reads?|reading|us(?:e[sd]?|ing)|access(?:es|ed|ing)|prints?|printed|compar\w+|looks? at|looked at)"
_FAILS = r"(?:\b(?:fail\w*|not|never|cannot|no|nothing|nowhere|missing|unavailable|invisible)\b|n't\b)"
_RUN = r"\b(?:used|ran|run|runs|started|called|executed)\b"
_ASYNC = r"(?:cu(?:da)?Memcpy(?:\w{0,12})Async|async(?:hronous)?\.? (?:copy|copies|transfer))"

SIGNATURES = (
    Signature(
        "told.read-before-copied",
        _REPORTS,
        ("async",),
        ((Cause.STREAM_RACE, 0.66),),
        "CUDA Runtime API, API synchronization behavior: who reads what an asynchronous copy writes has to wait for it",
        pattern=(
            rf"\b{_UNREADY}\b.{{0,80}}\b{_ASYNC}|\b{_ASYNC}.{{0,80}}\b{_UNREADY}\b"
            # Who only crashes there, or has no memory, says nothing of what is read.
            rf"|\b{_READS}\b.{{0,60}}\b(?:right|directly|immediately|just) (?:behind|after) (?:the |that |this )?{_ASYNC}|\b{_ASYNC}.{{0,60}}\bwithout (?:an?y? )?(?:\w+ )?synchroni[sz]\w+"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="What an asynchronous copy writes is read before it is there",
    ),
    Signature(
        "told.second-wheel",
        _REPORTS,
        ("cupy-cuda", "cupy_cuda"),
        ((Cause.MULTIPLE_CUPY_PACKAGES, 0.7),),
        "CuPy documentation, Installation: only one of its packages may be installed",
        pattern=rf"\b(?P<one>{_WHEEL})\b.{{0,100}}\b(?P<other>{_WHEEL})\b.{{0,20}}\b(?:beside|next to|alongside|on top of|in addition to|although|as well)\b",
        weights_fn=lambda values: (
            ((Cause.MULTIPLE_CUPY_PACKAGES, 0.7),) if values["one"].lower() != values["other"].lower() else ()
        ),
        level=Level.WARNING,
        # One after the other, they are not there at once.
        unless=rf"{ADVICE}|\b(?:tried|trying|uninstall\w*|remov\w+|instead|fail\w*|same (?:error|result|problem)|(?:not|n't) work)\b",
        title="Two packages of CuPy own the same files",
    ),
    Signature(
        "told.host-first",
        _REPORTS,
        ("on the host", "in the host"),
        ((Cause.DEVICE_NODE_MISSING, 0.62), (Cause.CONTAINER_CGROUP_LOST_GPU, 0.08)),
        "NVIDIA driver README, FAQ: nvidia-uvm's node is made when a CUDA program first needs it, by setuid nvidia-modprobe",
        pattern=(
            rf"(?:{_FAILS}.{{0,60}}\bcontainers?\b|\bcontainers?\b.{{0,60}}{_FAILS}).{{0,60}}\b(?:until|before|unless)\b.{{0,60}}{_RUN} .{{0,30}}\b(?:on|in) the host\b"
            rf"|\bcontainers?\b.{{0,60}}\bonly (?:after|once|when)\b.{{0,60}}{_RUN} .{{0,30}}\b(?:on|in) the host\b"
            r"|\b(?:must|ha(?:s|ve|d) to|needs? to|unless|until|only (?:if|when|after))\b.{0,30} first (?:run|start|use|call) .{0,40}\b(?:on|in) the host\b.{0,60}\bcontainer\b"
        ),
        level=Level.WARNING,
        # What worked before, an upgrade or a reload of systemd has taken away.
        unless=rf"{ADVICE}|\b(?:daemon-reload|systemctl|(?:up(?:grad|dat)|install)\w*|apt|dnf|yum|pacman|reboot\w*|lost|loses?|losing|gone|disappear\w*|vanish\w*|(?:works|worked)(?: fine)? (?:until|before|unless))\b",
        title="A node that CUDA needs is made by the first CUDA program outside of containers",
        modifiers=(Modifier("uvm-absent", Cause.DEVICE_NODE_MISSING, 4),),
        decisive_fact="ls -l /dev/nvidia-uvm before and after a CUDA program ran on the host",
    ),
)
