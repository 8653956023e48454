#!/bin/sh
# Usage: check-lock.sh FILE...
#
# Refuses a lock file that names an address or a path of one machine, lets torch in, or pins without hashes.
set -eu

refuse() {
    printf '%s: %s:\n%s\n' "$1" "$2" "$3" >&2
    exit 1
}

for lock in "$@"; do
    found=$(grep -nE '://|^ *-(i|f|-index-url|-extra-index-url|-find-links|-trusted-host)|(^|[ =])/[A-Za-z]' "$lock") &&
        refuse "$lock" 'names an address or a path' "$found"
    # torch brings nineteen CUDA packages: 5 GB that nothing here uses.
    found=$(grep -nE '^(torch|torchvision|torchaudio|triton|nvidia-[a-z0-9-]*|sentence-transformers)==' "$lock") &&
        refuse "$lock" 'lets torch in' "$found"
    # The builds of OpenCV overwrite each other's files, and all but the headless one need libraries of a desktop.
    found=$(grep -nE '^opencv-(python|contrib-python|contrib-python-headless)==' "$lock") &&
        refuse "$lock" 'lets another build of OpenCV in' "$found"
    found=$(grep -nE '^[A-Za-z0-9]' "$lock" | grep -v ' \\$') &&
        refuse "$lock" 'pins without a hash' "$found"
done
exit 0
