#!/usr/bin/env python3
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shop import words
from shop.prices import with_tax

cents = json.load(sys.stdin)["cents"]
json.dump({"total": words.money(with_tax(cents))}, sys.stdout)
