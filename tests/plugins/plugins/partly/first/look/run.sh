#!/bin/sh
echo '{"door": "closed"}'
