#!/bin/sh
echo '{"door": "knocked"}'
