"""Files that are not the plugin's: the runner's, the system's, the kernel's, the node's."""

import ctypes
import json
import os
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path

from kernel import call
from place import BEARER, KEPT, MOUNTED, PROGRAM

HERE = Path.cwd().parent  # the tree that serves
REVISIONS = HERE.parent
STATE = REVISIONS.parent
SCRATCH = Path(os.environ["TMPDIR"])
HOME = Path(os.environ["HOME"])
NAME = json.loads((HERE / "manifest.json").read_text())["name"]


def reads(path):
    def act(_):
        with open(path, "rb", buffering=0) as file:
            return file.read(256)
    return act


def lists(path):
    return lambda _: os.listdir(path)


def lists_others(path, *own):
    """What stands there beside its own: a root of its own has the folders above it, too."""
    return lambda _: [name for name in os.listdir(path) if not name.startswith(own)]


def writes(path, text="famulus"):
    def act(_):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        os.write(descriptor, text.encode())
        return f"wrote {path}"
    return act


def opens(path):
    return lambda _: os.open(path, os.O_RDWR | os.O_NONBLOCK) and f"opened {path}"


def connects(path):
    def act(_):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(1)
            peer.connect(path)
        return f"connected to {path}"
    return act


def device(kind, major, minor, folder):
    def act(_):
        path = Path(folder) / "device"
        os.mknod(path, kind | 0o666, os.makedev(major, minor))
        return os.open(path, os.O_RDWR | os.O_NONBLOCK) and "opened"
    return act


def through_a_link(target):
    """A link in a folder of its own that leads out, followed by itself."""
    def act(_):
        link = SCRATCH / "link"
        link.symlink_to(target)
        return os.listdir(link) if Path(target).is_dir() else link.read_bytes()
    return act


def through_a_second_name(target):
    def act(_):
        os.link(target, SCRATCH / "second")
        return (SCRATCH / "second").read_bytes()
    return act


def exchanged(_):
    other = REVISIONS / ("0" * 64)
    return call(316, -100, str(HERE).encode(), -100, str(other).encode(), 2)


def with_privileges(_):
    """Programs of the system that run as somebody else: who are they while they run?"""
    for root in ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local"):
        for folder, _, names in os.walk(root):
            for path in (os.path.join(folder, name) for name in names):
                if not os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID) or os.path.islink(path):
                    continue
                # Those that ask something wait for an answer meanwhile.
                with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=-3, stderr=-3) as one:
                    time.sleep(0.05)
                    status = Path(f"/proc/{one.pid}/status").read_text()
                    one.kill()
                effective = status.split("Uid:")[1].split()[1]
                if int(effective) != os.getuid():
                    return f"{path} runs as {effective}"


def own_with_privileges(_):
    """A program of its own with the mark of another user: who is it when it runs?"""
    program = SCRATCH / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o6755)
    said = subprocess.run([program, "-u"], capture_output=True, text=True).stdout.strip()
    return said if said and int(said) != os.getuid() else None


def capable(_):
    """A program of its own with a capability written on it."""
    program = SCRATCH / "capable"
    shutil.copy("/usr/bin/id", program)
    os.setxattr(program, "security.capability", bytes.fromhex("0100000200002000000000000000000000000000"))
    return "marked"


def given_away(_):
    path = SCRATCH / "gift"
    path.write_text("x")
    os.chown(path, 0, 0)
    return "given"


def walked_out(_):
    """Up from the scratch folder by descriptors, as far as it goes, and then into the secrets."""
    descriptor = os.open(SCRATCH, os.O_PATH)
    for _step in range(8):
        descriptor = os.open("..", os.O_PATH, dir_fd=descriptor)
    inside = os.open(str(BEARER.relative_to("/")), os.O_RDONLY, dir_fd=descriptor)
    return os.read(inside, 256)


def remounted(_):
    """The old root, which a change of roots leaves behind when it is done badly."""
    for path in ("/proc/self/root", "/proc/thread-self/root", "/proc/self/task/../root"):
        within = Path(path) / BEARER.relative_to("/")
        if within.exists():
            return within.read_bytes()


def watched(_):
    """Whether it hears when somebody opens the bearer."""
    libc = ctypes.CDLL(None, use_errno=True)
    queue = libc.inotify_init1(os.O_CLOEXEC)
    if libc.inotify_add_watch(queue, str(MOUNTED).encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "no watch")
    return "watches"


GROUPS = "/sys/fs/cgroup"
SECRETS = ("bearer", "config.json", "wanted.json", "..data/bearer")
SYSTEM = ("/famulus", "/etc/famulus", "/usr/bin/famulus", f"{MOUNTED}/x", "/var/tmp/famulus", "/dev/famulus",
          "/dev/shm/famulus", "/root/famulus", "/home/famulus", "/mnt/famulus", "/opt/python/famulus", "/tmp/famulus",
          "/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/ld.so.preload", f"{PROGRAM}",
          "/dev/termination-log", "/plugins/other", "/state/x", "/state/active")
