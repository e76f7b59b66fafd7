"""System calls that change more than the caller, or lead out of its sandbox."""

import ctypes
import os
import resource
import socket
import struct
import time

from place import MOUNTED

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
SCRATCH = os.environ["TMPDIR"]


def call(number, *arguments):
    """A system call by its number; raises what the kernel says."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    words += [ctypes.c_long(0)] * (6 - len(words))
    done = libc.syscall(ctypes.c_long(number), *words)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"returned {done}"


def zeros(length=512):
    return ctypes.create_string_buffer(length)


def numbers(*values):
    """A buffer of 64-bit numbers."""
    return ctypes.create_string_buffer(struct.pack(f"<{len(values)}q", *values))


def open_and(path, act, flags=os.O_RDONLY):
    descriptor = os.open(path, flags)
    try:
        return act(descriptor)
    finally:
        os.close(descriptor)


def unshare(flag):
    return lambda _: call(272, flag)


def set_namespace(path):
    return lambda _: open_and(path, lambda fd: call(308, fd, 0))


def mapped_root(_):
    """A user namespace in which the caller is root, with a mount in it."""
    user = os.getuid()
    call(272, 0x10000000 | 0x00020000)
    with open("/proc/self/uid_map", "w") as file:
        file.write(f"0 {user} 1")
    return call(165, b"none", SCRATCH.encode(), b"tmpfs", 0, None)


def host_handle(_):
    """The root of the node's disk by its handle, as in the escape that was named Shocker."""
    handle = struct.pack("<IIQ", 8, 1, 2)
    return open_and("/etc/hosts", lambda fd: call(304, fd, ctypes.create_string_buffer(handle), 0))


def raised(kind):
    def act(_):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY:
            return None
        return call(160, kind, numbers(hard + 1, hard + 1))
    return act


def algorithm_socket(_):
    made = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    made.bind(("aead", "gcm(aes)"))
    return "bound"


def capabilities(_):
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
    return [name for name in ("CapInh", "CapPrm", "CapEff", "CapAmb") if int(status[name], 16)]


def all_capabilities(_):
    header = ctypes.create_string_buffer(struct.pack("<II", 0x20080522, 0))
    return call(126, header, ctypes.create_string_buffer(b"\xff" * 24))


def perf_event(_):
    attributes = ctypes.create_string_buffer(struct.pack("<IIQ", 0, 112, 0) + bytes(112))
    return call(298, attributes, -1, 0, -1, 0)


def dated(_):
    before = time.time()
    time.clock_settime(time.CLOCK_REALTIME, before + 3600)
    return time.time() - before > 1800


NEW = {
    "user": 0x10000000, "mount": 0x00020000, "process": 0x20000000, "network": 0x40000000,
    "host name": 0x04000000, "ipc": 0x08000000, "control group": 0x02000000, "time": 0x00000080,
}
KINDS = ("mnt", "net", "pid", "user", "ipc", "uts", "cgroup")

