#!/bin/sh
set -eu
mkdir -p shelf
ln -sfn ../library/north/wing/floor/room/case shelf/here
