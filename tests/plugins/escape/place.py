"""Where things are in the home that this runs in."""

import json
from pathlib import Path

SAID = json.loads(Path(__file__).with_name("place.json").read_text())
PARTS = SAID["parts"]
MOUNTED, KEPT, PROGRAM = (Path(SAID[name]) for name in ("mounted", "kept", "program"))
LISTENS = SAID["listens"]  # the runner: a port, or the path of a socket
BEARER = MOUNTED / "bearer"
