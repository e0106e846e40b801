#!/usr/bin/env bash
# scripts/deps.sh against stand-ins for dpkg-query, apt-get, sudo: what it installs, when it asks, what it says.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/repo"
cp -r "$root/scripts" "$work/repo/scripts"
chmod -R a+rwX "$work"

stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1" && chmod 755 "$work/bin/$1"; }
for tool in bash env dirname tr sed id mkdir tail sleep awk; do ln -sf "$(command -v $tool)" "$work/bin/$tool"; done

# A package is installed when it is a line of $work/installed; apt-get install adds lines.
stand_in dpkg-query 'grep() { while read -r line; do [[ $line == "$1" ]] && return 0; done; return 1; }
grep "${@: -1}" <'"$work"'/installed && echo -n installed'
stand_in apt-get 'echo "$*" >>'"$work"'/apt.log
for word in "$@"; do case $word in -*|install|update|DPkg*) ;; *) echo "$word" >>'"$work"'/installed ;; esac; done'

# deps USER ARGUMENTS...: runs with only the stand-ins in PATH; sets $status and $said.
deps() {
  local as=()
  if [[ $1 == other && $EUID == 0 ]]; then as=(setpriv --reuid 65534 --regid 65534 --clear-groups); fi
  shift
  status=0
  said=$(cd "$work/repo" && PATH=$work/bin CI=true "${as[@]}" "$work/bin/bash" scripts/deps.sh "$@" 2>&1 </dev/null) || status=$?
}
if [[ $EUID == 0 ]]; then
  setpriv=$(command -v setpriv) || { echo "setpriv is not here"; exit 77; }
  ln -sf "$setpriv" "$work/bin/setpriv"
fi
check() { if ! eval "$2"; then printf '%s\nstatus %s, said:\n%s\n' "$1" "$status" "$said"; exit 1; fi; }
fresh() { : >"$work/installed" && : >"$work/apt.log" && chmod a+rw "$work/installed" "$work/apt.log"; }

fresh
"$root/scripts/deps.sh" --list build test >"$work/installed"
deps other build test
check "nothing missing: succeeds without root" '[[ $status == 0 && $said == *"all there already"* && ! -s $work/apt.log ]]'

fresh
deps other build
check "no root and no sudo: an error with the line to run" \
  '[[ $status == 1 && $said == *"needs root"* && $said == *"apt-get install --no-install-recommends g++ cmake"* ]]'
check "no root and no sudo: apt-get is not tried" '[[ ! -s $work/apt.log ]]'

fresh
stand_in sudo 'exit 1'
deps other build
check "sudo refuses: an error that says so" '[[ $status == 1 && $said == *"sudo did not let"* ]]'

stand_in sudo 'if [[ $1 == -n ]]; then shift; fi; exec "$@"'
stand_in true 'exit 0'
deps other build
check "with sudo: installs" '[[ $status == 0 && $said == *installed* ]]'
check "updates before it installs" '[[ $(sed -n 1p $work/apt.log) == *update && $(sed -n 2p $work/apt.log) == *"install -y"* ]]'

: >"$work/apt.log"
deps other build
check "a second start does nothing" '[[ $status == 0 && ! -s $work/apt.log ]]'
deps other build test
check "only what is missing is installed" '[[ $(sed -n 2p $work/apt.log) == *libgtest-dev* && $(sed -n 2p $work/apt.log) != *cmake* ]]'

fresh
stand_in apt-get 'echo "E: no space left" >&2; exit 100'
deps other build
check "apt-get fails: the end of its log and what to do" \
  '[[ $status == 1 && $said == *"E: no space left"* && $said == *"check the network"* ]]'

deps other wrong
check "an unknown purpose is named" '[[ $status == 1 && $said == *wrong* ]]'
