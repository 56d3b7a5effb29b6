"""Lists of controllers as people paste them: inxi of several ages, and ubuntu-drivers.

They are of public reports and manuals (forums of Ubuntu and Garuda, issues of smxi/inxi, smxi/sgfxi, negativo17's
nvidia-driver and canonical's ubuntu-drivers-common and nvidia-graphics-drivers), shortened, with other addresses.
"""

from __future__ import annotations

BIONIC = """\
Graphics:  Card-1: Intel 4th Gen Core Processor Integrated Graphics driver: i915 v: kernel
           Card-2: NVIDIA GK107M [GeForce GT 755M] driver: nouveau v: kernel
           Display Server: x11 (X.Org 1.19.6) driver: intel resolution: 1920x1080~60Hz
           OpenGL: renderer: Mesa DRI Intel Haswell Mobile v: 4.5 Mesa 18.0.0-rc5
Drives:    HDD Total Size: 488.13 GiB used: 32.01 GiB (6.6%)
"""
BUSTER = """\
Graphics:  Device-1: NVIDIA GF108 [GeForce GT 730] vendor: Gigabyte driver: nouveau v: kernel bus ID: 01:00.0
           chip ID: 10de:0f02
           Display: server: X.Org 1.20.1 driver: nouveau tty: N/A
"""
FOCAL = """\
System:    Kernel: 5.15.0-46-generic x86_64 bits: 64 compiler: N/A Desktop: Unity wm: gnome-shell dm: GDM3
           Distro: Ubuntu 20.04.4 LTS (Focal Fossa)
CPU:       Topology: Quad Core model: AMD Ryzen 5 1400 bits: 64 type: MT MCP arch: Zen rev: 1 L2 cache: 2048 KiB
Graphics:  Device-1: NVIDIA TU116 [GeForce GTX 1660 Ti] vendor: Micro-Star MSI driver: nvidia v: 515.65.01 bus ID: 08:00.0
"""
LAPTOP = """\
System:
  Host: box Kernel: 5.15.16-zen1-1-zen arch: x86_64 bits: 64 compiler: gcc v: 11.1.0
  Desktop: KDE Plasma v: 5.23.5 Distro: Garuda Linux base: Arch Linux
Graphics:
  Device-1: Intel TigerLake-H GT1 [UHD Graphics] vendor: Dell driver: i915
  v: kernel bus-ID: 0000:00:02.0 chip-ID: 8086:9a60 class-ID: 0300
  Device-2: NVIDIA GA106M [GeForce RTX 3060 Mobile / Max-Q] vendor: Dell
  driver: nvidia v: 495.44 alternate: nouveau,nvidia_drm bus-ID: 0000:01:00.0
  chip-ID: 10de:2520 class-ID: 0300
  Device-3: Microdia Integrated_Webcam_HD type: USB driver: uvcvideo
  bus-ID: 3-5:4 chip-ID: 0c45:6a10 class-ID: 0e02
  Display: x11 server: X.Org 1.21.1.1 compositor: kwin_x11 driver:
  loaded: intel unloaded: modesetting display-ID: :0 screens: 1
Audio:
  Device-1: Intel Tiger Lake-H HD Audio vendor: Dell
  driver: sof-audio-pci-intel-tgl
"""
TURING = """\
Graphics:
  Device-1: Intel CometLake-H GT2 [UHD Graphics] vendor: Lenovo
    driver: i915 v: kernel ports: active: eDP-1 empty: none bus-ID: 00:02.0
    chip-ID: 8086:9bc4 class-ID: 0300
  Device-2: NVIDIA TU116M [GeForce GTX 1660 Ti Mobile] vendor: Lenovo
    driver: nvidia v: 515.43.04 alternate: nouveau,nvidia_drm
    non-free: 515.xx+ status: current (as of 2022-05) arch: Turing pcie:
    gen: 1 speed: 2.5 GT/s lanes: 16 ports:
    active: none empty: DP-1,HDMI-A-1,eDP-2 bus-ID: 01:00.0
    chip-ID: 10de:2191 class-ID: 0300
"""
SERVER = """\
Graphics:
  Device-1: ASPEED Graphics Family driver: ast v: kernel
  Device-2: NVIDIA GA102GL [RTX A5000] driver: nvidia v: 550.54.15
  Device-3: NVIDIA GA102GL [RTX A5000] driver: nvidia v: 550.54.15
  Display: server: X.org v: 1.21.1.4 driver: gpu: ast note:  X driver n/a tty: 180x50
Audio:
  Device-1: NVIDIA GA102 High Definition Audio driver: snd_hda_intel
"""
PASCAL = """\
Graphics:
  Device-1: NVIDIA GP104 [GeForce GTX 1070] vendor: ASUSTeK driver: nvidia v: 580.173.02
    arch: Pascal pcie: speed: 2.5 GT/s lanes: 16 ports: active: none empty: DP-1, DP-2, DVI-D-1,
    HDMI-A-1, HDMI-A-2 bus-ID: 01:00.0 chip-ID: 10de:1b81 class-ID: 0300
  Display: server: X.org v: 1.21.1.11 with: Xwayland v: 23.2.6 driver: X: loaded: nvidia
    unloaded: fbdev,modesetting,nouveau,vesa gpu: nvidia tty: 317x85
"""
TRIXIE = """\
- Graphics:
  - Device-1: Intel CometLake-S GT2 [UHD Graphics 630] driver: i915 v: kernel
  - Device-2: NVIDIA GP108 [GeForce GT 1030] driver: nouveau v: kernel
  - Display: unspecified server: N/A driver: N/A tty: 99x27
"""
ALONE = """\
  Device-1: NVIDIA G84 [GeForce 8600 GT] driver: nouveau v: kernel
  bus ID: 01:00.0
"""
UBUNTU = """\
$ ubuntu-drivers devices
== /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 ==
modalias : pci:v000010DEd000011C6sv00003842sd00003059bc03sc00i00
vendor   : NVIDIA Corporation
model    : GK106 [GeForce GTX 650 Ti]
driver   : nvidia-driver-390 - distro non-free
driver   : nvidia-driver-450-server - distro non-free recommended
driver   : xserver-xorg-video-nouveau - distro free builtin
"""
