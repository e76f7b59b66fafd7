#!/usr/bin/env python3
"""Tries the whole list before there is a tool, and keeps for one what came of it and where that was."""

import json
import os
import sys
from pathlib import Path

kept = Path.cwd() / "tried.json"
where = {name: Path("/proc", name).read_text() for name in ("version", "self/uid_map")}
around = json.loads(Path("around.json").read_text())
os.chdir("escape")
sys.path.insert(0, os.getcwd())
from run import PARTS, tried  # noqa: E402

kept.write_text(json.dumps({"where": where} | {part: tried(part, around) for part in PARTS}))
