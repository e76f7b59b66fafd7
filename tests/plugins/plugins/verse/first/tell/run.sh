#!/bin/sh
cat <<'VERSE'
The rain has ended.
  "At last", says the cat,
{and it goes out.
VERSE
