#!/bin/sh
sleep 2
echo 'it rises' >&2
echo '{"bread": "brown"}'
