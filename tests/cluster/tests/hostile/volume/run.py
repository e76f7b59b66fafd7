#!/usr/bin/env python3
"""Fills the plugin's own folder, with bytes or with names, until it is ended."""

import ctypes
import json
import os
import sys
import time

PLUGIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PIECE = b"x" * (1 << 20)


def waited(written):
    """Nothing more fits: holds still until somebody looks."""
    time.sleep(60)
    return f"{written} written, and it was let go on"


def fill():
    written = 0
    with open(f"{PLUGIN}/fill", "wb", buffering=0) as file:
        try:
            while True:
                written += file.write(PIECE)
        except OSError:
            return waited(written)


def files():
    made = 0
    os.mkdir(f"{PLUGIN}/many")
    try:
        while True:
            os.close(os.open(f"{PLUGIN}/many/{made}", os.O_CREAT | os.O_WRONLY))
            made += 1
    except OSError:
        return waited(made)


def hidden():
    """In a file without a name, by a process that lets nobody look at it."""
    set_dumpable, written = 4, 0
    assert ctypes.CDLL(None).prctl(set_dumpable, 0, 0, 0, 0) == 0
    with open(f"{PLUGIN}/gone", "wb", buffering=0) as file:
        os.remove(f"{PLUGIN}/gone")
        try:
            while True:
                written += file.write(PIECE)
        except OSError:
            return waited(written)


def note():
    """What anybody does: keeps a little, and reads it again."""
    with open(f"{PLUGIN}/note", "w") as file:
        file.write("kept")
    with open(f"{PLUGIN}/note") as file:
        return file.read()


what = json.load(sys.stdin)["what"]
print(json.dumps({one.__name__: one for one in (fill, files, hidden, note)}[what]()))
