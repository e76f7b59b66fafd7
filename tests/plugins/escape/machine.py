"""What one machine has around a sandbox: the host, the assistant, its database, and a plugin beside it.

`around` names all of it as it is outside. Inside nobody is to find it under any name.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path

import runner
from files import SCRATCH, connects, lists, reads, writes
from kernel import call
from network import answered, connects as reaches
from place import LISTENS

ROOT = (0, 65534)  # itself, and where its number is nobody's
OUTSIDE = ("", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../../../../../../..")  # as a way to the host's root


def told(kind, name, act):
    """What is done with something whose name outside is only known there."""
    return lambda around: act(around[kind][name])(around)


def by_each_way(act):
    """The first way by which it goes, or the last reason why it does not."""
    def through(path):
        def tried(around):
            why = None
            for way in OUTSIDE:
                try:
                    if came := act(way + path)(around):
                        return way, came
                except OSError as error:
                    why = error
            if why:
                raise why
        return tried
    return through


def by_name(act):
    """With the number that a process has outside, if it is that one."""
    def tried(process):
        def so(around):
            pid, name = process
            done = act(pid)(around)
            # Some process of its own may have the same number.
            return done if Path(f"/proc/{pid}/comm").read_text().strip() == name else None
        return so
    return tried


def followed(name):
    return lambda pid: lambda _: os.readlink(f"/proc/{pid}/{name}")


def shown(name):
    return lambda pid: lambda _: runner.read(f"/proc/{pid}/{name}")


def entered(kind):
    """A namespace of the process: by its file, or by a handle of the process."""
    flags = {"mnt": 0x00020000, "net": 0x40000000, "pid": 0x20000000, "user": 0x10000000}

    def of(pid):
        def act(_):
            try:
                descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            except OSError:
                descriptor = os.pidfd_open(pid)
            return call(308, descriptor, flags[kind])
        return act
    return of


def sent(path):
    """A datagram to a socket that may be of another kind, which tells whether it is there."""
    def act(_):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.sendto(b"famulus", path)
        return "sent"
    return act


def abstract(name):
    return lambda _: connects("\0" + name)(_)


def any_port(around):
    """Whatever listens on the machine, by its loopback."""
    for port in around["ports"]:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=0.3):
                return port
        except OSError:
            pass


def another(act):
    """Somebody else's user: an ordinary user has one for all plugins, who is told apart by other means."""
    return lambda user: lambda around: None if user == os.getuid() else act(user)(around)


def becomes(user):
    def act(_):
        os.setresuid(user, user, user)
        return os.getuid() == user
    return act


def joins(user):
    return lambda _: os.setresgid(user, user, user) or "did"


def for_files(user):
    """The user that the kernel takes for files; it tells what was before."""
    def act(_):
        call(122, user)
        return int(call(122, -1).split()[1]) == user
    return act


def mapped(user):
    """A namespace in which the other's user is one of its own."""
    def act(_):
        call(272, 0x10000000)
        with open("/proc/self/uid_map", "w") as file:
            file.write(f"0 {user} 1")
        return "mapped"
    return act


def gives(user):
    def act(_):
        (SCRATCH / "theirs").write_text("x")
        os.chown(SCRATCH / "theirs", user, user)
        return "given"
    return act


def own_socket(around):
    path = str(SCRATCH / "own")
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(path)
        own.listen()
        return connects(path)(around)


def strangers(_):
    """Processes that are not the runner's: their programs lie elsewhere, or they have other users."""
    own = os.getuid()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            user = os.stat(f"/proc/{pid}").st_uid
            line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        # Files of a process that cannot be looked into are root's.
        if user not in (own, *ROOT) or any(word in line for word in ("postgres", "/famulus up", "--launch")):
            found.append((pid, user, line))
    return found


def many(_):
    """A machine has more processes than a sandbox."""
    seen = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    return seen if len(seen) > 40 else None


