"""Arena files of the original Thunderdome: recognise them, and make the original's defaults explicit.

`translate` is a pure function of plain data. The result is an arena like any other, and is validated as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from youbencha.errors import Problem
from youbencha.spec.arena import NAME_PATTERN, repo_key
from youbencha.spec.compat import Translation

INSTALL_CMD = "npm install"
VALIDATION_IMAGE = "node:20"
VALIDATION_TAG = "v1-validation"

_TOP_KEYS = {"orchestrators", "tasks", "trials", "proxy", "network", "secrets", "results"}
_ORCHESTRATOR_KEYS = {"name", "adapter", "image", "env"}
_TASK_KEYS = {
    *("id", "name", "repo", "tag", "reference_tag", "validation_tag", "category", "greenfield", "validation_image"),
    *("install_cmd", "test_cmd", "build_cmd", "lint_cmd", "time_limit_minutes", "weights", "green_weights"),
}
_WEIGHTS = ("tests", "static_analysis")
_GREEN_WEIGHTS = ("hidden_tests", "agent_tests", "build_lint", "code_metrics")

_HIDDEN_CONFIG = "validation-vitest.config.ts"
_COVERAGE = (
    """npm install --no-save "@vitest/coverage-v8@$(node -p 'require(`vitest/package.json`).version')" && """
    "npx vitest run --coverage.enabled --coverage.provider=v8 --coverage.reporter=json-summary"
)
_GREENFIELD_TESTS = (
    f"if [ -f {_HIDDEN_CONFIG} ]; then npx vitest run --config {_HIDDEN_CONFIG}; "
    f"else ({{test_cmd}}); tested=$?; [ ! -d node_modules/vitest ] || ({_COVERAGE}) >/dev/null 2>&1; exit $tested; fi"
)
"""The hidden tests have their own configuration, and the original always measured coverage."""


def is_original(data: object) -> bool:
    """Whether a file was written for the original: it has `proxy`, or only keys that the original knows."""
    if not isinstance(data, Mapping):
        return False
    if "proxy" in data:
        return True
    orchestrators, tasks = _mappings(data.get("orchestrators")), _mappings(data.get("tasks"))
    return (
        "trials" in data
        and data.keys() <= _TOP_KEYS
        and bool(orchestrators)
        and all({"adapter", "image"} <= entry.keys() <= _ORCHESTRATOR_KEYS for entry in orchestrators)
        and all(task.keys() <= _TASK_KEYS for task in tasks)
    )


def translate(data: Any) -> Translation:
    """Return a file of the original with its defaults made explicit. Malformed parts and other files do not change."""
    if not is_original(data):
        return Translation(data)
    result = dict(data)
    translation = Translation(result)
    notices = translation.notices
    if "proxy" in data and "gateway" in data:
        message = "cannot be combined with `gateway`"
        translation.refusals.append(Problem(("proxy",), message, "remove one of the two"))
    if (proxy := result.pop("proxy", None)) is not None:
        result |= _gateway(data, proxy, notices) if isinstance(proxy, Mapping) else {"gateway": proxy}
        translation.moved |= {("gateway",): ("proxy",), ("gateway", "type"): ("proxy", "gateway")}
    defaults: Counter[str] = Counter()
    in_container = _sandbox_type(data.get("sandbox")) != "local"
    if in_container and "validation" not in data:
        result["validation"] = {"network": "open"}
        defaults["validation: {network: open}"] = 1
    if isinstance(tasks := data.get("tasks"), list):
        result["tasks"] = _tasks(data, tasks, notices, defaults, in_container=in_container)
    if defaults:
        used = ", ".join(f"`{text}`{f' ({number} tasks)' if number > 1 else ''}" for text, number in defaults.items())
        hint = "set these keys to change that; `install_cmd: null` installs nothing"
        notices.append(Problem(("tasks",), f"the original's defaults apply: {used}", hint))
    return translation


def _gateway(data: Mapping[str, Any], proxy: Mapping[str, Any], notices: list[Problem]) -> dict[str, Any]:
    """Return the gateway and, for `gateway: none`, the settings for containers with full network access."""
    spec = {key: value for key, value in proxy.items() if key not in ("gateway", "log_dir", "judge_model")}
    for key in ("log_dir", "judge_model"):
        if key in proxy:
            hint = "each attempt has its own ledger, artifacts/gateway-ledger.jsonl" if key == "log_dir" else None
            notices.append(Problem(("proxy", key), "has no effect", hint))
    if proxy.get("gateway") not in ("", "none"):
        return {"gateway": {"type": proxy.get("gateway", "auto"), **spec}}
    spec["type"] = "none"
    if spec.pop("budget_per_trial_usd", None) is not None:
        message = "is not enforced, because there is no gateway"
        notices.append(Problem(("proxy", "budget_per_trial_usd"), message, "`gateway: builtin` enforces it"))
    if _sandbox_type(data.get("sandbox")) is not None:
        return {"gateway": spec}
    message = "containers have full network access, and get the keys in `env`"
    notices.append(
        Problem(("proxy",), message, "with `gateway: builtin`, they get a virtual key, and reach only models")
    )
    if isinstance(network := data.get("network"), Mapping) and network.get("allowlist"):
        notices.append(Problem(("network", "allowlist"), "is not enforced, because there is no gateway"))
    return {"gateway": spec, "network": {}, "sandbox": {"type": "docker", "network": "open"}}


def _tasks(
    data: Mapping[str, Any], tasks: list[Any], notices: list[Problem], used: Counter[str], *, in_container: bool
) -> list[Any]:
    """Return the tasks with their defaults, each named after its repository, as in the original's results."""
    repos = Counter(_repo_name(task).casefold() for task in _mappings(tasks))
    result: list[Any] = []
    for index, task in enumerate(tasks):
        if not isinstance(task, Mapping):
            result.append(task)
            continue
        kept = _without_unused(task, index, notices)
        is_shared = "shared" in (_mode(data), _mode(task))
        defaults = dict(_defaults(kept, image=in_container and not is_shared))
        used.update(f"{key}: {value}" for key, value in defaults.items())
        result.append({**kept, **defaults, **_tests(kept), **_names(kept, repos)})
    return result


