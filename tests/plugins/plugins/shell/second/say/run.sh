#!/bin/sh
set -eu
text=$(sed -n 's/.*"text": *"\([^"]*\)".*/\1/p')
printf '{"said": "%s!"}\n' "$text"
