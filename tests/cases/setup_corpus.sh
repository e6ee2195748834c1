#!/usr/bin/env bash
# setup_corpus.sh CACHE_DIR PYTHON: the published packages whose model files the tests read and run, into CACHE_DIR/corpus.
# May be run again: what is there is kept. PYTHON is the one that will import them, beside its own torch and numpy.
set -euo pipefail

if [ $# != 2 ]; then
  echo "usage: setup_corpus.sh CACHE_DIR PYTHON" >&2
  exit 2
fi
requirements="$(cd "$(dirname "$0")" && pwd)/corpus_requirements.txt"
corpus=$1/corpus python=$2
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
state="Python $version, requirements $(cksum <"$requirements")"
[ "$(cat "$corpus/.set-up" 2>/dev/null || true)" != "$state" ] || exit 0

# Built beside the place and moved there whole, so that a broken download never looks like a corpus.
mkdir -p "$1"
fresh=$(mktemp -d "$1/corpus.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
"$python" -m pip install --quiet --no-deps --only-binary=:all: --target "$fresh" -r "$requirements"
echo "$state" >"$fresh/.set-up"
rm -rf "$corpus"
mv "$fresh" "$corpus"
