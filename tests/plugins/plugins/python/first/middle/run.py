#!/usr/bin/env python3
import json
import statistics
import sys

numbers = json.load(sys.stdin)["numbers"]
json.dump({"middle": statistics.median(numbers)}, sys.stdout)
