#!/bin/sh
printf '[%s]' "$(cat ../kept.json)"