KERNEL = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
    "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ping_group_range", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/user/max_user_namespaces",
    "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/self/loginuid",
    "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
    "/sys/class/net/lo/tx_queue_len", "/sys/block/vda/uevent", "/sys/devices/system/cpu/cpu1/online",
    f"{GROUPS}/release_agent", f"{GROUPS}/memory/release_agent", f"{GROUPS}/memory/cgroup.procs",
    f"{GROUPS}/memory/memory.limit_in_bytes", f"{GROUPS}/pids/pids.max", f"{GROUPS}/devices/devices.allow",
    f"{GROUPS}/cpu/cpu.cfs_quota_us", f"{GROUPS}/cgroup.procs", f"{GROUPS}/memory.max", f"{GROUPS}/x",
)
HIDDEN = ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
          "/sys/firmware/dmi/tables/DMI", "/sys/kernel/debug/x", "/sys/kernel/tracing/trace", "/sys/kernel/security/lsm")
DEVICES = ("/dev/kvm", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/fuse", "/dev/kmsg", "/dev/vda", "/dev/sda",
           "/dev/loop0", "/dev/loop-control", "/dev/net/tun", "/dev/vsock", "/dev/vhost-net", "/dev/userfaultfd",
           "/dev/uinput", "/dev/mapper/control", "/dev/console")
RUNTIMES = ("/run/containerd/containerd.sock", "/var/run/docker.sock", "/run/docker.sock", "/run/crio/crio.sock",
            "/run/cri-dockerd.sock", "/run/podman/podman.sock", "/run/buildkit/buildkitd.sock",
            "/var/lib/kubelet/pod-resources/kubelet.sock", "/var/lib/kubelet/device-plugins/kubelet.sock",
            "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/udev/control")
NODE = ("/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/etc/kubernetes", "/host", "/rootfs",
        "/var/cache/famulus", "/run/containerd", "/var/lib/etcd")

ATTEMPTS = {
    "control: reads its own manifest": reads(HERE / "manifest.json"),
    "control: writes to its scratch folder": writes(SCRATCH / "mine"),
    **{f"reads the secret {name}": reads(MOUNTED / name) for name in SECRETS},
    **{f"lists {path}": lists(path) for path in (MOUNTED, KEPT, MOUNTED / "..data")},
    "lists other revisions": lists_others(REVISIONS, HERE.name),
    "lists the volume": lists_others(STATE, "revisions", "cache"),
    "lists other scratch folders": lists_others("/tmp", SCRATCH.name, NAME),
    "lists other plugins": lists_others("/plugins", NAME),
    "reads the token of its account": reads("/var/run/secrets/kubernetes.io/serviceaccount/token"),
    "lists secrets of its account": lists("/var/run/secrets"),
    "follows a link to the bearer": through_a_link(BEARER),
    "follows a link to the revisions": through_a_link(REVISIONS),
    "follows a link through itself": through_a_link(f"/proc/self/root{BEARER}"),
    "names the bearer twice": through_a_second_name(BEARER),
    "walks up to the bearer": walked_out,
    "finds an older root": remounted,
    "watches the bearer": watched,
    "writes a result": writes(KEPT / "x"),
    "writes the configuration that is mounted": writes(MOUNTED / "config.json"),
    "writes its record": writes(REVISIONS / f"{HERE.name}.json", "{}"),
    "forges a revision": lambda _: (REVISIONS / ("0" * 64)).mkdir() or "made",
    "renames its revision": lambda _: HERE.rename(REVISIONS / "elsewhere") and "renamed",
    "exchanges its revision": exchanged,
    "replaces the link to what serves": lambda _: os.symlink("/etc", STATE / "active.x") or "made",
    "removes the link to what serves": lambda _: os.unlink(STATE / "active") or "removed",
    **{f"writes {path}": writes(path) for path in SYSTEM},
    **{f"writes {path}": writes(path, "1") for path in KERNEL},
    **{f"reads {path}": reads(path) for path in HIDDEN},
    **{f"opens {path}": opens(path) for path in DEVICES},
    **{f"connects to {path}": connects(path) for path in RUNTIMES},
    **{f"lists {path}": lists(path) for path in NODE},
    **{f"makes a device ({name}) in {folder}": device(kind, major, minor, folder)
       for folder in (SCRATCH, HOME, HERE)
       for name, kind, major, minor in (("disk", stat.S_IFBLK, 254, 0), ("memory", stat.S_IFCHR, 1, 1))},
    "runs programs of the system as somebody else": with_privileges,
    "runs a program of its own as somebody else": own_with_privileges,
    "writes a capability on a program": capable,
    "gives a file to root": given_away,
}
