#!/bin/sh
echo '{"door": "broken"}'