def above_the_first(_):
    """Who started the first process is outside, and has no number here."""
    parent = int(Path("/proc/1/stat").read_text().rsplit(")", 1)[1].split()[1])
    return parent and os.kill(parent, 0) or parent


def exits(_):
    """The namespace around its own, as its files tell it."""
    descriptor = os.open("/proc/self/ns/user", os.O_RDONLY)
    return fcntl.ioctl(descriptor, 0xB701)  # NS_GET_USERNS


def parent_of(kind):
    def act(_):
        descriptor = os.open(f"/proc/self/ns/{kind}", os.O_RDONLY)
        return fcntl.ioctl(descriptor, 0xB702)  # NS_GET_PARENT
    return act


def shared(kind):
    """Postgres has a piece of shared memory, which everybody of its namespace is shown."""
    return lambda _: Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]


def attached(_):
    """Shared memory of others by its number, without looking for it first."""
    for number in range(64):
        try:
            return call(30, number, 0, 0o10000)
        except OSError:
            pass


def in_shared_memory(_):
    return [name for name in os.listdir("/dev/shm") if name.startswith(("PostgreSQL", "sem."))]


def key(by):
    """A key in the ring of the session that the assistant was started in."""
    def act(around):
        name = around["names"]["key"].encode()
        found = int(by(name).split()[1])
        held = ctypes.create_string_buffer(64)
        call(250, 11, found, held, 64)
        return held.value
    return act


def addresses(_):
    """Where the kernel lies in memory."""
    with open("/proc/kallsyms") as symbols:
        return [line for line in symbols if int(line.split()[0], 16)][:3]


def typed(_):
    """A letter for whoever reads the terminal that the assistant was started in."""
    with open("/dev/tty") as terminal:
        return fcntl.ioctl(terminal, 0x5412, b"x") or "typed"


def named_outside(around):
    """Where its folders lie on the machine, by what the kernel says of its mounts."""
    return around["folders"]["the data"] in Path("/proc/self/mountinfo").read_text()


def mounted(_):
    """Mounts that are none of the sandbox's."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4].startswith(("/sys", "/run", "/var", "/home", "/root", "/boot"))]


def diagnosed(family):
    """The sockets of the machine, by the kernel's list of them."""
    def act(_):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as one:
            one.send(struct.pack("<IHHIIBBxxII", 32, 20, 0x301, 1, 0, family, 6, 0xFFFFFFFF, 0))
            return one.recv(4096)
    return act


PROCESSES = ("famulus", "Postgres", "the neighbour's launcher", "the neighbour's runner", "the neighbour's network",
             "the first process")
FILES = ("the token", "the backup key", "the passwords", "a file that all may read", "the neighbour's configuration",
         "the neighbour's bearer", "the program of famulus", "Postgres' process number")
FOLDERS = ("the home of root", "the data", "Postgres' data", "the plugins", "the neighbour", "a folder that all may write")
SOCKETS = ("Postgres", "the neighbour's door", "the neighbour's runner", "the host")
PEERS = ("the API", "a port of the host", "a port of the host (6)", "an address of the host", "Postgres' usual port")
TARGETS = {
    "reads its variables": shown("environ"),
    "reads its memory": shown("mem"),
    "reads its maps": shown("maps"),
    "follows its root": followed("root"),
    "follows its folder": followed("cwd"),
    "follows its program": followed("exe"),
    "lists its descriptors": lambda pid: lambda _: os.listdir(f"/proc/{pid}/fd"),
    "opens its descriptors": runner.opened,
    "takes its descriptors": runner.stolen,
    "attaches to it": lambda pid: runner.traced(16, pid),
    "seizes it": lambda pid: runner.traced(0x4206, pid),
    "reads its words": lambda pid: runner.memory(310, pid),
    "writes its words": lambda pid: runner.memory(311, pid),
    "signals it": lambda pid: runner.signalled(pid, signal.SIGCONT),
    "signals it by a descriptor": runner.by_descriptor,
    "limits it": runner.limited,
    "replaces its program": lambda pid: lambda _: os.open(f"/proc/{pid}/exe", os.O_RDWR),
    **{f"enters its namespace: {kind}": entered(kind) for kind in ("mnt", "net", "pid", "user")},
}

