#!/usr/bin/env python3
import json
import sys

given = json.loads(sys.stdin.buffer.read())["größe"]
answer = {"逆さま": given[::-1], "länge": len(given)}
sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode())
