#!/bin/sh
set -eu
printf '{"link": "%s", "book": "%s"}\n' "$(readlink ../shelf/here)" "$(cat ../shelf/here/book.txt)"
