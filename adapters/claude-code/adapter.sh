#!/bin/bash
# Claude Code as an agent, any version from 1.0.86 on: by hand, or in a container.
#
#   TASK_DIR          where it works
#   TASK_DESCRIPTION  a file with the task
#   PROXY_URL         where its model is (optional; else ANTHROPIC_BASE_URL, or Anthropic's own)
#   METRICS_FILE      where to write what it spent ($TASK_DIR/.thunderdome-metrics.json)
#   CLAUDE_MODEL      which model (optional)
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

# The control server is asked before every tool, whatever the mode. Root may only bypass the CLI's own questions where
# it says that it is in a sandbox; without, the server answers those, too.
flags=(-p --input-format stream-json --output-format stream-json --verbose)
if [[ $(id -u) -ne 0 || "${IS_SANDBOX:-}" = 1 ]]; then
  flags+=(--dangerously-skip-permissions)
else
  flags+=(--permission-prompt-tool stdio)
fi
[[ -z "${CLAUDE_MODEL:-}" ]] || flags+=(--model "$CLAUDE_MODEL")

# 1.0.124 to 2.1.120 connect to a WebSocket; the others are talked to by standard input and output.
takes_websocket() {
  local version=$1
  [[ $(printf '%s\n' 1.0.124 "$version" 2.1.120 | sort -V | sed -n 2p) = "$version" ]]
}
version=$(claude --version </dev/null | sed -n 's/^\([0-9][0-9.]*\) .*/\1/p')
[[ -n "$version" ]] || { echo "claude --version names no version" >&2; exit 1; }
if ! takes_websocket "$version"; then
  exec "${control[@]}" --stdio --task-file "$task" --metrics-file "$metrics" -- claude "${flags[@]}"
fi

server='' agent=''
# shellcheck disable=SC2329 # the trap does
cleanup() {
  trap - EXIT INT TERM
  # The server first: told to end, it asks the agent what it spent.
  [[ -z "$server" ]] || kill "$server" 2>/dev/null
  [[ -z "$server" ]] || wait "$server" 2>/dev/null
  [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
  [[ -z "$agent" ]] || wait "$agent" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The server tells when it listens, and where: nobody sleeps for luck, and no port is fought over.
coproc SERVER { exec "${control[@]}" --port 0 --task-file "$task" --metrics-file "$metrics" --debug; }
server=$SERVER_PID
exec {told}<&"${SERVER[0]}"
read -r listening <&"$told" || { wait "$server"; exit $?; }
claude "${flags[@]}" --sdk-url "${listening##* }" </dev/null &
agent=$!

# Whoever is first: an agent that gives up without a word, or the server that has its result. Not all of these versions
# leave by themselves then: `cleanup` ends the agent.
code=0
wait -n "$server" "$agent"
if ! kill -0 "$agent" 2>/dev/null; then
  wait "$agent"
  code=$?
  kill "$server" 2>/dev/null
fi
wait "$server" && exit 0
exit $((code == 0 ? 1 : code))
