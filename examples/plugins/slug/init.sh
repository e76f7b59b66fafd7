#!/bin/sh
# A package of this repository, so that no registry is asked.
exec npm install --no-audit --no-fund --no-update-notifier --loglevel=error
