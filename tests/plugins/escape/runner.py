"""The runner, its supervisor, and everything of theirs."""

import ctypes
import http.client
import os
import signal
import socket
import struct

from kernel import call, numbers, zeros
from place import BEARER, LISTENS, PROGRAM

RUNNER, SUPERVISOR = 1, os.getppid()
READ = ("environ", "maps", "auxv", "mem", "stack", "syscall", "io", "pagemap")


def read(path):
    with open(path, "rb") as file:
        return file.read(4096)


def written(path, text):
    def act(_):
        with open(path, "w") as file:
            file.write(text)
        return f"wrote {path}"
    return act


def traced(request, pid):
    return lambda _: call(101, request, pid, 0, 0)


def memory(number, pid):
    """Reads or writes a word of another process, at the place where Linux maps programs."""
    def act(_):
        own = zeros(8)
        local = numbers(ctypes.addressof(own), 8)
        return call(number, pid, local, 1, numbers(0x555555554000, 8), 1, 0)
    return act


def stolen(pid):
    def act(_):
        handle = os.pidfd_open(pid)
        for number in range(16):
            try:
                return call(438, handle, number, 0)
            except OSError as error:
                if error.errno != 9:
                    raise
    return act


def signalled(pid, number):
    return lambda _: os.kill(pid, number) or "sent"


def by_descriptor(pid):
    return lambda _: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGCONT) or "sent"


def by_queue(pid):
    information = ctypes.create_string_buffer(struct.pack("<iii", signal.SIGCONT, 0, -1) + bytes(116))
    return lambda _: call(129, pid, signal.SIGCONT, information)


def limited(pid):
    """Processor seconds of another process: at the limit the kernel kills it."""
    def act(_):
        return call(302, pid, 0, numbers(1 << 40, 1 << 40), None)
    return act


def opened(pid):
    """Any descriptor of another process, by its name."""
    def act(_):
        for number in range(64):
            try:
                return os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_NONBLOCK)
            except FileNotFoundError:
                pass
    return act


def to_the_runner():
    if LISTENS.isdigit():
        return socket.create_connection(("127.0.0.1", int(LISTENS)), timeout=2)
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(2)
    peer.connect(LISTENS)
    return peer


def asked(method, path, bearer=None):
    def act(_):
        connection = http.client.HTTPConnection("127.0.0.1", timeout=2)
        connection.sock = to_the_runner()
        headers = {"authorization": f"Bearer {bearer}"} if bearer is not None else {}
        connection.request(method, path, body="{}" if method == "POST" else None, headers=headers)
        status = connection.getresponse().status
        if status in (401, 403):
            raise PermissionError(status, f"status {status}")
        return f"status {status}"
    return act


def inherited(_):
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        # Its own: the pipe to the parent and the folder that is listed.
        if int(number) > 2 and not target.startswith(("pipe:", "/proc/")):
            found.append((number, target))
    return found


def environment(_):
    known = {"HOME", "PATH", "TMPDIR", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "LC_CTYPE"}
    return sorted(set(os.environ) - known)


BOTH = (("runner", RUNNER), ("supervisor", SUPERVISOR))
ATTEMPTS = {
    "control: sees the runner": lambda _: read(f"/proc/{RUNNER}/comm"),
    **{f"reads {name} of the {who}": (lambda path: lambda _: read(path))(f"/proc/{pid}/{name}")
       for who, pid in BOTH for name in READ},
    **{f"follows {name} of the {who}": (lambda path: lambda _: os.readlink(path))(f"/proc/{pid}/{name}")
       for who, pid in BOTH for name in ("root", "cwd", "exe")},
    **{f"lists descriptors of the {who}": (lambda path: lambda _: os.listdir(path))(f"/proc/{pid}/fd")
       for who, pid in BOTH},
    **{f"opens a descriptor of the {who}": opened(pid) for who, pid in BOTH},
    "signals the runner's thread": lambda _: call(200, RUNNER, 0),
    **{f"reads the bearer through the {who}":
       (lambda path: lambda _: read(path))(f"/proc/{pid}/root{BEARER}")
       for who, pid in BOTH},
    **{f"attaches to the {who}": traced(16, pid) for who, pid in BOTH},
    **{f"seizes the {who}": traced(0x4206, pid) for who, pid in BOTH},
    **{f"reads memory of the {who}": memory(310, pid) for who, pid in BOTH},
    **{f"writes memory of the {who}": memory(311, pid) for who, pid in BOTH},
    **{f"takes a descriptor of the {who}": stolen(pid) for who, pid in BOTH},
    **{f"compares with the {who}": (lambda pid: lambda _: call(312, pid, os.getpid(), 0, 0, 0))(pid)
       for who, pid in BOTH},
    **{f"signals the {who}": signalled(pid, signal.SIGCONT) for who, pid in BOTH},
    **{f"signals the {who} by a descriptor": by_descriptor(pid) for who, pid in BOTH},
    **{f"signals the {who} by a queue": by_queue(pid) for who, pid in BOTH},
    **{f"limits the {who}": limited(pid) for who, pid in BOTH},
    "advises memory of the runner": lambda _: call(440, os.pidfd_open(RUNNER), numbers(4096, 4096), 1, 21, 0),
    "asks for locks of the runner": lambda _: call(274, RUNNER, zeros(8), zeros(8)),
    "saves itself from the lack of memory": written("/proc/self/oom_score_adj", "-1000"),
    "gives up the runner first": written(f"/proc/{RUNNER}/oom_score_adj", "1000"),
    "has the runner's core written": written(f"/proc/{RUNNER}/coredump_filter", "255"),
    "forgets what the runner used": written(f"/proc/{RUNNER}/clear_refs", "1"),
    "makes the runner slow": lambda _: os.setpriority(os.PRIO_PROCESS, RUNNER, 19) or "did",
    "makes the runner idle": lambda _: os.sched_setscheduler(RUNNER, 5, os.sched_param(0)) or "did",
    "binds the runner to a processor": lambda _: os.sched_setaffinity(RUNNER, {0}) or "did",
    "makes the runner's disk slow": lambda _: call(251, 1, RUNNER, 3 << 13),
    "replaces the program of the runner": lambda _: os.open(f"/proc/{RUNNER}/exe", os.O_RDWR) and "opened",
    "replaces the program": lambda _: os.open(PROGRAM, os.O_RDWR) and "opened",
    "replaces its parent's program": lambda _: os.open(f"/proc/{SUPERVISOR}/exe", os.O_RDWR) and "opened",
    "asks the runner for its health": asked("GET", "/v1/health"),
    "asks the runner for a call": asked("POST", "/v1/calls/c1"),
    "asks the runner for a call, with an empty bearer": asked("POST", "/v1/calls/c1", ""),
    "asks the runner for a call, with a guess": asked("POST", "/v1/calls/c1", "0" * 64),
    "ends a call": asked("POST", "/v1/calls/c1/cancel"),
    "inherits descriptors": inherited,
    "inherits variables": environment,
}
