"""Evidence that decides why there is no CUDA, where the message is ambiguous (``gpuenv.explain.reassignments``)."""

from __future__ import annotations

from gpuenv.explain.signatures.evidence_common import alternative, evidence
from gpuenv.explain.signatures.phrases import WORKS, gap

_ZERO = r"(?<![\d.,])0 |pass(?:ed)?\b|compute-sanitizer"
_NO_PROCESSOR = r"(?! ?(?:\(R\) )?(?:\w+ )?(?:CPU|Xeon|Core|Atom|Pentium|Celeron|processor|Ryzen|EPYC|Threadripper|Opteron)s?\b)(?!.{0,120}\b(?:NVIDIA|GeForce|RTX|GTX|Tesla|Quadro|[AHV]100|L40S?|T4)\b)"
_GUEST = r"(?:VMware|VirtualBox|Hyper-V|dual[- ]?boot\w*|QEMU|KVM|Proxmox|guest|VMs?|beside|next to|alongside)"
_OTHER_DISPLAY = (
    r"(?:Intel|AMD|Advanced Micro Devices|ASPEED|Matrox|Red Hat|Virtio|VMware|Cirrus|Microsoft (?:Basic|Hyper-V)|Apple)"
)


SIGNATURES = (
    # Which driver holds the card: lsmod, lspci -k, /proc/modules, sysfs, and the names that Mesa gives it.
    evidence(
        "nouveau-holds",
        ("nouveau", "nv1", "nve", "nvc", "glamor"),
        r"\bnouveau\s+\d{4,}\b|\bin use\b[^:\n]{0,20}: ?nouveau\b|/drivers/nouveau\b|\bDriver: nouveau\b|\bxf86-video-nouveau \(in use\)"
        r"|(?:Mesa|modeset\(0\)|glamor|Device|Graphics(?: Processor)?)\b.{0,60}\bNV(?:[CE][0-9A-F]|1[0-9A-F]{2})\b|\bNV(?:[CE][0-9A-F]|1[0-9A-F]{2})\b.{0,40}\bMesa\b",
    ),
    evidence(
        "pci-without-nvidia",
        (
            "lspci",
            "pci scan",
            "macbook",
            "imac",
            "mac mini",
            "mac studio",
            "apple m",
            "macos-",
            "intel",
            "advanced micro",
            "aspeed",
            "matrox",
            "red hat",
            "virtio",
            "vmware",
            "cirrus",
            "basic display",
            "hyper-v",
            " slot",
        ),
        r"\blspci\b(?:(?!\b\d\d:\d\d\.\d|->|→)[^\n]){0,60}(?:nvidia|10de|3d|vga)(?:(?!\b\d\d:\d\d\.\d|nvidia|geforce)[^\n]){0,40}?(?:\bis\b|\bprints?\b|\bshows?\b|\bgives?\b|:|→|->|=)?\W{0,6}(?<![\w.:-])(?:0\b(?![0-9:.]| (?:errors?|warnings?|fail\w*))|empty\b|nothing\b|none\b|no (?:output|match|hits?)\b)"
        rf"|\b(?:lspci|PCI scan|dxdiag)\b[^\n]{{0,60}}(?:→|->|\bfinds only\b|\bshows only\b|\blists only\b)[^\n]{{0,24}}{_OTHER_DISPLAY}\b"
        rf"|\bonly (?:an? |has |the )?(?:\w+ )?{_OTHER_DISPLAY}\b{_NO_PROCESSOR}|\b{_OTHER_DISPLAY}{_NO_PROCESSOR} [\w() -]{{0,40}}\bonly\b(?! for\b)|\bonly (?:graphics |display )?adapter is\b.{{0,20}}{_OTHER_DISPLAY}"
        r"|^(?!.*\b(?:ssh|remote\w*|server|cluster|connect\w*|eGPU|NVIDIA|GeForce|RTX|GTX|[AHV]100)\b).*\b(?:MacBook|iMac|Mac mini|Mac Studio|Apple M\d|macos-\d\d)\b|\b(?:the|its|only) (?:GPU |graphics |x16 )?(?:PCIe? )?slot is (?:free|empty|not populated)\b",
    ),
    # What a list of the machine's parts gives as its graphics; a card of NVIDIA's beside it refutes that.
    evidence(
        "graphics-of-another",
        ("graphics", "gpu:", "gpu |", "video card", "display adapter"),
        rf"^(?!.*\b(?:NVIDIA|GeForce|RTX|GTX|Quadro|Tesla)\b).*\b(?:Graphics(?: card)?|GPU|Video card|Display adapter)\W{{1,3}}(?:Mesa )?{_OTHER_DISPLAY}\b{_NO_PROCESSOR}|^(?!.*\b(?:NVIDIA|GeForce|RTX|GTX|Quadro|Tesla)\b).*\bIntel\S{{0,3}} (?:Iris|UHD|HD|Xe|Arc)\b.{{0,12}}Graphics\b",
    ),
    # Machines that are lent without any GPU.
    alternative(
        "pci-without-nvidia",
        "hosted-runner",
        ("ubuntu-latest", "windows-latest", "github", "runtime type", "passthrough", "no gpu)", "without gpu)"),
        r"^(?!.*self-hosted).*\b(?:(?:ubuntu|windows)-(?:latest|2[024]\.04|20\d\d)\b(?! (?:image|container|base))|GitHub(?:'s)?(?:[- ](?:Actions|hosted))+ (?:\S+ )?(?:runner|machine|VM)|runtime type (?:is |was |= ?)?(?:set to )?[`'\"]?(?:None|CPU)\b|(?:no|without(?: any)?|lacks) GPU pass-?through\b|(?:instance|VM|node|machine|runner|droplet) \((?:with )?(?:no|without(?: an?)?) GPU\))",
    ),
    # What the container was given.
    alternative(
        "started-without-gpu",
        "no-device-request",
        (
            "devicerequests",
            "hostconfig.devices",
            "runc",
            "gpus",
            "--nv",
            "nv switch",
            "device request",
            "device-request",
            "deploy section",
            "nvidia.com/gpu",
            "limits",
            "plain docker",
            "plain podman",
            "singularity",
            "apptainer",
            "request",
            "stanza",
            "devices:",
        ),
        r"DeviceRequests\b\W{0,8}(?:is |prints |gives |: |=)?\W{0,4}(?:null|none|empty|\[\s?\])|HostConfig\.Devices\W{1,3}\[\s?\]|(?<!Default )\bRuntime\"?\W{1,4}\"?runc\b"
        r"|\b(?:no|without(?: an?| any)?|lacks?(?: an?)?|has no|missing|unset:?) (?:`|'|\")?(?:gpus(?:: ?)?(?: key| option)?\b|--gpus|--nv\b|nv switch|device[- ]requests?|deploy section|nvidia\.com/gpu|(?:GPU|device) (?:request|limit|stanza|option|key)s?\b|limits\b|devices:)"
        r"|\bplain (?:docker|podman|containerd)\b|\bdeploy\W{0,3}section is (?:missing|absent)|\b(?:singularity|apptainer) (?:run|exec|shell) (?=\S)(?!.*--nv)[^\n]{0,200}\.sif\b"
        rf"|\bwith --gpus\b{gap(40)}\b(?:PASS|works|fine|OK|is there|appears)\b(?! too)",
    ),
    alternative(
        "capabilities-lack-compute",
        "caps-without-compute",
        ("driver_capabilities", "capabilities=", "capabilities [["),
        r"DRIVER_CAPABILITIES['\"\]]{0,3}\s{0,2}(?:=|:|→|is|→ )?\s{0,2}['\"]?(?!all\b|[\w,]*compute)(?:utility|graphics|video|display|compat32|ngx)[\w,]*|\bcapabilities=(?!all\b|[\w,]*compute)(?:utility|graphics|video|display)\b|Capabilities \[\[gpu utility\]\]"
        rf"|DRIVER_CAPABILITIES=(?:all|[\w,]*compute[\w,]*)\b{gap(60)}\b(?:disappears|works|helps|is gone|fixes|cures|solves)\b",
    ),
    evidence(
        "caps-without-utility",
        ("driver_capabilities", "capabilities="),
        r"DRIVER_CAPABILITIES['\"\]]{0,3}\s{0,2}(?:=|:|→|is|→ )?\s{0,2}['\"]?(?!all\b|[\w,]*utility)(?:compute|graphics|video|display)[\w,]*|\bcapabilities=(?!all\b|[\w,]*utility)(?:compute|graphics|video)\b",
    ),
    # What a running container lost: devices that a reload of systemd or an update of its limits took from its cgroup.
    evidence(
        "restart-brings-back",
        (
            "restart",
            "recreat",
            "stop/start",
            "daemon-reload",
            "reloading",
            "docker update",
            "set-property",
            "devices.allow",
            "devices.list",
            "delete pod",
            "container up",
            " days",
            " weeks",
        ),
        rf"\b(?:restart\w*|recreat\w*|stop/start|stop and start) (?:of )?(?:the |my |this |that |a )?(?:\w+ )?(?:container|pod)s?\b{gap(30)}{WORKS}"
        rf"|\b(?:docker|podman|nerdctl) (?:restart|stop/start)\b{gap(30)}{WORKS}|\bkubectl delete pod\b{gap(40)}{WORKS}"
        rf"|\b(?:until|after|since|once|each|every|calls?|then)\b{gap(60)}\bsystemctl daemon-reload\b(?!.{{0,12}} (?:not|n.t|no)\b)|\bsystemd\[1\]: Reloading\b|\bdocker update --|\bsystemctl set-property\b|\bdevices\.(?:allow|list)\b{gap(60)}\b(?:lost|dropped|gone|lacks|removed)"
        rf"|\bcontainer\b.{{0,20}}\b(?:uptime|up for|up) \d+ (?:days?|weeks?|hours?)|\bup \d+ (?:days?|weeks?)\b.{{0,30}}\bhost\b{gap(20)}\b(?:fine|OK|works)\b",
    ),
    # The kernel's module, and what was done with it.
    alternative(
        "reported-not-loaded",
        "module-out",
        (
            "rmmod nvidia",
            "blacklist",
            "modprobe nvidia",
            "alias nvidia off",
            "drivers unloaded",
            "insmod",
            "nvidia.ko",
            "lsmod",
        ),
        r"\brmmod nvidia(?!_uvm\s*(?:&&|;)|_drm|\S* fails)|\b(?:module_|modprobe\.)blacklist=\S{0,40}nvidia|(?:^\s*|\.conf:\s*)blacklist nvidia(?:\s*$|(?: is| stands)? in\b)|\balias nvidia off\b|\bnvidia drivers? (?:were |was |are |is )?unloaded\b"
        rf"|\b(?:modprobe|nvidia-modprobe|insmod)\b(?! -r){gap(40)}(?<!uvm)(?<!uvm` )\W{{1,4}}(?:→ ?)?{WORKS}|\binsmod by hand succeeds|\blsmod(?: \| grep (?:-\w+ )?nvidia)?\W{{1,4}}(?:no nvidia|blank|empty|nothing|none)\b",
    ),
    evidence(
        "driver-half-there",
        ("dpkg", "debsums", "rpm -v", "libcuda1", "half", "unpacked", "partial", "incomplete"),
        rf"\bdpkg --audit\b\W{{0,3}}(?:names|lists|shows|reports|prints|finds|has|complains)\b(?! (?:nothing|no|none|empty|0)\b)|\bdpkg --audit\b\s+The following packages|\bdebsums\b{gap(60)}\bFAILED|\b(?:apt|apt-get|dnf|yum)(?: install)? (?:-y )?(?:libcuda1|libnvidia-compute\S*|nvidia-driver-cuda-libs)\b{gap(40)}(?:→|->|\bcured|\bfixe[sd]|\bhelp|\bworks)"
        r"|\bunpacked but not configured\b|\bhalf[- ](?:installed|configured)\b.{0,40}nvidia|\bnvidia\S* .{0,40}\bhalf[- ](?:installed|configured)\b|\bnot libcuda1\b",
    ),
    alternative(
        "module-loaded",
        "module-listed",
        ("lsmod", "/proc/driver/nvidia/version", "module loaded"),
        r"\blsmod\b[^\n]{0,24}(?:shows|has|lists|:|→|->) (?:the )?nvidia\b(?! ?_)|/proc/driver/nvidia/version(?: prints| says|:| →| ->| is) ?(?:NVRM|\d{3}\.)",
    ),
    # What became of the machine since it last worked.
    evidence(
        "not-suspended",
        ("suspend", "slept", "sleep", "hibernat", "standby", " boot", "boot ", "reboot", "booted"),
        r"\b(?:no|not|never|without|n't) (?:\w+ ){0,3}?(?:suspend\w*|slept|sleep|hibernat\w*|standby)\b|\bnever slept\b|\bnot suspended\b|\b(?:fresh|clean) boot\b|\bboot(?:ed)? (?:two|a few|\d+|some) (?:minutes|seconds) ago|\b(?:right|directly|immediately) after (?:a )?(?:re)?boot\b|\bafter (?:each|every) (?:re)?boot\b",
    ),
    alternative(
        "suspend",
        "slept",
        (
            "s2idle",
            "hibernat",
            "lid closed",
            "lid was closed",
            "standby",
            "sleep schedule",
            "suspended",
            "woke",
            "resumed",
            "resumes",
            "rmmod nvidia",
            "modprobe -r nvidia",
            "reload",
        ),
        r"\bs2idle\b|\bpm-hibernate\b|\b(?:after|from|since|upon) (?:\w+ ){0,3}?(?:hibernat\w*|standby)\b|\blid (?:was )?closed\b|\bsleep schedule\b|\bsuspended (?:overnight|to RAM|to disk)\b(?! quota)|\bwoke (?:the|my|it)\b|\b(?:System|desktop|laptop|notebook|machine|PC) (?:has )?resume[sd](?= from (?:sleep|suspend|hibernat\w*|standby|S3|RAM|disk)|\s*[.,;:]|\s*$| (?:and|since|today|this morning)\b)|\bbeen in standby\b"
        r"|\brmmod nvidia[-_]uvm\b.{0,12}\bmodprobe nvidia[-_]uvm\b(?!.{0,30}\b(?:nothing|not|no)\b)|\bmodprobe -r nvidia[-_]uvm|\breload (?:of )?(?:the )?nvidia[-_]uvm\b",
    ),
    # Programs that start CUDA in the process in which it is used.
    evidence(
        "does-not-fork",
        (
            "devicequery",
            "device_query",
            "fork",
            "c program",
            "c sample",
            "multiprocessing",
            "hashcat",
            "blender",
            "ollama",
            "llama",
            "caffe",
            "kaldi",
        ),
        r"\bdevice_?query\b|\b(?:not|no|never|without) (?:\w+ )?(?:fork(?:ed|ing|s)?|multiprocessing)\b|\bC (?:program|sample)\b|\b(?:hashcat|blender|ollama|llama\.cpp|caffe|kaldi)\b",
    ),
    # Which branch of the driver is the card's.
    evidence(
        "legacy-named",
        ("0.xx", "0xx", "4.xx", "legacy"),
        r"(?<!we )(?<!I )\b(?:use|needs?|requires?|supported (?:by|through|with|until|up to)|last (?:branch|driver) is) (?:the )?(?:NVIDIA )?(?:driver )?(?:390|340|304|470|580)\.?xx\b|\b(?:390|340|304|470|580)\.?xx legacy|(?<!not )(?<!no )(?<!non-)\blegacy(?:[- ]?\d{3}| (?:driver|branch|GPU|card))\b|\blog: legacy\b",
    ),
    alternative(
        "exclusive",
        "mode-exclusive",
        ("exclusive", "prohibited", "compute mode", "nvidia-smi -c"),
        r"(?<!not )(?<!not in )(?<!no )(?<!never )(?<!instead of )\bexclusive[_ -](?:process|thread)\b(?! is (?:not|off))|\bCompute Mode\s{0,3}:? ?(?:Prohibited|[123]\b|exclusive)|\bnvidia-smi -c [123]\b",
    ),
    alternative(
        "compat",
        "compat-named",
        ("compat",),
        r"(?<!not )\b(?:with|through|via|uses?|using|from|in|loads?|loaded|first|apt install|apt-get install|dnf install|install -y) (?:the |an? )?cuda-compat\b(?!.{0,24}\b(?:empty|not|no|removed|gone)\b)|\blibcuda\S{0,24} (?:in|from|of) (?:the )?compat\b"
        r"|(?<!no )\bcompat (?:folder|directory|libcuda|librar\w+|package)\b(?!.{0,24}\b(?:empty|not|no|removed|absent|gone|unused)\b)",
    ),
    alternative(
        "mig",
        "mig-slices",
        ("slice", "mig", "partition", "gpu instance"),
        r"\b(?:two|second|first|own|each|its|\d) (?:GPU |MIG )?slices?\b.{0,60}\b(?:GPU|card|process|allot\w*|A100|H100|A30)|\bmig\.mode\.current\W{1,3}Enabled|\b(?:un)?partitioned (?:node|card|GPU|host)\b|\bre-?(?:cut|partition)\w*\b.{0,20}\b(?:card|GPU)|\bMIG\b(?!.{0,120}\b(?:Disabled|N/A|off|not)\b).{0,40}\bGPU instances?\b(?! ID)",
    ),
    alternative(
        "hidden",
        "hidden-shown",
        ("visible_devices",),
        r"CUDA_VISIBLE_DEVICES['\"\])]{0,4}\W{0,6}(?:→|->|is|prints|says)\W{0,3}-1\b|\b(?:CUDA|NVIDIA)_VISIBLE_DEVICES['\"\]]*\s*=\s*['\"]?(?:none|void|NoDevFiles|/dev/null)\b|\bNVIDIA_VISIBLE_DEVICES\s*=\s*['\"]{2}",
    ),
    evidence(
        "tested-faulty",
        (
            "pcie bus error",
            "dcgmi diag",
            "gpu_burn",
            "gpu-burn",
            "memtest",
            "follows the card",
            "replaced the board",
            "swapped",
        ),
        rf"\bPCIe Bus Error: severity=Uncorrect|\bdcgmi diag\b{gap(40)}\bFAIL|\bgpu[_-]burn\b{gap(40)}\bFAULTY|\b(?:cuda|gpu)\S*memtest\w*\b{gap(60, _ZERO)}\b(?:ERRORS?|stuck bit|bit flips?)\b(?!\W{{1,3}}0\b)|\bmemtest(?!86)\w*\b{gap(60, _ZERO)}\b(?:stuck bit|bit flips?|[1-9]\d* errors?|ERRORS? (?:at|in|on|found))"
        rf"|(?<!never )(?<!not )\bfollows the (?:card|board|GPU)\b|\breplaced the (?:board|card|GPU)\b{gap(40)}(?:{WORKS}|\b(?:gone|cured|solved)\b)",
    ),
    alternative(
        "wsl",
        "wsl-kernel",
        ("microsoft", "wsl_distro", "dxgkrnl", "dxcore"),
        r"\b\d\.\d+[\w.]*-microsoft\b|\bWSL_DISTRO_NAME\b|\bdxgkrnl\b|\blibdxcore\b|\bWSLg\b|\buname\b.{0,20}\bmicrosoft\b",
    ),
    # Who says that the driver answers.
    alternative(
        "smi-reported-working",
        "nvml-works",
        ("smi", "nvml"),
        r"\bnvidia-smi (?:and \S{1,20} )?(?:both )?(?:shows?|lists?|sees?|reports?) (?:the|all|both|my|our) (?:\w+ )?(?:cards?|GPUs?|devices?)\b|\b(?:nvidia-)?smi\b`?,? (?:is |says |said |was )?(?:OK\b|fine\b|good\b|normal\b|unaffected\b|answers\b|lists (?:the|a|an|all|\w*TX|\d)|prints (?:the|a|an|\w*TX|\d)|shows (?:the|a|an|all|\d)|has \d)(?!.{0,20}(?:error|fail|no dev))|\bNVML (?:is |\w+ read )?(?:OK|fine|good|unaffected|answers|works|lists the)\b",
    ),
    alternative(
        "wsl",
        "windows-beside-linux",
        ("windows", "powershell", "cmd.exe", "nvidia-smi.exe"),
        rf"^(?!.*\b{_GUEST}\b).*(?:\b(?:Ubuntu|Debian|distro)\b.{{0,30}}\b(?:under|inside|in|of) Windows\b|\bWindows (?:1[01]|host)\b.{{0,40}}\b(?:Ubuntu|distro)\b)|\bnvidia-smi\.exe\b|\bPowerShell's nvidia-smi\b|\bdistro\b.{{0,40}}\bcmd\.exe\b",
    ),
    alternative(
        "jetson",
        "tegra-named",
        ("jetson", "nvrm", "nvmap", "nv_tegra", "tx1", "tx2", "orin", "xavier", "# r3"),
        r"\bNvRm[A-Z]\w+|\bNvMap\w+|\bnv_tegra_release\b|\bJetson\b|\bTX[12]\b|\b(?:AGX )?Orin\b|\bXavier\b|# R3\d \(release\)",
    ),
)
