#!/bin/sh
echo '{"door": "shut"}'
