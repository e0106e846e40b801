#!/usr/bin/env bash
# The package in a system of its own (debootstrap, nothing else installed): installed, used and removed.
#   package_test.sh REPOSITORY WORK_FOLDER       exit 77: skipped, with the reason
set -euo pipefail
repository=$1 work=$2
((EUID == 0)) || { echo "skipped: a chroot needs root"; exit 77; }
for tool in debootstrap dpkg-shlibdeps lintian; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed (./scripts/deps.sh package)"; exit 77; }
done
root=$work/root
mkdir -p "$work"
(cd "$repository" && ./scripts/package) > "$work/package.log" 2>&1 || { tail -n 30 "$work/package.log"; exit 1; }
deb=$(ls "$repository"/build/package/butterfly_*.deb)
if [[ ! -e $root/etc/debian_version ]]; then
  rm -rf "$root"
  debootstrap --variant=minbase bookworm "$root" > "$work/debootstrap.log" 2>&1 ||
    { echo "skipped: debootstrap cannot make a system: $(tail -n 1 "$work/debootstrap.log")"; exit 77; }
fi
within=(chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8)
inside() { "${within[@]}" "$@"; }
check() { if ! eval "$2"; then echo "FAILED: $1"; exit 1; fi; echo "ok $1"; }

cp /etc/apt/sources.list "$root/etc/apt/" 2> /dev/null || true
cp -r /etc/apt/sources.list.d /etc/apt/apt.conf.d "$root/etc/apt/" 2> /dev/null || true
inside apt-get -qq purge -y butterfly > /dev/null 2>&1 || true
cp "$deb" "$root/tmp/butterfly.deb"
inside apt-get -qq update > "$work/apt.log" 2>&1
inside apt-get -qq install -y --no-install-recommends /tmp/butterfly.deb >> "$work/apt.log" 2>&1 || { tail -n 20 "$work/apt.log"; exit 1; }
# Again, now that what it needs is there: what a user waits for besides the network.
inside dpkg --remove butterfly >> "$work/apt.log" 2>&1
started=$(date +%s%N)
inside dpkg --install /tmp/butterfly.deb >> "$work/apt.log" 2>&1
echo "   installed in $((($(date +%s%N) - started) / 1000000)) ms"

started=$(date +%s%N)
text=$(inside butterfly run /usr/share/butterfly/caterpillar.gguf -p "Once upon a time" -n 16 --temp 0 -q)
echo "   first text after $((($(date +%s%N) - started) / 1000000)) ms"
check "the program writes" '[[ ${#text} -gt 20 ]]'
check "it says what it is" '[[ $(inside butterfly --version) == "butterfly 0."* ]]'
check "manuals" '[[ -e $root/usr/share/man/man1/butterfly.1.gz && -e $root/usr/share/man/man1/butterfly-serve.1.gz ]]'
check "completion" '[[ -e $root/usr/share/bash-completion/completions/butterfly ]]'
check "units and their user" '[[ -e $root/usr/lib/systemd/system/butterfly.service && -e $root/usr/lib/sysusers.d/butterfly.conf ]]'
check "settings that serve understands" 'inside butterfly serve --config /etc/butterfly/serve.toml --print-config | grep -q caterpillar'

# The units: as systemd reads them, and their commands as they stand there, with their environment.
if command -v systemd-analyze > /dev/null; then
  mkdir -p "$work/units"
  for unit in butterfly butterfly-node; do
    sed "s|/usr/bin/butterfly|$root/usr/bin/butterfly|" "$root/usr/lib/systemd/system/$unit.service" > "$work/units/$unit.service"
  done
  check "units that systemd understands" '[[ -z $(systemd-analyze verify --man=no "$work"/units/*.service 2>&1 | grep -F "$work/units" || true) ]]'
fi
install -d -m 700 "$root/var/lib/butterfly" # as StateDirectoryMode says
mkdir -p "$root/var/cache/butterfly" "$root/run/butterfly" "$root/proc"
mount -t proc proc "$root/proc" 2> /dev/null || true
pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; umount "$root/proc" 2> /dev/null || true' EXIT
start_unit() { # NAME LOG
  local file=$root/usr/lib/systemd/system/$1.service words environment
  read -ra words < <(sed -n 's/^ExecStart=//p' "$file")
  read -ra environment < <(sed -n 's/^Environment=//p' "$file")
  chroot "$root" env -i PATH=/usr/bin:/bin "${environment[@]}" "${words[@]}" > "$2" 2>&1 &
  pids+=($!)
}
until_said() { # PATTERN LOG
  for ((i = 0; i < 600; ++i)); do
    grep -qE "$1" "$2" 2> /dev/null && return 0
    sleep 0.1
  done
  cat "$2"
  return 1
}
start_unit butterfly "$work/server.log"
check "the server's unit serves" 'until_said "^Serving caterpillar" "$work/server.log"'
check "it can be asked" '[[ $(curl -sS http://127.0.0.1:8080/v1/models) == *caterpillar* ]]'
kill "${pids[0]}" && wait "${pids[0]}" && status=0 || status=$?
check "it ends well when it is told to" '((status == 0))'
token=$(inside env HOME=/tmp/first butterfly init --state /tmp/first | grep -oE 'bf1-[0-9a-f]+-[0-9a-f]+' | head -n 1)
"${within[@]}" butterfly serve -m /usr/share/butterfly/caterpillar.gguf --port 0 --cluster --cluster-listen 127.0.0.1:17741 --state /tmp/first \
  --management /tmp/first.sock --nodes 2 --nodes-wait 60 --strategy balanced > "$work/first.log" 2>&1 &
pids+=($!)
inside butterfly join 127.0.0.1:17741 --token "$token" --enrol-only --state /var/lib/butterfly --name second > "$work/join.log" 2>&1
start_unit butterfly-node "$work/node.log"
check "the node's unit works for a cluster" 'until_said "serving: caterpillar on 2 nodes" "$work/first.log"'
kill "${pids[@]:1}" 2> /dev/null || true
wait 2> /dev/null || true
umount "$root/proc" 2> /dev/null || true
rm -rf "$root/tmp/first"

inside apt-get -qq purge -y butterfly >> "$work/apt.log" 2>&1
check "nothing is left" '[[ -z $(find "$root/usr" "$root/etc" "$root/var/lib/butterfly" -iname "*butterfly*" -not -path "*/dpkg/*" 2> /dev/null) ]]'
