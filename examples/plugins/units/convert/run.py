#!/usr/bin/env python3
import json
import sys
from pathlib import Path

config = json.loads(Path("../config.json").read_text())
feet = json.load(sys.stdin)["metres"] / 0.3048
# A value out of a Secret is always a text.
answer = {"feet": round(feet, int(config["places"])), "signature": config["signature"]}
json.dump(answer, sys.stdout)
