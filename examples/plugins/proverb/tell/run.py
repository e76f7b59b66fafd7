#!/usr/bin/env -S uv run --quiet
# /// script
# requires-python = ">=3.9"
# dependencies = ["proverbs"]
#
# [tool.uv.sources]
# proverbs = { path = "../packages/proverbs-1.0-py3-none-any.whl" }
# ///

import json
import sys

import proverbs

json.dump({"proverb": proverbs.tell(json.load(sys.stdin)["number"])}, sys.stdout)