ATTEMPTS = {
    "control: connects to a socket of its own": own_socket,
    "control: reads a program of the system": reads("/usr/bin/env"),
    **{f"{what} ({who})": told("processes", who, by_name(act)) for who in PROCESSES for what, act in TARGETS.items()},
    **{f"reads {name}": told("files", name, by_each_way(reads)) for name in FILES},
    **{f"writes {name}": told("files", name, by_each_way(writes)) for name in FILES},
    **{f"lists {name}": told("folders", name, by_each_way(lists)) for name in FOLDERS},
    **{f"writes into {name}": told("folders", name, by_each_way(lambda path: writes(f"{path}/famulus"))) for name in FOLDERS},
    **{f"connects to {name}": told("sockets", name, by_each_way(connects)) for name in SOCKETS},
    **{f"sends to {name}": told("sockets", name, by_each_way(sent)) for name in SOCKETS},
    "connects to an abstract socket of the host": told("names", "abstract", abstract),
    "sends to an abstract socket of the host": told("names", "abstract", lambda name: sent("\0" + name)),
    **{f"connects to {name}": lambda around, name=name: reaches(name)(around["peers"]) for name in PEERS},
    "connects to any port that listens": any_port,
    "sends a datagram to a port of the host": lambda around: answered("datagrams", b"famulus")(around["peers"]),
    **{f"{what} the neighbour": told("users", "the neighbour", another(act)) for what, act in (
        ("becomes", becomes), ("joins the group of", joins), ("has files as", for_files), ("maps", mapped),
        ("gives a file to", gives))},
    **{f"{what} famulus": told("users", "famulus", another(act)) for what, act in (("has files as", for_files), ("maps", mapped))},
    "finds processes of others": strangers,
    "finds more processes than a sandbox has": many,
    "finds who started the first process": above_the_first,
    "finds mounts of the host": mounted,
    "learns where its folders lie outside": named_outside,
    "asks for the user namespace around its own": exits,
    **{f"asks for the {kind} namespace around its own": parent_of(kind) for kind in ("user", "pid")},
    **{f"finds {name} of others": shared(kind) for kind, name in (
        ("shm", "shared memory"), ("sem", "semaphores"), ("msg", "queues"))},
    "attaches shared memory of others": attached,
    "finds memory of Postgres": in_shared_memory,
    "asks for a key of the host": key(lambda name: call(249, b"user", name, None, 0)),
    "searches the session for a key of the host": key(lambda name: call(250, 10, -3, b"user", name, 0)),
    "lists the keys of the session": lambda _: call(250, 11, -3, ctypes.create_string_buffer(64), 64),
    "learns where the kernel lies": addresses,
    "types into the terminal of the host": typed,
    **{f"lists {path}": lists(path) for path in (
        "/sys", "/sys/fs/cgroup", "/run", "/var", "/home", "/root", "/boot", "/opt", "/srv", "/mnt", "/media", "/nix",
        "/lost+found", "/dev/pts", "/dev/mqueue", "/dev/disk", "/etc/ssh", "/etc/ssl/private", "/proc/1/cwd",
        "/proc/1/map_files", Path(LISTENS).parent, "/famulus", "/famulus/work", "/famulus/order")},
    **{f"reads {path}": reads(path) for path in (
        "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/machine-id", "/proc/1/environ",
        "/proc/vmallocinfo", "/proc/slabinfo", "/proc/sys/kernel/cad_pid")},
    **{f"lists the sockets of the machine ({name})": diagnosed(family) for name, family in (
        ("4", 2), ("6", 10), ("Unix", 1))},
}
