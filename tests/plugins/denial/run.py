#!/usr/bin/env python3
"""Takes all there is of one thing, and never stops by itself where it can help it."""

import json
import os
import signal
import sys
import threading
import time

SCRATCH = os.environ["TMPDIR"]
PLUGIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PIECE = b"x" * (1 << 20)
SECONDS = 60  # longer than any call may take


def ignored():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def forks():
    ignored()
    end = time.time() + SECONDS
    while time.time() < end:
        try:
            os.fork()
        except OSError:
            pass


def memory():
    held = []
    while True:
        held.append(bytearray(PIECE))


def memories():
    """Much of it, by many of whom none has much."""
    for _ in range(100):
        if os.fork() == 0:
            held = bytearray(PIECE * 16)
            time.sleep(SECONDS)
            os._exit(len(held) % 2)
    time.sleep(SECONDS)


def busy():
    """As many as there may be, each of which calculates for a while."""
    until, children = time.monotonic() + 5, []
    for _ in range(64):
        child = os.fork()
        if child == 0:
            break
        children.append(child)
    while time.monotonic() < until:
        pass
    if len(children) < 64:
        os._exit(0)
    for child in children:
        os.waitpid(child, 0)
    return "calculated"


def processors():
    """As many as there may be, each of which calculates without end."""
    for _ in range(64):
        if os.fork() == 0:
            break
    while True:
        pass


def state():
    """Whatever it may keep, until somebody looks."""
    number = 0
    try:
        while True:
            with open(f"{PLUGIN}/fill-{number}", "wb", buffering=0) as file:
                for _ in range(64):
                    file.write(PIECE)
            number += 1
    except OSError:
        time.sleep(SECONDS)


def scratch():
    """All of the temporary files there can be; the kernel says when that is."""
    written = 0
    try:
        with open(f"{SCRATCH}/fill", "wb", buffering=0) as file:
            while True:
                written += file.write(PIECE)
    except OSError as error:
        return f"after {written >> 20} MiB: {error.strerror}"


def flood():
    for _ in range(1024):
        os.write(1, PIECE)


def deaf():
    ignored()
    time.sleep(SECONDS)


def daemons():
    """Three that leave everything behind that could tie them to their call."""
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ignored()
                null = os.open("/dev/null", os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(null, descriptor)
                time.sleep(600)
            os._exit(0)
        os.wait()
    return "left"


def descriptors():
    opened = 0
    try:
        while True:
            os.pipe()
            opened += 2
    except OSError as error:
        return f"after {opened}: {error.strerror}"


def threads():
    started = 0
    try:
        while True:
            threading.Thread(target=time.sleep, args=(SECONDS,), daemon=True).start()
            started += 1
    except RuntimeError as error:
        print(f"after {started}: {error}", flush=True)
    os._exit(0)


def others():
    """Programs that run beside this one; the runner and one supervisor belong there."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = open(f"/proc/{name}/comm").read().strip()
        except OSError:
            continue
        if int(name) != os.getpid() and command not in ("famulus-runner", "runner"):
            found.append(command)
    return found


what = json.load(sys.stdin)["what"]
said = {one.__name__: one for one in (
    forks, memory, memories, busy, processors, scratch, state, flood, deaf, daemons, descriptors, threads,
    others)}[what]()
if said is not None:
    print(json.dumps(said))
