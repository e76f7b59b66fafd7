"""Sockets of kinds that no tool needs, and peers that none may reach."""

import os
import socket
import struct

from kernel import call


def made(family, kind, protocol=0):
    def act(_):
        with socket.socket(family, kind, protocol) as one:
            return f"made {one.fileno()}"
    return act


def vsock(_):
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as one:
        one.settimeout(1)
        one.connect((2, 22))
    return "connected"


def abstract(_):
    """Sockets without a file that others listen on: names of the node's, and whatever is listed."""
    names = ["/containerd-shim/famulus", "/tmp/dbus-famulus", "/tmp/.X11-unix/X0"]
    lines = open("/proc/net/unix").read().splitlines()[1:]
    names += [line.split()[-1][1:] for line in lines if line.split()[-1].startswith("@")]
    for name in names:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(1)
            try:
                one.connect("\0" + name)
                return name
            except OSError:
                pass


def route(message, kind, payload):
    """A request to the kernel's router; its answer is an error number."""
    def act(_):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as one:
            one.settimeout(2)
            one.bind((0, 0))
            one.send(struct.pack("<IHHII", 16 + len(payload), message, 5 | kind, 1, 0) + payload)
            answer = one.recv(4096)
        error = struct.unpack_from("<i", answer, 16)[0]
        if error:
            raise OSError(-error, os.strerror(-error))
        return "done"
    return act


def multicast(protocol, groups):
    def act(_):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as one:
            one.bind((0, groups))
            return "hears"
    return act


def marked(option, value):
    def act(_):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, option, value)
            return one.getsockopt(socket.SOL_SOCKET, option) == value
    return act


def connects(name, timeout=1):
    def act(around):
        host, port = around[name].rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=timeout):
            return f"connected to {around[name]}"
    return act


def answered(name, payload):
    """A datagram and its answer."""
    def act(around):
        host, port = around[name].rsplit(":", 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.settimeout(1)
            one.sendto(payload, (host, int(port)))
            return one.recv(512)
    return act


def echoed(name):
    """An echo request, where sockets for them are free to have."""
    def act(around):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as one:
            one.settimeout(1)
            one.sendto(struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0), (around[name].split(":")[0], 0))
            return one.recv(512)
    return act


def spoofed(_):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.IPPROTO_IP, 19, 1)  # IP_TRANSPARENT
        one.bind(("10.0.0.1", 5353))
    return "bound to an address that is not its own"


QUESTION = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\x0akubernetes\x07default\x03svc\x07cluster\x05local\0\0\x01\0\x01"
LINK = struct.pack("<BxHiII", 0, 0, 1, 0, 1)
ROUTE = struct.pack("<BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 6, 0)
ADDRESS = struct.pack("<BBBBI", 2, 32, 0, 0, 1) + struct.pack("<HH4s", 8, 2, bytes((10, 0, 0, 1)))

ATTEMPTS = {
    "control: has a loopback": lambda _: made(socket.AF_INET, socket.SOCK_STREAM)(_),
    "sends raw packets": made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    "sends raw echo requests": made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "sends raw segments": made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP),
    "sends raw packets (6)": made(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
    "sends frames": made(socket.AF_PACKET, socket.SOCK_RAW, 3),
    "hears frames": made(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)),
    "maps packets": made(44, socket.SOCK_RAW),
    "talks to the machine's host": vsock,
    "talks to keys of the kernel": made(15, socket.SOCK_RAW, 2),
    "talks to a bus": made(29, socket.SOCK_RAW, 1),
    "talks to clusters": made(30, socket.SOCK_RDM),
    "talks to radios": made(31, socket.SOCK_RAW, 1),
    "talks to rings": made(21, socket.SOCK_SEQPACKET),
    "talks to auditors": multicast(9, 1),
    "hears of devices": multicast(15, 2),
    "hears of connections": multicast(12, 1),
    "finds abstract sockets of others": abstract,
    "takes the network down": route(16, 0, LINK),
    "adds a route": route(24, 0x400, ROUTE),
    "adds an address": route(20, 0x400, ADDRESS),
    "marks its packets": marked(36, 7),
    "sends without routing marks": marked(12, 7),
    "has more than its buffer": marked(32, 1 << 28),
    "pretends another address": spoofed,
    **{f"connects to {name}": connects(name) for name in ("metadata", "public canary")},
    "asks the public for names": answered("public names", QUESTION),
    "sends echo requests to public canary": echoed("public canary"),
}
