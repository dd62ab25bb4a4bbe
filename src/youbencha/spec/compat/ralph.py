"""Keys of Ralph: flat ones of version 1 are moved to their places, and those that have no effect here are taken out."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from youbencha.errors import KeyPath, Problem
from youbencha.spec.compat import ANY, Data, Translation, drop, find
from youbencha.spec.problems import unknown_key

MOVED_KEYS: Mapping[KeyPath, KeyPath] = {
    ("agent",): ("cli", "backend"),
    ("agent_priority",): ("cli", "agent_priority"),
    ("cli", "custom_command"): ("cli", "command"),
    ("prompt",): ("event_loop", "prompt"),
    ("prompt_file",): ("event_loop", "prompt_file"),
    ("completion_promise",): ("event_loop", "completion_promise"),
    ("max_iterations",): ("event_loop", "max_iterations"),
    ("max_runtime",): ("event_loop", "max_runtime_seconds"),
    ("max_runtime_seconds",): ("event_loop", "max_runtime_seconds"),
    ("max_cost",): ("event_loop", "max_cost_usd"),
    ("max_cost_usd",): ("event_loop", "max_cost_usd"),
    ("max_consecutive_failures",): ("event_loop", "max_consecutive_failures"),
    ("checkpoint_interval",): ("event_loop", "checkpoint_interval"),
    ("idle_timeout_secs",): ("event_loop", "idle_timeout_secs"),
    ("retry_delay",): ("event_loop", "retry", "delay_seconds"),
    ("starting_event",): ("event_loop", "starting_event"),
    ("starting_hat",): ("event_loop", "starting_hat"),
    ("project",): ("core",),
    ("backpressure", "gates"): ("gates",),
    ("_suppress_warnings",): ("suppress_warnings",),
    ("hats", ANY, "args"): ("hats", ANY, "backend_args"),
}
"""Older keys, and where their values belong."""

WITHOUT_EFFECT: Mapping[KeyPath, str] = {
    ("preset",): "give built-in hats with `ralph run -H builtin:NAME`",
    ("verbose",): "use `ralph run -v`",
    ("archive_prompts",): "not supported yet",
    ("enable_metrics",): "`summary.json` has the figures",
    ("max_tokens",): "see cli.config",
    ("cli", "pty_interactive"): "the agent works alone; see `ralph guide`",
    ("cli", "idle_timeout_secs"): "Ralph uses it for interactive sessions only; see event_loop.idle_timeout_secs",
    ("event_loop", "mutation_score_warn_threshold"): "write a gate that checks it",
    ("core", "workspace_root"): "start the loop in that directory",
    ("memories", "path"): "memories are in .ralph/agent/memories.md",
    ("tasks", "path"): "tasks are in .ralph/agent/tasks.jsonl",
    ("adapters", ANY, "timeout"): "see event_loop.idle_timeout_secs",
    ("adapters", ANY, "args"): "see cli.args",
    ("adapters", ANY, "env"): "see cli.env",
    ("adapters", ANY, "tool_permissions"): "see cli.config, or a hat's disallowed_tools",
    ("tui", "prefix_key"): "the screen has no prefix key",
    ("skills", "dirs"): "Claude Code finds its own skills; others are not supported yet",
    ("skills", "overrides"): "not supported yet",
    ("features", "parallel"): "for another loop in the same directory, use `ralph run --worktree`",
    ("features", "loop_naming", "format"): "loops are named by their time",
    ("features", "loop_naming", "max_length"): "loops are named by their time",
    ("features", "preflight", "enabled"): "run `ralph doctor` before the loop",
}
"""Keys that are ignored, with a hint for the warning. There is none if the key is set to nothing (false, 0, …)."""

UNSUPPORTED: Mapping[KeyPath, tuple[tuple[object, ...], str]] = {
    ("cli", "default_mode"): (("autonomous",), "interactive is not supported yet"),
    ("event_loop", "persistent"): ((False, None), "is not supported yet"),
    ("hats", ANY, "aggregate"): (({}, None), "is not supported yet"),
    ("hats", ANY, "concurrency"): ((1,), "is not supported yet: hats run one after another"),
    ("hooks", "enabled"): ((False, None), "is not supported yet"),
    ("features", "auto_merge"): ((False, None), "is not supported yet"),
    ("RObot", "enabled"): ((False, None), "is not supported yet"),
}
"""Keys that are refused, unless they have one of these values."""

IGNORED: tuple[KeyPath, ...] = (
    ("hooks", "defaults"),
    ("hooks", "events"),
    ("skills", "enabled"),
    ("features", "preflight", "strict"),
    ("features", "preflight", "skip"),
    ("RObot", "mode"),
    ("RObot", "timeout_seconds"),
    ("RObot", "checkin_interval_seconds"),
    ("RObot", "telegram"),
)
"""Keys that only matter for what is refused or has no effect anyway."""

SECTIONS = (
    ("features", "preflight"),
    ("features", "loop_naming"),
    ("features",),
    ("hooks",),
    ("skills",),
    ("tui",),
    ("RObot",),
    ("backpressure",),
)
"""Mappings with no other keys than those above."""

ALL_KEYS: tuple[KeyPath, ...] = (*MOVED_KEYS, *WITHOUT_EFFECT, *UNSUPPORTED, *IGNORED)


def translate(given: Any) -> Translation:
    """Return a `ralph.yml` with every key at its place, and without keys that only hold anchors (`_name`)."""
    if not isinstance(given, Mapping):
        return Translation(given)
    data: Data = copy.deepcopy(dict(given))
    result = Translation(data)
    for pattern, place in MOVED_KEYS.items():
        for path in find(data, pattern):
            result.move(path, _fill(place, path), drop(data, path))
    for key in [key for key in data if isinstance(key, str) and key.startswith("_")]:
        del data[key]
    for pattern, hint in WITHOUT_EFFECT.items():
        for path in find(data, pattern):
            if drop(data, path):
                result.notices.append(Problem(path, "has no effect", hint))
    for pattern, (harmless, message) in UNSUPPORTED.items():
        for path in find(data, pattern):
            if drop(data, path) not in harmless:
                result.refusals.append(Problem(path, message))
    for pattern in IGNORED:
        for path in find(data, pattern):
            drop(data, path)
    for path in SECTIONS:
        _close_section(result, path)
    return result


def _fill(place: KeyPath, path: KeyPath) -> KeyPath:
    """Replace each `*` by the key at the same index of the path."""
    return tuple(path[index] if key == ANY else key for index, key in enumerate(place))


def _close_section(result: Translation, path: KeyPath) -> None:
    """Take out a section whose known keys are gone, and refuse what is left in it."""
    if not any(find(result.data, path)):
        return
    left = drop(result.data, path)
    if left is not None and not isinstance(left, Mapping):
        result.refusals.append(Problem(path, "must be a mapping"))
    else:
        depth = len(path)
        known = sorted({str(place[depth]) for place in ALL_KEYS if len(place) > depth and place[:depth] == path})
        for key in left or ():
            hint = unknown_key(str(key), known).hint
            result.refusals.append(Problem((*path, key), "unknown key", hint, kind="unknown_key"))
