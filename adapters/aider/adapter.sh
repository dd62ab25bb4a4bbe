#!/bin/bash
# Run Aider on a task, by hand or in a container. Its own files are not left in the workspace.
#
#   TASK_DIR          the working directory: a git repository
#   TASK_DESCRIPTION  a file with the task
#   PROXY_URL         the address of the model (optional)
#   AIDER_MODEL       the model (anthropic/claude-sonnet-4-5)
#   METRICS_FILE      the file to write usage to ($TASK_DIR/.thunderdome-metrics.json)
#
# Exit code: 0 completed, 2 bad input, else failed. Aider itself also exits with 0 after a wrong key or a refused call;
# its event log shows whether the model answered. Exact token counts are in the gateway's ledger.
set -uo pipefail

[[ -d "${TASK_DIR:-}" ]] || { echo "Task directory not found: ${TASK_DIR:-}" >&2; exit 2; }
[[ -f "${TASK_DESCRIPTION:-}" ]] || { echo "Task file not found: ${TASK_DESCRIPTION:-}" >&2; exit 2; }
command -v aider >/dev/null || { echo "Aider is not on PATH" >&2; exit 2; }

task=$(realpath -- "$TASK_DESCRIPTION")
metrics=${METRICS_FILE:-$(realpath -- "$TASK_DIR")/.thunderdome-metrics.json}
[[ "$metrics" = /* ]] || metrics=$PWD/$metrics
scratch=$(mktemp -d)
events=$scratch/events.jsonl
: >"$events"
agent='' ended=interrupted

# An answered call has a `message_send_starting` and a `message_send` event; an unanswered one only the former.
count() { grep -c "\"event\": \"$1\"" "$events"; }
sum() { # over the calls that have this field; null if none has
  awk -v key="\"$1\": " '
    /"event": "message_send"/ && (at = index($0, key)) { known = 1; total += substr($0, at + length(key)) + 0 }
    END { print known ? total : "null" }' "$events"
}
# Always written. The counts are Aider's own, and not exact; unknown is null, never 0.
write_metrics() {
  local turns
  turns=$(count message_send)
  [[ "$turns" -gt 0 ]] || turns=null
  rm -f -- "$metrics" # it may be a link
  printf '{"input_tokens": %s, "output_tokens": %s, "turns": %s, "ended": "%s", "partial": true}\n' \
    "$(sum prompt_tokens)" "$(sum completion_tokens)" "$turns" "$ended" >"$metrics"
}
# shellcheck disable=SC2329 # called by the trap
cleanup() {
  trap - EXIT INT TERM
  [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
  write_metrics
  rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd -- "$TASK_DIR" || exit 2

if [[ -n "${PROXY_URL:-}" ]]; then
  export ANTHROPIC_BASE_URL=$PROXY_URL ANTHROPIC_API_BASE=$PROXY_URL
fi
export LITELLM_LOCAL_MODEL_COST_MAP=True # otherwise it downloads prices

aider \
  --yes-always --no-auto-commits --message-file "$task" --model "${AIDER_MODEL:-anthropic/claude-sonnet-4-5}" \
  --no-check-update --no-show-release-notes --no-show-model-warnings --no-gitignore --no-pretty \
  --no-suggest-shell-commands --no-detect-urls --map-tokens 0 \
  --no-analytics --analytics-log "$events" --chat-history-file "$scratch/chat.md" \
  --input-history-file "$scratch/input" --llm-history-file "$scratch/llm" </dev/null &
agent=$!
wait "$agent"
code=$?
agent='' ended=failed

[[ "$code" -eq 0 ]] || exit "$code"
answered=$(count message_send)
[[ "$answered" -gt 0 && "$answered" -ge $(count message_send_starting) ]] ||
  { echo "Aider got no answer from its model" >&2; exit 1; }
ended=completed
