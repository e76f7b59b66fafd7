#!/bin/sh
sort ../throws.txt | uniq -c | sed 's/^ *//'
