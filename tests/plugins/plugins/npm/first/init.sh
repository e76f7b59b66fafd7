#!/bin/sh
exec npm ci --no-audit --no-fund --no-update-notifier --loglevel=error
