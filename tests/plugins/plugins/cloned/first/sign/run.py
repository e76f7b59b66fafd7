#!/usr/bin/env python3
import json
import sys
from pathlib import Path

hand = json.loads(Path("../config.json").read_text())["hand"]
json.dump({"signed": f"{json.load(sys.stdin)['text']}, {len(hand)} letters"}, sys.stdout)
