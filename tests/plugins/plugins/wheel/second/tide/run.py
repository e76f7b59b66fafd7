#!/usr/bin/env -S uv run --quiet
# /// script
# requires-python = ">=3.9"
# dependencies = ["tidetable==1.1"]
# ///
import json
import sys

import tidetable

hour = json.load(sys.stdin)["hour"]
json.dump({"water": tidetable.water(hour), "turns_in": tidetable.turns_in(hour)}, sys.stdout)
