#!/bin/sh
set -e
sides=$(sed -n 's/.*"sides" *: *"\{0,1\}\([0-9]*\).*/\1/p' ../config.json)
seed=$(sed -n 's/.*"seed" *: *\([0-9]*\).*/\1/p')
throw=$(awk -v seed="${seed:-1}" -v sides="$sides" 'BEGIN { srand(seed); print int(rand() * sides) + 1 }')
echo "$throw" >> ../throws.txt
printf '{"throw": %s, "throws": %s}\n' "$throw" "$(wc -l < ../throws.txt)"
