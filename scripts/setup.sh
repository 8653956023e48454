#!/bin/sh
# Makes .venv hold exactly what requirements.lock names, and this project. Does nothing when nothing has changed.
#
# .venv/.setup/stamp is all it remembers:
#   absent        there is no .venv, or someone made it by hand: it is used if it works
#   "incomplete"  a set-up began and did not end. It begins anew, since a half-copied package may pass for installed
#   two lines     what .venv stands on (a change makes it anew), and a checksum of what went into it (a change updates it)
#
# .venv/.setup/lock lets one set-up work at a time; the others wait, and find the work done.
set -eu

CDPATH='' cd -- "$(dirname -- "$0")/.."

state=.venv/.setup
stamp=$state/stamp
python=.venv/bin/python

say() {
    printf '==> %s\n' "$*"
}

# A moved checkout counts: the commands in .venv/bin hold its path.
foundation() {
    printf '%s on Python %s\n' "$PWD" "$(cat .python-version)"
}

ingredients() {
    cat requirements.lock pyproject.toml .venv/pyvenv.cfg \
        scripts/uv-requirements.txt scripts/setup.sh scripts/find-python.sh | cksum
}

remembered() {
    sed -n "$1p" "$stamp" 2>/dev/null
}

venv_works() {
    sh scripts/find-python.sh "$python" >/dev/null 2>&1 && "$python" -m pip --version >/dev/null 2>&1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

# PYTHON names another usable Python than the one .venv stands on. Unset, it is content with what is there.
python_is_unwanted() {
    [ -n "${PYTHON:-}" ] && wanted=$(sh scripts/find-python.sh "$PYTHON" 2>/dev/null) &&
        [ "$(version_of "$wanted")" != "$(version_of "$python")" ]
}

up_to_date() {
    [ -x "$python" ] && [ "$(remembered 1)" = "$(foundation)" ] && [ "$(remembered 2)" = "$(ingredients)" ] &&
        ! python_is_unwanted
}

must_begin_anew() {
    case $(remembered 1) in
        '' | "$(foundation)") ! venv_works || python_is_unwanted ;;
        *) true ;; # incomplete, or on another foundation
    esac
}

# The lock belongs to the open file, which this shell holds until it ends, however it ends. Python takes it, because
# flock(1) is not everywhere.
one_at_a_time() {
    mkdir -p "$state"
    exec 9>"$state/lock"
    "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null && return
    say 'Another set-up is at work; waiting for it'
    "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
}

make_venv() {
    say "Python $(version_of "$base") at $base"
    echo incomplete >"$stamp"
    find .venv -mindepth 1 -maxdepth 1 ! -name .setup -exec rm -rf {} +
    "$base" -m venv .venv
}

# uv and pip draw progress bars and list every package: good to watch, noise in a log. Errors are shown either way: pip
# still shows them at -qq, uv at -q.
quiet=yes
[ ! -t 2 ] || quiet=

pip() {
    "$python" -m pip --disable-pip-version-check "$@"
}

uv() {
    "$python" -m uv "$@"
}

have_uv() {
    uv --version >/dev/null 2>&1 || pip install -qq --require-hashes -r scripts/uv-requirements.txt
}

sync_with_uv() {
    say "Installing $packages packages with uv (about 20 s the first time)"
    uv pip sync ${quiet:+-q} --python "$python" --require-hashes requirements.lock
}

# pip leaves packages in place that the lock no longer names; they do no harm.
install_with_pip() {
    say "Installing $packages packages with pip (a few minutes the first time)"
    pip install ${quiet:+-qq} --no-deps --require-hashes -r requirements.lock
}

install_packages() {
    packages=$(grep -c '==' requirements.lock)
    if ! have_uv; then
        say 'uv is not to be had; using pip'
    elif sync_with_uv; then
        return
    else
        # uv does not read pip's configuration: behind a mirror that only pip knows, pip succeeds.
        say 'uv did not succeed; trying pip'
    fi
    install_with_pip
}

# --no-build-isolation: the lock holds the build backend too.
install_project() {
    pip install -qq --no-deps --no-build-isolation --editable .
}

write_stamp() {
    { foundation && ingredients; } >"$stamp.new"
    mv "$stamp.new" "$stamp"
}

up_to_date && exit 0

began=$(date +%s)
base=$(sh scripts/find-python.sh)
one_at_a_time
up_to_date && exit 0

if must_begin_anew; then
    make_venv
fi
echo incomplete >"$stamp"
if ! install_packages || ! install_project; then
    echo 'Set-up failed; the reason stands above. The next run starts afresh.' >&2
    exit 1
fi
write_stamp
say "Ready in $(($(date +%s) - began)) s"
