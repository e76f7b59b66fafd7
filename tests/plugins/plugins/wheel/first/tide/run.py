#!/usr/bin/env -S uv run --quiet
# /// script
# requires-python = ">=3.9"
# dependencies = ["tidetable==1.0"]
# ///
import json
import sys

import tidetable

json.dump({"water": tidetable.water(json.load(sys.stdin)["hour"])}, sys.stdout)
