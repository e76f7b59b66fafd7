#!/bin/sed -f
s/.*"word": *"\([a-z]*\)".*/\1/
y/aeiou/AEIOU/
s/.*/{"word": "&"}/
