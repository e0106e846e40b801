# What the other scripts share: numbered steps with elapsed time, a log per step, and errors that say what to do.
# Sourced, never run. Needs only bash and coreutils, because it runs before anything is installed.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly log_dir=build/logs
step_index=0
step_count=${step_count:-0}
step_title=""
step_started_ms=0
child_pid=""

# The live line (rewritten every second) is for people; a log gets whole lines, and a sign of life every 15 s.
if [[ -t 1 && -z "${CI:-}" && "${TERM:-dumb}" != dumb ]]; then readonly live=yes; else readonly live=no; fi

now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }
seconds_since() { local ms=$(($(now_ms) - $1)); printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100)); }

# stop WHAT DO_THIS...: ends the script with what went wrong and what to do about it.
stop() {
  local what=$1
  shift
  printf '\nerror: %s\n' "$what" >&2
  if (($#)); then printf '  -> %s\n' "$@" >&2; fi
  exit 1
}

start_step() {
  step_index=$((step_index + 1))
  step_title=$1
  step_started_ms=$(now_ms)
  printf '[%d/%d] %s\n' "$step_index" "$step_count" "$step_title"
}

finish_step() { printf '      %s, %s\n' "$1" "$(seconds_since "$step_started_ms")"; }

# Ctrl-C also ends the command that run_logged started (a background job of a script would not notice it).
on_interrupt() {
  trap - INT TERM
  if [[ -n "$child_pid" ]]; then kill -TERM "$child_pid" 2>/dev/null || true; fi
  printf '\ninterrupted in step %d; starting again goes on from here\n' "$step_index" >&2
  exit 130
}
trap on_interrupt INT TERM

# The newest "[12/80]" (ninja) or "12/80 Test" (ctest) of a log.
progress_of() {
  tail -n 40 "$1" 2>/dev/null |
    sed -nE 's|^\[([0-9]+/[0-9]+)\].*|\1|p; s|^ *([0-9]+/[0-9]+) Test +#.*|\1|p' | tail -n 1
}

# run_logged LOG COMMAND...: runs with output in $log_dir/LOG.log and returns the command's status.
run_logged() {
  local log=$log_dir/$1.log started last_said=0 seconds status=0
  shift
  mkdir -p "$log_dir"
  started=$SECONDS
  "$@" >"$log" 2>&1 </dev/null &
  child_pid=$!
  while kill -0 "$child_pid" 2>/dev/null; do
    seconds=$((SECONDS - started))
    if [[ $live == yes ]]; then
      printf '\r      %4d s  %-12s' "$seconds" "$(progress_of "$log")"
    elif ((seconds >= last_said + 15)); then
      last_said=$seconds
      printf '      %4d s  %s\n' "$seconds" "$(progress_of "$log")"
    fi
    if ((seconds > 2)); then sleep 1; else sleep 0.1; fi
  done
  wait "$child_pid" || status=$?
  child_pid=""
  if [[ $live == yes ]]; then printf '\r%30s\r' ''; fi
  return "$status"
}

# must_run LOG "hint" COMMAND...: run_logged that stops with the end of the log and the hint.
must_run() {
  local log=$1 hint=$2 status=0
  shift 2
  run_logged "$log" "$@" || status=$?
  if ((status)); then
    printf '\n--- the end of %s ---\n' "$log_dir/$log.log" >&2
    tail -n 40 "$log_dir/$log.log" >&2
    printf -- '---\n' >&2
    stop "$step_title: failed with status $status" "$hint" "the whole log: $log_dir/$log.log"
  fi
}

# Configures build/PRESET when it was not yet, or when an asked-for setting (-D…) is not the one in its cache.
# A build folder made by hand keeps its own settings for what is not asked here.
configure() {
  local preset=$1 cache=build/$1/CMakeCache.txt setting needed=no
  shift
  if [[ -f build/$preset/build.ninja && -f $cache ]]; then
    for setting in "$@"; do
      setting=${setting#-D}
      grep -qE "^${setting%%=*}:[A-Z]+=${setting#*=}\$" "$cache" || needed=yes
    done
    # npm that came later makes the web page.
    if command -v npm >/dev/null && grep -q '^NPM:.*NOTFOUND$' "$cache"; then needed=yes; fi
    if [[ $needed == no ]]; then return 0; fi
  fi
  must_run "configure-$preset" \
    "if a library is not found, run ./scripts/deps.sh all; if build/$preset is from another checkout, remove it" \
    cmake --preset "$preset" "$@"
}

# The heaviest files take 1 to 1.7 GB to compile, so a small machine gets fewer jobs than cores.
build_jobs() {
  local cores room
  cores=$(nproc)
  room=$(awk '/^MemAvailable/ { print int($2 / 1048576 / 1.5) }' /proc/meminfo 2>/dev/null || echo "$cores")
  if ((room < 1)); then room=1; fi
  echo $((cores < room ? cores : room))
}
