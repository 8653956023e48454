#!/bin/sh
# Usage: find-python.sh [CANDIDATE]
#
# Prints the path of a Python that the project runs on. Where there is none, says what is missing and exits with 2.
# Given a CANDIDATE, looks at that one alone. Otherwise takes the first that fits: $PYTHON, the checkout's `python`, pyenv's versions (newest first), python3.14 to
# python3.12, python3, and last the Python that uv can fetch.
set -eu

# requires-python in pyproject.toml says the same; a test holds the two equal.
oldest=12
newest=14

# Runs on any Python, so that one too old can say so. The base executable, because .venv's own is deleted when .venv is
# made anew.
probe='
import sys
try:
    import ensurepip, venv
    makes_venvs = "yes"
except ImportError:
    makes_venvs = "no"
print("%d.%d.%d %s %s" % (sys.version_info[:3] + (makes_venvs, getattr(sys, "_base_executable", "") or sys.executable)))
'

passed_over=''

pass_over() {
    passed_over="$passed_over
  $1: $2"
}

# Prints the path behind candidate $1 and ends the search, if it fits; otherwise notes why it does not.
consider() {
    answer=$("$1" -c "$probe" 2>/dev/null) || return 0
    version=${answer%% *}
    rest=${answer#* }
    minor=${version#3.}
    minor=${minor%%.*}
    case $version in
        3.*) ;;
        *) minor=0 ;;
    esac
    if [ "$minor" -lt "$oldest" ]; then
        pass_over "$1" "is Python $version, too old"
    elif [ "$minor" -gt "$newest" ]; then
        pass_over "$1" "is Python $version, not tried yet"
    elif [ "${rest%% *}" = no ]; then
        pass_over "$1" "is Python $version without venv (on Debian and Ubuntu: apt install python3.$minor-venv)"
    else
        printf '%s\n' "${rest#* }"
        exit 0
    fi
}

consider_wish() {
    [ -n "${PYTHON:-}" ] || return 0
    consider "$PYTHON"
    [ -n "$passed_over" ] || pass_over "$PYTHON" "does not run"
    # A wish that cannot be met is said aloud, not swallowed.
    printf 'PYTHON is set, but cannot be used:%s\n' "$passed_over" >&2
}

pyenv_versions() (
    cd "$1/versions" 2>/dev/null || exit 0
    printf '%s\n' 3.* | sort -t . -k 2,2nr -k 3,3nr
)

consider_pyenv() {
    root=${PYENV_ROOT:-$(pyenv root 2>/dev/null || printf '%s' "${HOME:-}/.pyenv")}
    for version in $(pyenv_versions "$root"); do
        case $version in
            *[!0-9.]*) ;; # free-threaded and development builds have no wheels
            *) consider "$root/versions/$version/bin/python" ;;
        esac
    done
}

consider_download() {
    for uv in uv 'python3 -m uv'; do
        # Word splitting is meant: the second is a command of three words.
        # shellcheck disable=SC2086
        $uv --version >/dev/null 2>&1 || continue
        printf '==> No Python 3.%s to 3.%s here: asking uv to fetch one\n' "$oldest" "$newest" >&2
        # shellcheck disable=SC2086
        if $uv python install 3.13 >&2; then
            fetched=$(UV_PYTHON_PREFERENCE=only-managed $uv python find --system 3.13 2>/dev/null) || continue
            consider "$fetched"
        fi
    done
}

if [ $# -gt 0 ]; then
    consider "$1"
    printf '%s\n' "${passed_over:-$1 does not run}" >&2
    exit 2
fi

consider_wish
consider python
consider_pyenv
consider python3.14
consider python3.13
consider python3.12
consider python3
consider_download

cat >&2 <<MESSAGE
No usable Python 3.$oldest to 3.$newest was found.${passed_over:+ Passed over:$passed_over}

Install one, for example
  pyenv install 3.13                           with pyenv
  apt install python3.13 python3.13-venv       on Debian and Ubuntu
  brew install python@3.13                     on macOS
  uv python install 3.13                       with uv
or say where it is: make setup PYTHON=/path/to/python3.13
MESSAGE
exit 2
