#!/usr/bin/env python3
import json
import re
import sys
from pathlib import Path

given = json.load(sys.stdin)
title = given["title"]
if not re.fullmatch(r"[A-Za-z0-9-]{1,60}", title):
    sys.exit("a title has 1 to 60 letters, digits and hyphens")
Path("../notes", f"{title}.txt").write_text(given["text"])
json.dump({"kept": title}, sys.stdout)
