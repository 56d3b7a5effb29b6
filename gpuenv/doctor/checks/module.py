"""Why the driver's kernel module cannot be loaded: it was not built for this kernel, or the kernel refuses it."""

from __future__ import annotations

from gpuenv.doctor.evidence import lines_with, logged, readings
from gpuenv.doctor.fixes.distributions import family, the_compiler
from gpuenv.doctor.fixes.kernel_module import into_this_kernel
from gpuenv.doctor.predicates import contained, driver_sees_gpu, libraries_absent, module_loaded, passed_on
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.snapshot import DkmsBuild, Module, Snapshot
from gpuenv.model.text import pattern

ABSENT = ("DRV100", "DRV101", "GPU201", "GPU202", "CTR301", "CTR305", "CTR306")
# As the kernel words it: Linux, kernel/module/signing.c (module_sig_check) and security/lockdown/lockdown.c.
# And as modprobe repeats the number of the error: EKEYREJECTED, or ENOKEY of a module without a signature.
_REFUSALS = ("is rejected", "unsigned module loading is restricted", "Key was rejected", "Required key not available")
# Linux, kernel/module/main.c (check_modinfo, simplify_symbols) and kernel/module/version.c (check_version).
_OTHER_KERNEL = pattern(r"\bnvidia\w*: (?:version magic|disagrees about version of symbol|Unknown symbol)")
_OF_ANOTHER = pattern(r"(?!nvidia)\w+: loading of")  # some releases name the module


@check("DRV115", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=(*ABSENT, "GPU204"))
def module_not_built(facts: Facts) -> Outcome:
    """There is no module of the driver for the running kernel.

    What it means: the driver is installed, but this kernel has no module of it. Where DKMS builds it, the build failed,
    usually since the kernel is newer than the driver knows or its headers are missing, or nobody has started it; where
    packages bring it, the one for this kernel is not installed. The module of another kernel cannot be loaded.
    How it is seen: DKMS's tree, or the folder of another kernel, has the driver's module, and the folder of the running
    kernel has none.
    What to do: build it again where DKMS builds it, or install the module from where that of the other kernel comes;
    where the build fails, read its log and install a newer driver, or start the kernel that the module was built for.
    """
    snapshot = facts.snapshot
    driver, kernel, builds = snapshot.driver, snapshot.host.kernel.value, snapshot.driver.dkms
    others = driver.module_kernels.value if not libraries_absent(snapshot) else ()  # else it was removed, but for this
    if kernel is None or not (builds or others) or _is_usable(snapshot) or passed_on(snapshot):
        return
    if driver.module.value is not Module.NOT_INSTALLED or ("built", kernel) in {(b.state, b.kernel) for b in builds}:
        return
    failed = [build for build in builds if build.state == "failed" and build.kernel == kernel]
    title = (
        f"DKMS {'could not build' if failed else 'has not built'} the NVIDIA driver's module for this kernel, {kernel}"
    )
    yield Symptom(
        title if builds else f"The NVIDIA driver's module is not installed for this kernel, {kernel}",
        readings(snapshot, "host.kernel")
        + tuple(Evidence("driver.dkms", _told(build), "/var/lib/dkms") for build in builds)
        + (readings(snapshot, "driver.module_kernels") if others else ())
        + readings(snapshot, "driver.module"),
        (
            *(the_compiler(snapshot, build.compiler) for build in failed if build.compiler),
            *(Fix(f"Read why it failed: /var/lib/dkms/{b.module}/{b.release}/build/make.log") for b in failed),
            *into_this_kernel(snapshot, kernel),
            Fix("Where the driver is too old for this kernel, install a newer one, or start an older kernel."),
        ),
    )


def _told(build: DkmsBuild) -> str:
    wanted = f", without {build.compiler}, which built the kernel" if build.compiler else ""
    return f"{build.module} {build.release} {build.state}" + (f" for {build.kernel}" if build.kernel else "") + wanted


@check("DRV116", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=(*ABSENT, "GPU204", "DRV115"))
def module_refused(facts: Facts) -> Outcome:
    """The kernel refuses the driver's module: no key that it trusts has signed it, or it is of another kernel.

    What it means: with Secure Boot the kernel loads signed modules alone. A module that was built on this machine is
    signed with a key of this machine, which the firmware has to be told once, or it is not signed at all. And a module
    that was built for another kernel, or by another build of it, does not fit this one.
    How it is seen: the module is installed for this kernel and not loaded, and the kernel's log has a refusal.
    What to do: enrol the key that signs the modules (mokutil asks for a password, and the next start for it again), or
    install modules that the distribution has signed, or turn Secure Boot off in the firmware. A module of another
    kernel is built anew.
    """
    snapshot = facts.snapshot
    if _is_usable(snapshot) or snapshot.driver.module.value is not Module.NOT_LOADED:
        return
    yield from _unsigned(snapshot)
    yield from _of_another_kernel(snapshot)


def _of_another_kernel(snapshot: Snapshot) -> Outcome:
    lines = lines_with(snapshot, _OTHER_KERNEL)
    if not lines:
        return
    kernel = snapshot.host.kernel.value
    yield Symptom(
        "The kernel refuses the NVIDIA driver's module: it was built for another kernel",
        lines + readings(snapshot, "host.kernel", "driver.module"),
        (
            *(into_this_kernel(snapshot, kernel) if kernel else ()),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia")),
        ),
    )


def _unsigned(snapshot: Snapshot) -> Outcome:
    told = [m.text for m in snapshot.kernel_log.value or () if any(words in m.text for words in _REFUSALS)]
    lines = [line for line in told if not _OF_ANOTHER.match(line)]
    if not lines:
        return
    yield Symptom(
        "The kernel refuses the NVIDIA driver's module: it bears no signature that is trusted here",
        logged(snapshot, lines[-3:]) + readings(snapshot, "host.secure_boot", "driver.module"),
        signing_fixes(snapshot),
    )


def signing_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to get a module loaded under Secure Boot."""
    keys = {
        "ubuntu": "/var/lib/shim-signed/mok/MOK.der",
        "debian": "/var/lib/dkms/mok.pub",
        "fedora": "/etc/pki/akmods/certs/public_key.der",  # akmods, README.secureboot
    }
    key = keys.get(family(snapshot) or "")
    enrol = ("sudo", "mokutil", "--import", key) if key else None
    if family(snapshot) == "suse":  # openSUSE's wiki, SDB:NVIDIA drivers: a key of each package, named by its release
        enrol = ("sudo", "sh", "-c", "mokutil --import /usr/share/nvidia-pubkeys/*.der --root-pw")
    return (
        Fix("Enrol the key that signs this machine's modules, then restart and confirm it.", enrol),
        Fix("Or install modules that the distribution has signed, or turn Secure Boot off in the firmware."),
    )


def _is_usable(snapshot: Snapshot) -> bool:
    """Whether the module is loaded, or is not for this system to load."""
    elsewhere = contained(snapshot) or bool(snapshot.host.wsl.value)
    return module_loaded(snapshot) or elsewhere or driver_sees_gpu(snapshot)
