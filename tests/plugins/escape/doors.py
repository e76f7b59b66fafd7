"""The sockets between a sandbox of one machine and the assistant, and what a sandbox leaves for it to read."""

import os
import socket
import struct
from pathlib import Path

from files import writes
from place import KEPT, LISTENS, MOUNTED

DOORS = Path(LISTENS).parent


def in_place_of(name):
    """A door of its own where the assistant's or the runner's is: what is sent there would arrive here."""
    def act(_):
        door = DOORS / name
        os.rename(door, DOORS / f"{name}.before")
        with socket.socket(socket.AF_UNIX) as own:
            own.bind(str(door))
            own.listen()
        return "listens"
    return act


def beside(_):
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(DOORS / "other"))
    return "bound"


def linked(path):
    """A link that the assistant might follow, as root, when it writes there or cleans up."""
    return lambda _: os.symlink("/etc", path) or "linked"


def through_the_door(method, path):
    """The door asks for the bearer."""
    def act(_):
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(2)
            one.connect(str(DOORS / "app"))
            one.sendall(f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}".encode())
            answer = one.recv(256)
        status = int(answer.split()[1])
        if status in (401, 403, 404, 405):
            raise PermissionError(status, f"status {status}")
        return answer
    return act


def passed(path):
    """A descriptor of its own for whoever reads the socket, and any that comes back."""
    def act(_):
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(2)
            one.connect(path)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 1))]
            one.sendmsg([b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"], rights)
            _, along, _, _ = one.recvmsg(256, 256)
        return along
    return act


def queried(_):
    """Whoever is at the other end of a door: its number, where it is not 0, is one that is seen."""
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(DOORS / "app"))
        pid, _, _ = struct.unpack("iII", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid


ATTEMPTS = {
    "puts itself in place of the assistant's door": in_place_of("app"),
    "puts itself in place of the runner": in_place_of("run"),
    "opens a door of its own": beside,
    "removes the assistant's door": lambda _: os.unlink(DOORS / "app") or "removed",
    "removes the runner's door": lambda _: os.unlink(DOORS / "run") or "removed",
    **{f"puts a link into {path}": linked(f"{path}/link") for path in (
        DOORS, KEPT, MOUNTED, "/state", "/famulus/work", "/famulus/order", "/plugins", "/dev")},
    "says how its build ended": writes("/famulus/work/report", '{"Done":{}}'),
    "changes what its build is": writes("/famulus/work/bundle"),
    **{f"asks the assistant: {method} {path}": through_the_door(method, path) for method, path in (
        ("GET", "/v1/me"), ("GET", "/v1/plugins"), ("GET", "/internal/v1/revisions/0/bundle"),
        ("POST", "/internal/v1/calls/c1/result"), ("POST", "/v1/tokens"), ("GET", "/metrics"))},
    "hands a descriptor to the assistant": passed(str(DOORS / "app")),
    "hands a descriptor to the runner": passed(LISTENS),
    "asks who is behind the assistant's door": queried,
}
