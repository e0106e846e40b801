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
inside() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8 "$@"; }
check() { if ! eval "$2"; then echo "FAILED: $1"; exit 1; fi; echo "ok $1"; }

cp /etc/apt/sources.list "$root/etc/apt/" 2> /dev/null || true
cp -r /etc/apt/sources.list.d /etc/apt/apt.conf.d "$root/etc/apt/" 2> /dev/null || true
inside apt-get -qq purge -y butterfly > /dev/null 2>&1 || true
cp "$deb" "$root/tmp/butterfly.deb"
inside apt-get -qq update > "$work/apt.log" 2>&1
inside apt-get -qq install -y --no-install-recommends /tmp/butterfly.deb >> "$work/apt.log" 2>&1 || { tail -n 20 "$work/apt.log"; exit 1; }

started=$(date +%s%N)
text=$(inside butterfly run /usr/share/butterfly/caterpillar.gguf -p "Once upon a time" -n 16 --temp 0 -q)
echo "   first text after $((($(date +%s%N) - started) / 1000000)) ms"
check "the program writes" '[[ ${#text} -gt 20 ]]'
check "it says what it is" '[[ $(inside butterfly --version) == "butterfly 0."* ]]'
check "manuals" '[[ -e $root/usr/share/man/man1/butterfly.1.gz && -e $root/usr/share/man/man1/butterfly-serve.1.gz ]]'
check "completion" '[[ -e $root/usr/share/bash-completion/completions/butterfly ]]'
check "units and their user" '[[ -e $root/usr/lib/systemd/system/butterfly.service && -e $root/usr/lib/sysusers.d/butterfly.conf ]]'
check "settings that serve understands" 'inside butterfly serve --config /etc/butterfly/serve.toml --print-config | grep -q caterpillar'
inside apt-get -qq purge -y butterfly >> "$work/apt.log" 2>&1
check "nothing is left" '[[ -z $(find "$root/usr" "$root/etc" "$root/var/lib/butterfly" -iname "*butterfly*" -not -path "*/dpkg/*" 2> /dev/null) ]]'
