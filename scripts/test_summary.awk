# Reads ctest's JUnit file, lists skipped tests by reason and failed tests by name, and ends with the line
#   N passed, N failed, N skipped
# Exits with 1 when something failed or nothing ran. A test is counted by its status, so one that is neither passed
# nor known here counts as failed.

function attribute(line, name,    found) {
  if (!match(line, name "=\"[^\"]*\"")) return ""
  found = substr(line, RSTART + length(name) + 2, RLENGTH - length(name) - 3)
  return plain(found)
}

function plain(text) {
  gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
  gsub(/&amp;/, "\\&", text)
  return text
}

function close_test() {
  if (status == "run") { passed++; return }
  if (status == "disabled") { skip("disabled in the source"); return }
  if (status == "notrun" && skipped_mark) { skip(reason == "" ? "no reason given" : reason); return }
  failed++
  failures = failures "  failed: " name (status == "fail" ? "" : " (" status ")") "\n"
}

function skip(why) {
  skipped++
  if (!(why in count)) order[++reasons] = why
  count[why]++
  if (count[why] <= 3) names[why] = names[why] (count[why] > 1 ? ", " : "") name
}

/^\t<testcase / { inside = 1; name = attribute($0, "name"); status = attribute($0, "status"); reason = ""; skipped_mark = 0; reading = 0; next }
inside && /^\t\t<skipped message=/ { skipped_mark = 1; if (attribute($0, "message") !~ /^SKIP_/) reason = attribute($0, "message"); next }
inside && /^\t<\/testcase>/ { close_test(); inside = 0; next }

# GoogleTest prints "file:line: Skipped", then what was streamed into GTEST_SKIP().
inside && /:[0-9]+: Skipped$/ { reading = 1; next }
inside && reading && /^\[ / { reading = 0 }
inside && reading && $0 != "" && reason == "" { reason = plain($0) }

# Scripts say "skipped: why".
inside && skipped_mark && reason == "" && /^(\t\t<system-out>)?skipped: / { reason = plain($0); sub(/^.*skipped: /, "", reason); sub(/<\/system-out>$/, "", reason) }

END {
  for (i = 1; i <= reasons; i++) {
    why = order[i]
    printf "  skipped %d: %s (%s%s)\n", count[why], why, names[why], (count[why] > 3 ? ", …" : "")
  }
  printf "%s", failures
  printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  exit (failed > 0 || passed + skipped == 0)
}
