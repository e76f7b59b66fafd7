#!/bin/sh
cat > ../kept.json
