#!/usr/bin/env bash
# The Debian packages each purpose needs, and the installation of those that are missing.
#
#   ./scripts/deps.sh [--list] [build|page|mpi|test|slow|browser|package|lint|all]...     (default: build test)
#
# Also sourced by the other scripts, which call install_missing PURPOSE...

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages_for() {
  case $1 in
    build) echo g++ cmake ninja-build ccache libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libhwy-dev pkg-config libpcre2-dev libutf8proc-dev libtomlplusplus-dev libboost1.81-dev libssl-dev libpng-dev libjpeg62-turbo-dev zlib1g-dev libyaml-cpp-dev libhwloc-dev liblz4-dev libzstd-dev libedit-dev ;;
    page) command -v npm >/dev/null || echo nodejs npm ;; # npm may have come with a node from elsewhere, beside which Debian's cannot be
    mpi) echo libopenmpi-dev openmpi-bin ;; # rows between nodes of a batch system; optional
    browser) echo chromium ;;
    package) echo dpkg-dev lintian debootstrap ;;
    test) echo libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev python3-jinja2 tmux ;;
    slow) echo g++-aarch64-linux-gnu qemu-user clang libclang-rt-14-dev python3-sentencepiece python3-jsonschema python3-torch valgrind iproute2 curl openssl ;;  # NEON under qemu; libFuzzer; an oracle; instruction counts; machines as network namespaces
    lint) echo clang-format clang-tidy ;;
    *) stop "'$1' is not a purpose" "choose from: build page mpi test slow browser package lint all" ;;
  esac
}

is_installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

missing_packages() {
  local purpose package
  for purpose in "$@"; do
    for package in $(packages_for "$purpose"); do
      is_installed "$package" || echo "$package"
    done
  done
}

# Fills as_root with what goes before a command to run it as root, or stops with the line an administrator can run.
find_root() {
  local missing=$1
  as_root=()
  if ((EUID == 0)); then return; fi
  local by_hand="as root: apt-get update && apt-get install --no-install-recommends $missing"
  if ! command -v sudo >/dev/null; then
    stop "packages are missing, and installing them needs root (you are $(id -un), and sudo is not here)" \
      "$by_hand" "then start this again: it needs root for nothing else"
  fi
  # Asked in the foreground, before anything runs with its output in a log.
  if ! sudo -n true 2>/dev/null && ! { [[ -t 0 ]] && sudo -v; }; then
    stop "packages are missing, and sudo did not let $(id -un) install them" \
      "$by_hand" "then start this again: it needs root for nothing else"
  fi
  as_root=(sudo)
}

# Installs what PURPOSE... needs and says what it did; asks for root only when something is missing.
install_missing() {
  local missing apt
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    if [[ -n "${BUTTERFLY_SKIP_DEPS:-}" ]]; then
      finish_step "skipped (BUTTERFLY_SKIP_DEPS is set)"
      return
    fi
    stop "this system has no apt-get: Butterfly's scripts install packages on Debian and its relatives only" \
      "install the like of: $(for p in "$@"; do packages_for "$p"; done | tr '\n' ' ')" \
      "then start this again with BUTTERFLY_SKIP_DEPS=1"
  fi
  missing=$(missing_packages "$@" | tr '\n' ' ')
  missing=${missing% }
  if [[ -z "$missing" ]]; then
    finish_step "all there already"
    return
  fi
  printf '      missing: %s\n' "$missing"
  find_root "$missing"
  # A fresh machine often runs unattended upgrades in its first minutes: wait for the lock instead of failing.
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  must_run apt-update "check the network and /etc/apt/sources.list*" "${apt[@]}" update
  # shellcheck disable=SC2086  # the list is words on purpose
  must_run apt-install "check the network, disk space (df -h /) and the package list of ./scripts/deps.sh" \
    "${apt[@]}" install -y --no-install-recommends $missing
  missing=$(missing_packages "$@" | tr '\n' ' ')
  if [[ -n "$missing" ]]; then stop "apt-get succeeded, but these are still missing: $missing"; fi
  finish_step "installed"
}

deps_main() {
  local purposes=() list=no argument
  for argument in "$@"; do
    case $argument in
      --list) list=yes ;;
      -h | --help) sed -nE '2,4s/^# ?//p' "${BASH_SOURCE[0]}" && return ;;
      all) purposes+=(build page mpi test slow browser package lint) ;;
      *) purposes+=("$argument") ;;
    esac
  done
  if ((${#purposes[@]} == 0)); then purposes=(build test); fi
  if [[ $list == yes ]]; then
    for argument in "${purposes[@]}"; do packages_for "$argument"; done | tr ' ' '\n'
    return
  fi
  for argument in "${purposes[@]}"; do packages_for "$argument" >/dev/null; done
  step_count=1
  start_step "packages for ${purposes[*]}"
  install_missing "${purposes[@]}"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then deps_main "$@"; fi