def _without_unused(task: Mapping[str, Any], index: int, notices: list[Problem]) -> dict[str, Any]:
    """Return a task without keys that had no effect in the original, and with all weights: missing ones were 0."""
    used_key, unused_key = ("green_weights", "weights") if task.get("greenfield") else ("weights", "green_weights")
    unused = [unused_key] if unused_key in task else []
    if isinstance(task.get("rubric"), list):
        unused.append("rubric")
    notices += (Problem(("tasks", index, key), "has no effect") for key in unused)
    kept = {key: value for key, value in task.items() if key not in unused}
    weights = kept.get(used_key)
    if isinstance(weights, Mapping):
        names = _GREEN_WEIGHTS if task.get("greenfield") else _WEIGHTS
        complete = {**dict.fromkeys(names, 0.0), **weights}
        if "rubric" not in kept:
            complete.pop("rubric", None)
        if any(complete.values()):
            kept[used_key] = complete
        else:
            del kept[used_key]
    return kept


def _defaults(task: Mapping[str, Any], *, image: bool) -> Iterator[tuple[str, Any]]:
    """Yield the original's defaults for keys that are missing or empty."""
    if task.get("install_cmd", "") == "":
        yield "install_cmd", INSTALL_CMD
    if image and task.get("validation_image", "") == "":
        yield "validation_image", VALIDATION_IMAGE
    if task.get("greenfield") and task.get("validation_tag", "") == "":
        yield "validation_tag", VALIDATION_TAG
    if task.get("time_limit_minutes", 0) == 0:
        yield "time_limit_minutes", _time_limit(str(task.get("category") or ""))


def _time_limit(category: str) -> int:
    if category.startswith("marathon"):
        return 60
    return 30 if "complex" in category else 10


def _tests(task: Mapping[str, Any]) -> dict[str, str]:
    command = task.get("test_cmd") or "false"
    is_usual = task.get("greenfield") is True and isinstance(command, str)
    return {"test_cmd": _GREENFIELD_TESTS.format(test_cmd=command)} if is_usual else {}


def _names(task: Mapping[str, Any], repos: Mapping[str, int]) -> dict[str, Any]:
    """Return the task's name in results, which is that of its repository, with its `id` as an alias for `--task`."""
    given, name = task.get("id"), _repo_name(task)
    if not isinstance(given, str) or given == name or repos[name.casefold()] != 1 or not NAME_PATTERN.fullmatch(name):
        return {}
    return {"id": name, "aliases": [given]}


def _repo_name(task: Mapping[str, Any]) -> str:
    repo = task.get("repo")
    return repo_key(repo.strip()) if isinstance(repo, str) else ""


def _sandbox_type(sandbox: object) -> object:
    return sandbox.get("type", "local") if isinstance(sandbox, Mapping) else sandbox


def _mode(data: Mapping[str, Any]) -> object:
    validation = data.get("validation")
    return validation.get("mode") if isinstance(validation, Mapping) else None


def _mappings(entries: object) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, Iterable) else []