ATTEMPTS = {
    "control: asks for its own number": lambda _: call(39),
    "mounts a file system": lambda _: call(165, b"none", SCRATCH.encode(), b"tmpfs", 0, None),
    "mounts the process table": lambda _: call(165, b"proc", SCRATCH.encode(), b"proc", 0, None),
    "mounts the root elsewhere": lambda _: call(165, b"/", SCRATCH.encode(), None, 4096, None),
    "makes the root writable": lambda _: call(165, b"none", b"/", None, 32 | 4096, None),
    "mounts control groups": lambda _: call(165, b"c", SCRATCH.encode(), b"cgroup", 0, b"memory"),
    "takes the process table away": lambda _: call(166, b"/proc", 2),
    "takes the configuration away": lambda _: call(166, str(MOUNTED).encode(), 2),
    "changes the root by pivot": lambda _: call(155, SCRATCH.encode(), SCRATCH.encode()),
    "changes the root": lambda _: os.chroot(SCRATCH) or "changed",
    "clones a tree of mounts": lambda _: call(428, -100, b"/", 1),
    "moves a mount": lambda _: call(429, -100, b"/tmp", -100, b"/mnt", 0),
    "opens a file system": lambda _: call(430, b"tmpfs", 0),
    "picks a file system": lambda _: call(433, -100, b"/", 0),
    "changes a mount": lambda _: call(442, -100, b"/", 0, numbers(0, 1, 0, 0), 32),
    **{f"makes a namespace: {name}": unshare(flag) for name, flag in NEW.items()},
    "makes itself root of a namespace": mapped_root,
    "starts a process in a namespace": lambda _: call(56, 0x10000000 | 17, 0, 0, 0, 0),
    "starts a process in a namespace (3)": lambda _: call(435, numbers(0x10000000, *[0] * 10), 88),
    **{f"enters a namespace of the runner: {kind}": set_namespace(f"/proc/1/ns/{kind}")
       for kind in KINDS},
    **{f"enters a namespace again: {kind}": set_namespace(f"/proc/self/ns/{kind}")
       for kind in ("mnt", "net", "pid", "uts")},
    "adds a key": lambda _: call(248, b"user", b"famulus", b"x", 1, -3),
    "asks for a key": lambda _: call(249, b"user", b"famulus", None, 0),
    "joins a ring of keys": lambda _: call(250, 1, None),
    "loads a program into the kernel": lambda _: call(321, 5, zeros(), 48),
    "makes a map in the kernel": lambda _: call(321, 0, ctypes.create_string_buffer(
        struct.pack("<IIIII", 2, 4, 8, 1, 0) + bytes(28)), 48),
    "counts events of the processor": perf_event,
    "makes a ring for I/O": lambda _: call(425, 4, zeros()),
    "handles page faults": lambda _: call(323, 0),
    "loads a kernel": lambda _: call(246, 0, 0, None, 0),
    "loads a kernel from a file": lambda _: call(320, 0, -1, 1, b"", 8),
    "loads a module": lambda _: call(175, zeros(), 512, b""),
    "loads a module from a file": lambda _: open_and("/etc/hosts", lambda fd: call(313, fd, b"", 0)),
    "removes a module": lambda _: call(176, b"famulus", 0),
    "opens the node's root by its handle": host_handle,
    "adds memory from a disk": lambda _: call(167, b"/etc/hosts", 0),
    "takes memory of disks away": lambda _: call(168, b"/etc/hosts"),
    "restarts the machine": lambda _: call(169, 0xFEE1DEAD, 672274793, 0x89ABCDEF, None),
    "renames the host": lambda _: call(170, b"famulus", 7),
    "renames the domain": lambda _: call(171, b"famulus", 7),
    "reaches all ports of the machine": lambda _: call(172, 3),
    "reaches a port of the machine": lambda _: call(173, 0x70, 1, 1),
    "changes quotas": lambda _: call(179, 0x800002 << 8, b"/dev/vda", 0, None),
    "has processes written down": lambda _: call(163, f"{SCRATCH}/accounts".encode()),
    "sets the time of day": lambda _: call(164, numbers(1, 0), None),
    "sets the clock": dated,
    "tunes the clock": lambda _: call(159, ctypes.create_string_buffer(struct.pack("<I4xq", 2, 1) + bytes(200))),
    "reads the kernel's log": lambda _: call(103, 3, zeros(4096), 4096),
    "clears the kernel's log": lambda _: call(103, 5, None, 0),
    "hangs up the terminal": lambda _: call(153),
    "watches all files": lambda _: call(300, 4, 0),
    "looks into a cookie": lambda _: call(212, 1, zeros(), 512),
    "moves pages of the runner": lambda _: call(256, 1, 64, numbers(1), numbers(1)),
    "schedules in real time": lambda _: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) or "did",
    "takes the processor first": lambda _: os.setpriority(os.PRIO_PROCESS, 0, -20) or os.getpriority(0, 0),
    "takes the disk first": lambda _: call(251, 1, 0, 1 << 13),
    "has capabilities": capabilities,
    "takes all capabilities": all_capabilities,
    "keeps an ambient capability": lambda _: call(157, 47, 2, 21, 0, 0),
    "becomes root": lambda _: os.setuid(0) or os.getuid() == 0,
    "becomes root for good": lambda _: os.setresuid(0, 0, 0) or "did",
    "joins the group of root": lambda _: os.setgid(0) or "did",
    "joins other groups": lambda _: os.setgroups([0]) or "did",
    "forgets that no privileges are new": lambda _: call(157, 38, 0, 0, 0, 0),
    "switches its filter off": lambda _: call(157, 22, 0, None),
    "changes security bits": lambda _: call(157, 28, 1, 0, 0, 0),
    "makes its core readable to root alone": lambda _: call(157, 4, 2, 0, 0, 0),
    "pretends another program": lambda _: open_and("/usr/bin/env", lambda fd: call(157, 35, 13, fd, 0, 0)),
    "has more files": raised(resource.RLIMIT_NOFILE),
    "has more processes": raised(resource.RLIMIT_NPROC),
    "has larger files": raised(resource.RLIMIT_FSIZE),
    "has cores": raised(resource.RLIMIT_CORE),
    "locks more memory": raised(resource.RLIMIT_MEMLOCK),
    "takes a cipher of the kernel": algorithm_socket,
}
