#!/bin/bash
# Run Claude Code, any version from 1.0.86 on, on a task, by hand or in a container.
#
#   TASK_DIR          the working directory
#   TASK_DESCRIPTION  a file with the task
#   PROXY_URL         the address of the model (optional; else ANTHROPIC_BASE_URL, or Anthropic's)
#   METRICS_FILE      the file to write usage to ($TASK_DIR/.thunderdome-metrics.json)
#   CLAUDE_MODEL      the model (optional)
#   YB_CONTROL        the control server, if it is not `python3 -m youbencha.control` (optional)
#
# Exit code: 0 completed, 2 bad input, else failed.
set -uo pipefail

[[ -d "${TASK_DIR:-}" ]] || { echo "Task directory not found: ${TASK_DIR:-}" >&2; exit 2; }
[[ -f "${TASK_DESCRIPTION:-}" ]] || { echo "Task file not found: ${TASK_DESCRIPTION:-}" >&2; exit 2; }
command -v claude >/dev/null || { echo "Claude Code is not on PATH" >&2; exit 2; }

task=$(realpath -- "$TASK_DESCRIPTION")
metrics=${METRICS_FILE:-$(realpath -- "$TASK_DIR")/.thunderdome-metrics.json}
[[ "$metrics" = /* ]] || metrics=$PWD/$metrics
[[ -z "${PROXY_URL:-}" ]] || export ANTHROPIC_BASE_URL=$PROXY_URL
control=(python3 -P -m youbencha.control)
[[ -z "${YB_CONTROL:-}" ]] || control=("$YB_CONTROL")
cd -- "$TASK_DIR" || exit 2

# Root may skip the CLI's permission prompts only with IS_SANDBOX=1; otherwise the control server answers them.
flags=(-p --input-format stream-json --output-format stream-json --verbose)
if [[ $(id -u) -ne 0 || "${IS_SANDBOX:-}" = 1 ]]; then
  flags+=(--dangerously-skip-permissions)
else
  flags+=(--permission-prompt-tool stdio)
fi
[[ -z "${CLAUDE_MODEL:-}" ]] || flags+=(--model "$CLAUDE_MODEL")

# 1.0.124 to 2.1.120 connect to a WebSocket; the others use standard input and output.
supports_websocket() {
  local version=$1
  [[ $(printf '%s\n' 1.0.124 "$version" 2.1.120 | sort -V | sed -n 2p) = "$version" ]]
}
version=$(claude --version </dev/null | sed -n 's/^\([0-9][0-9.]*\) .*/\1/p')
[[ -n "$version" ]] || { echo "claude --version printed no version" >&2; exit 1; }
if ! supports_websocket "$version"; then
  exec "${control[@]}" --stdio --task-file "$task" --metrics-file "$metrics" -- claude "${flags[@]}"
fi

server='' agent=''
# shellcheck disable=SC2329 # called by the trap
cleanup() {
  trap - EXIT INT TERM
  # The server first: before it exits, it asks the agent for its usage.
  [[ -z "$server" ]] || kill "$server" 2>/dev/null
  [[ -z "$server" ]] || wait "$server" 2>/dev/null
  [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
  [[ -z "$agent" ]] || wait "$agent" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The server prints its URL once it listens, on a free port.
coproc SERVER { exec "${control[@]}" --port 0 --task-file "$task" --metrics-file "$metrics" --debug; }
server=$SERVER_PID
exec {server_output}<&"${SERVER[0]}"
read -r listening <&"$server_output" || { wait "$server"; exit $?; }
claude "${flags[@]}" --sdk-url "${listening##* }" </dev/null &
agent=$!

# Either the agent exits without a result, or the server has the result. Not all of these versions exit after their
# result: `cleanup` ends the agent.
code=0
wait -n "$server" "$agent"
if ! kill -0 "$agent" 2>/dev/null; then
  wait "$agent"
  code=$?
  kill "$server" 2>/dev/null
fi
wait "$server" && exit 0
exit $((code == 0 ? 1 : code))
