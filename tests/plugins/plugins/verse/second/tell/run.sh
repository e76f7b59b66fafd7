#!/bin/sh
cat <<'VERSE'
The rain has ended.
  "Finally", says the cat,
{and it goes out.
VERSE
