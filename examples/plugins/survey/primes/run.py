#!/usr/bin/env python3
import json
import sys

below = min(int(json.load(sys.stdin)["below"]), 1_000_000)
is_prime = bytearray([1]) * max(below, 2)
is_prime[0:2] = b"\0\0"
for number in range(2, int(below**0.5) + 1):
    if is_prime[number]:
        # What is written to standard error is shown while the tool runs.
        print(f"striking out multiples of {number}", file=sys.stderr)
        is_prime[number * number :: number] = bytes(len(range(number * number, len(is_prime), number)))
json.dump({"primes": sum(is_prime[:below])}, sys.stdout)
