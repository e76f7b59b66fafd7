#!/bin/sed -f
s/.*"word": *"\([a-z]*\)".*/\1/
s/[aeiou]//g
s/.*/{"word": "&"}/
