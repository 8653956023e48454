#!/bin/sh
# Sees to it that the browser tests find a chromium: installs Debian's where it is missing and we may.
#
# Without it those tests are skipped, and say what to install. No browser is downloaded from anywhere else.
set -eu

for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done

skip() {
    printf '==> No chromium for the browser tests, which will be skipped: %s\n' "$*" >&2
    exit 0
}

command -v apt-get >/dev/null 2>&1 || skip 'install one; there is no apt here to do it by'

as_root=
if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || skip 'install it with: sudo apt-get install chromium'
    as_root='sudo -n'
fi

install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-inter >/dev/null 2>&1
}

printf '==> Installing chromium for the browser tests\n'
# The lists of packages may be missing or old, as in fresh containers.
install || { $as_root apt-get update -qq >/dev/null 2>&1 && install; } || skip 'apt could not install it'
