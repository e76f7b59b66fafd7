#!/usr/bin/env python3
"""Sends requests as it is told, and looks for a text in everything that it can read."""

import http.client
import json
import os
import sys


def asked(request):
    host, port = request["to"].rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request(request["method"], request["path"], body=request.get("body"), headers=request["headers"])
        return connection.getresponse().status
    except OSError as error:
        return str(error)


def holds(path, wanted):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return wanted.encode() in os.read(descriptor, 1 << 20)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def found(wanted):
    """Files of the whole system and of all processes; of the kernel's own, those about processes."""
    places = []
    # Its own places by name, for what lies above them may not be listed.
    for root in ("/", "..", os.environ["HOME"], os.environ["TMPDIR"]):
        for folder, folders, names in os.walk(root):
            if folder == "/":
                folders[:] = [one for one in folders if one not in ("sys", "proc", "usr", "state")]
            places += [os.path.join(folder, name) for name in names]
    for name in filter(str.isdigit, os.listdir("/proc")):
        places += [f"/proc/{name}/{one}" for one in ("environ", "cmdline", "mountinfo", "maps")]
    return [path for path in places if holds(path, wanted)]


def processes():
    """What runs here, as far as it is seen, by the names of the programs."""
    names = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/comm") as file:
                names.append(file.read().strip())
        except OSError:
            names.append("hidden")
    return sorted(names)


given = json.load(sys.stdin)
print(json.dumps({
    "statuses": [asked(request) for request in json.loads(given.get("requests", "[]"))],
    "found": found(given["wanted"]),
    "user": os.getuid(),
    "processes": processes(),
}))
