#!/usr/bin/env python3
import json
import sys
from pathlib import Path

config = json.loads(Path("../config.json").read_text())
json.load(sys.stdin)
signed = sum(map(ord, config["signing_word"]))
lines = ["Dear Ada"] * int(config["lines"])
json.dump({"letter": lines, "signed": signed, "tone": config["tone"]}, sys.stdout)
