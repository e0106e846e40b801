#!/usr/bin/env bash
# The closing count of ./scripts/test, from a JUnit file as ctest 3.25 writes it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# testcase NAME STATUS [OUTPUT] [INNER]
testcase() {
  printf '\t<testcase name="%s" classname="%s" time="0.1" status="%s">\n%s\t\t<system-out>%s</system-out>\n\t</testcase>\n' \
    "$1" "$1" "$2" "${4:-}" "${3:-}"
}
skipped=$'\t\t<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>\n'
junit() { printf '<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="(empty)"\n\t>\n' && cat && printf '</testsuite>\n'; }

# expect WHAT STATUS TEXT < FILE: the summary of the file exits with STATUS and prints TEXT.
expect() {
  local status=0 text
  text=$(junit | awk -f "$root/scripts/test_summary.awk" /dev/stdin) || status=$?
  if [[ $status != "$2" || $text != "$3" ]]; then
    printf '%s: expected status %s and\n%s\nfound status %s and\n%s\n' "$1" "$2" "$3" "$status" "$text"
    exit 1
  fi
}

expect "all pass" 0 "2 passed, 0 failed, 0 skipped" < <(testcase A.x run; testcase A.y run)
expect "a failure" 1 $'  failed: A.y\n1 passed, 1 failed, 0 skipped' < <(testcase A.x run; testcase A.y fail)
expect "nothing ran" 1 "0 passed, 0 failed, 0 skipped" < /dev/null
expect "a test that could not start is a failure, not a skip" 1 $'  failed: A.x (notrun)\n0 passed, 1 failed, 0 skipped' \
  < <(testcase A.x notrun "Unable to find executable")
expect "skipped with the reason, unescaped" 0 $'  skipped 1: no &lt;data&gt; & "co" (A.x)\n0 passed, 0 failed, 1 skipped' \
  < <(testcase A.x notrun $'[ RUN      ] A.x\n/a/b.cc:3: Skipped\nno &amp;lt;data&amp;gt; &amp; &quot;co&quot;\n[  SKIPPED ] A.x (0 ms)\n' "$skipped")
expect "skips of one reason are counted together" 0 \
  $'  skipped 4: no data (A.a, A.b, A.c, …)\n  skipped 1: disabled in the source (A.e)\n0 passed, 0 failed, 5 skipped' \
  < <(for t in a b c d; do
        testcase A.$t notrun $'/a/b.cc:3: Skipped\nno data\n[  SKIPPED ] x\n' "$skipped"
      done
      testcase A.e disabled Disabled)
expect "a test that prints XML cannot add a pass" 0 "1 passed, 0 failed, 0 skipped" \
  < <(testcase A.x run $'&lt;testcase name=&quot;fake&quot; status=&quot;run&quot;&gt;\n')
expect "scripts say why they skip" 0 $'  skipped 2: mpirun is not here: "a" (c.a, c.b)\n0 passed, 0 failed, 2 skipped' \
  < <(testcase c.a notrun $'skipped: mpirun is not here: &quot;a&quot;\n' $'\t\t<skipped message="SKIP_RETURN_CODE=77"/>\n'
      testcase c.b notrun $'begins\nskipped: mpirun is not here: &quot;a&quot;' $'\t\t<skipped message="SKIP_RETURN_CODE=77"/>\n')
