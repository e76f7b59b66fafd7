#!/usr/bin/env python3
import json
import sys
from pathlib import Path

json.dump(sorted(path.stem for path in Path("../notes").glob("*.txt")), sys.stdout)
