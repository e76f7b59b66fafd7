"""What a Pod has around it: the port of its runner, the node, and the others of the cluster."""

import socket

from network import QUESTION, answered, connects, echoed
from place import LISTENS


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("192.0.2.1", 9))
        return one.getsockname()[0]


def bound(address, *options):
    """The runner's port once more, where what is sent to the runner would arrive."""
    def act(_):
        listener = socket.socket()
        for option in options:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        listener.bind((address or own_address(), int(LISTENS)))
        listener.listen()
        return "listens"
    return act


PORTS = {
    f"takes the port of {name}, {how}": bound(address, *options)
    for name, address in (("all", "0.0.0.0"), ("localhost", "127.0.0.1"), ("the Pod", None))
    for how, options in (("plainly", ()), ("again", (socket.SO_REUSEADDR,)), ("shared", (socket.SO_REUSEPORT,)),
                         ("again and shared", (socket.SO_REUSEADDR, socket.SO_REUSEPORT)))
}

ATTEMPTS = {
    "control: reaches the way of results": connects("callback", timeout=20),
    **PORTS,
    **{f"connects to {name}": connects(name) for name in (
        "app", "sandbox canary", "database", "operator", "neighbour", "api server", "api service", "kubelet",
        "name server", "runner's node")},
    "asks the cluster for names": answered("name server", QUESTION),
    **{f"sends echo requests to {name}": echoed(name) for name in ("app", "neighbour", "api server")},
}
