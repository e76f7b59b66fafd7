#!/bin/sh
echo '{"door": "kicked"}'
