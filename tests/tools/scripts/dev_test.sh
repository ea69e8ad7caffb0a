#!/bin/bash
# Tests tools/dev: asking for help is not an error, and a wrong word is named.
set -u
dev=$1/tools/dev
failures=0

# expect EXIT WORDS ARGS...: checks the exit code, and that one of the two outputs contains the words.
expect() {
  local code=$1 words=$2 said
  shift 2
  said=$("$dev" "$@" 2>&1)
  local got=$?
  [ "$got" -eq "$code" ] || { echo "tools/dev $*: exit $got instead of $code"; failures=1; }
  grep -qF -- "$words" <<<"$said" || { echo "tools/dev $*: does not say '$words'"; failures=1; }
}

expect 0 "tools/dev run ARGS" --help
expect 0 "tools/dev run ARGS" -h
expect 0 "tools/dev check [ARGS...]" --help
expect 2 "there is no 'tset'" tset
expect 2 "tools/dev run ARGS"
exit $failures
