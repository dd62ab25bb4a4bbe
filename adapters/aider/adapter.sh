#!/bin/bash
# Aider as an agent: by hand, or in a container. It leaves nothing in the workspace but its work.
#
#   TASK_DIR          where it works: a git repository
#   TASK_DESCRIPTION  a file with the task
#   PROXY_URL         where its model is (optional)
#   AIDER_MODEL       which model (anthropic/claude-sonnet-4-5)
#   METRICS_FILE      where to write what it spent ($TASK_DIR/.thunderdome-metrics.json)
#
# Exit code: 0 completed, 2 bad input, else failed. Aider itself exits with 0 whatever happens (a wrong key, a refused
# call): whether the model answered, its own event log tells. Exact tokens are in the ledger of the gateway.
set -uo pipefail

[[ -d "${TASK_DIR:-}" ]] || { echo "Task directory not found: ${TASK_DIR:-}" >&2; exit 2; }
[[ -f "${TASK_DESCRIPTION:-}" ]] || { echo "Task file not found: ${TASK_DESCRIPTION:-}" >&2; exit 2; }
command -v aider >/dev/null || { echo "Aider is not on PATH" >&2; exit 2; }

task=$(realpath -- "$TASK_DESCRIPTION")
metrics=${METRICS_FILE:-$(realpath -- "$TASK_DIR")/.thunderdome-metrics.json}
[[ "$metrics" = /* ]] || metrics=$PWD/$metrics
own=$(mktemp -d)
events=$own/events.jsonl
: >"$events"
agent='' ended=interrupted

# Each call that was answered is one `message_send`; one that was not has only its `message_send_starting`.
count() { grep -c "\"event\": \"$1\"" "$events"; }
sum() { # over the calls that say it; null where none does
  awk -v key="\"$1\": " '
    /"event": "message_send"/ && (at = index($0, key)) { known = 1; total += substr($0, at + length(key)) + 0 }
    END { print known ? total : "null" }' "$events"
}
# Whatever the end. Counted by Aider itself, and so not to the last token; what it did not say is null, never 0.
write_metrics() {
  local turns
  turns=$(count message_send)
  [[ "$turns" -gt 0 ]] || turns=null
  rm -f -- "$metrics" # whatever it leads to
  printf '{"input_tokens": %s, "output_tokens": %s, "turns": %s, "ended": "%s", "partial": true}\n' \
    "$(sum prompt_tokens)" "$(sum completion_tokens)" "$turns" "$ended" >"$metrics"
}
# shellcheck disable=SC2329 # the trap does
cleanup() {
  trap - EXIT INT TERM
  [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
  write_metrics
  rm -rf -- "$own"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd -- "$TASK_DIR" || exit 2

if [[ -n "${PROXY_URL:-}" ]]; then
  export ANTHROPIC_BASE_URL=$PROXY_URL ANTHROPIC_API_BASE=$PROXY_URL
fi
export LITELLM_LOCAL_MODEL_COST_MAP=True # else it asks the internet for prices

aider \
  --yes-always --no-auto-commits --message-file "$task" --model "${AIDER_MODEL:-anthropic/claude-sonnet-4-5}" \
  --no-check-update --no-show-release-notes --no-show-model-warnings --no-gitignore --no-pretty \
  --no-suggest-shell-commands --no-detect-urls --map-tokens 0 \
  --no-analytics --analytics-log "$events" --chat-history-file "$own/chat.md" \
  --input-history-file "$own/input" --llm-history-file "$own/llm" </dev/null &
agent=$!
wait "$agent"
code=$?
agent='' ended=failed

[[ "$code" -eq 0 ]] || exit "$code"
answered=$(count message_send)
[[ "$answered" -gt 0 && "$answered" -ge $(count message_send_starting) ]] ||
  { echo "Aider got no answer from its model" >&2; exit 1; }
ended=completed
