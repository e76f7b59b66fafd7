#!/usr/bin/env python3
import json
import sys

number = json.load(sys.stdin)["number"]
if number % 2:
    sys.exit(f"{number} is odd")
json.dump({"half": number // 2}, sys.stdout)
