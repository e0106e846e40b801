#!/usr/bin/env bash
# One question to a running server, with curl: chat.sh "What is 7 plus 5?" [URL]
set -euo pipefail
question=${1:?usage: chat.sh QUESTION [URL]}
url=${2:-http://127.0.0.1:8080}
body=$(printf '{"messages": [{"role": "user", "content": "%s"}], "temperature": 0}' "${question//[\"\\]/ }")
curl -sS --fail-with-body "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$body"
echo
