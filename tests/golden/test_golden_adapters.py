"""What each adapter starts its CLI with: arguments, environment, standard input, and the files that they name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from golden_files import KEYS, Golden, GoldenBench, tidy

from systems import PLAIN_PYTHON
from youbencha.adapters import adapter_names

CLI = Path(__file__).with_name("golden_cli.py")
NEWEST = "2.1.325"
"""Of Claude Code, as far as its flags are concerned."""
VERSIONS = {
    "aider": "aider 0.86.2",
    "claude-code": f"{NEWEST} (Claude Code)",
    "codex": "codex-cli 0.166.0",
    "command": "",
    "copilot-cli": "1.0.102",
    "gemini-cli": "0.61.0",
    "opencode": "1.18.33",
}
REVIEWER = "---\nname: reviewer\ndescription: Reads code\ntools: Read, Grep\n---\nYou review.\n"
AROUND = {
    "DATABASE_PASSWORD": "of-the-harness", "AWS_SECRET_ACCESS_KEY": "of-the-harness", "HTTPS_PROXY": "http://proxy:1",
    "CLAUDECODE": "1", "LC_ALL": "C.UTF-8", "TERM": "dumb", "GH_TOKEN": "gho_golden0123456789",
}  # fmt: skip
"""The harness's environment: some of it is for an agent, most of it is not."""

Case = Mapping[str, Any]
GATEWAY: Case = {"gateway": "builtin"}
LONG = "Fix the tax. " * 1000

CLAUDE: Mapping[str, Case] = {
    "bare": {},
    "through the gateway": GATEWAY,
    "text": {"config": {"output_format": "text"}},
    "stdio": {"config": {"transport": "stdio"}, **GATEWAY},
    "prompt file": {"config": {"prompt": None, "prompt_file": "task.md"}},
    "prompt by a file": {"config": {"prompt_delivery": "file"}},
    "long prompt": {"config": {"prompt": LONG}},
    "all options": {
        "agent_name": "reviewer",
        "model": "claude-golden",
        "config": {
            "append_system_prompt": "Be brief.", "system_prompt": "You are careful.", "permission_mode": "acceptEdits",
            "allowed_tools": ["Read", "Bash(git log:*)"], "disallowed_tools": ["WebFetch"], "max_tokens": 4096,
            "temperature": 0.2, "max_turns": 20, "effort": "high", "mcp_config": '{"mcpServers": {}}',
            "include_partial_messages": True, "setting_sources": ["project"],
            "extra_args": ["--fallback-model", "haiku"],
        },
        **GATEWAY,
    },
    "2.0.62: bare": {"cli": "2.0.62 (Claude Code)"},
    "2.0.62: through the gateway": {"cli": "2.0.62 (Claude Code)", **GATEWAY},
    "2.0.62: websocket": {"cli": "2.0.62 (Claude Code)", "config": {"transport": "websocket"}},
    "1.0.128: bare": {"cli": "1.0.128 (Claude Code)"},
    "1.0.128: text": {"cli": "1.0.128 (Claude Code)", "config": {"output_format": "text"}},
}  # fmt: skip
COMMAND: Mapping[str, Case] = {
    "bare": {},
    "through the gateway": GATEWAY,
    "placeholders": {
        "model": "any-model",
        "agent_name": "reviewer",
        "config": {"args": ["{prompt}", "{prompt_file}", "{model}", "{agent_name}", "{workspace}", "{config_dir}"]},
    },
    "by stdin": {"config": {"prompt_by": "stdin"}},
    "by a file": {"config": {"prompt_by": "file"}},
    "by the environment": {"config": {"prompt_by": "environment"}},
    "shell": {"config": {"shell": True, "command": 'exec "$CLI" "$1" $AGAIN'}, "env": {"AGAIN": "a b"}},
}
AGENTS: Mapping[str, Mapping[str, Case]] = {
    "aider": {
        "bare": {"model": "anthropic/claude-golden"},
        "through the gateway": {"model": "openai/gpt-golden", **GATEWAY},
        "all options": {
            "model": "gemini/gemini-golden",
            "config": {
                "edit_format": "diff", "architect": True, "weak_model": "gemini/weak", "editor_model": "gemini/editor",
                "files": ["a.py"], "read_only": ["README.md"], "map_tokens": 0, "auto_lint": False,
                "lint_cmd": ["python: ruff"], "test_cmd": "make test", "auto_commits": True, "reasoning_effort": "low",
                "thinking_tokens": "8k", "cache_prompts": True, "stream": True, "extra_args": ["--verbose"],
            },
        },
    },
    "claude-code": CLAUDE,
    "codex": {
        "bare": {},
        "through the gateway": {"model": "gpt-golden", **GATEWAY},
        "all options": {
            "model": "gpt-golden",
            "env": {"OPENAI_BASE_URL": "https://models.example.org/v1", "OPENAI_API_KEY": "sk-golden-own-01234567"},
            "config": {
                "sandbox": "workspace-write", "reasoning_effort": "high", "profile": "mine",
                "extra_args": ["-c", "x=1"],
            },
        },
    },
    "command": COMMAND,
    "copilot-cli": {
        "bare": {},
        "through the gateway": {
            "model": "claude-golden", "env": {"COPILOT_PROVIDER_TYPE": "anthropic"}, **GATEWAY,
        },
        "all options": {
            "model": "gpt-golden",
            "agent_name": "reviewer",
            "config": {
                "reasoning_effort": "high", "log_level": "debug", "allow_all_tools": False, "allow_all_paths": False,
                "max_ai_credits": 30, "extra_args": ["--banner"],
            },
        },
        "long prompt": {"config": {"prompt": LONG * 11}},
    },
    "gemini-cli": {
        "bare": {},
        "through the gateway": {"model": "gemini-golden", **GATEWAY},
        "all options": {"model": "gemini-golden", "config": {"approval_mode": "plan", "extra_args": ["--debug"]}},
    },
    "opencode": {
        "bare": {},
        "through the gateway": {"model": "openai/gpt-golden", **GATEWAY},
        "all options": {
            "model": "golden",
            "agent_name": "reviewer",
            "env": {"OPENAI_API_KEY": "sk-golden-own-01234567"},
            "config": {
                "provider": "openai", "base_url": "https://models.example.org/v1", "variant": "high",
                "auto_approve": False, "extra_args": ["--share"],
            },
        },
    },
}  # fmt: skip


def test_every_adapter_is_tested() -> None:
    assert set(AGENTS) == set(VERSIONS) == set(adapter_names())


@pytest.mark.parametrize("agent", AGENTS)
def test_started_with(agent: str, golden: Golden, bench: GoldenBench) -> None:
    bench.setenv(**KEYS, **AROUND)
    bench.make_repository({
        "README.md": "# Shop\n", "task.md": "From a file.\n", ".claude/agents/reviewer.md": REVIEWER,
        ".github/agents/reviewer.agent.md": REVIEWER,
    })  # fmt: skip
    started = {name: start(bench, agent, number, case) for number, (name, case) in enumerate(AGENTS[agent].items())}
    golden.check_json(f"started/{agent}.json", with_common_env(started))


def with_common_env(started: Mapping[str, dict[str, Any]]) -> dict[str, object]:
    """With what all environments have in common written once."""
    first, *others = [set(each["env"].items()) for each in started.values()]
    common = first.intersection(*others)
    cases = {name: {**each, "env": dict(set(each["env"].items()) - common)} for name, each in started.items()}
    return {"env in every case": dict(common), "cases": cases}


def start(bench: GoldenBench, agent: str, number: int, case: Case) -> dict[str, Any]:
    cli = installed(bench.root / f"cli-{number}", case.get("cli", VERSIONS[agent]))
    chosen = {"command": [str(cli)]} if agent == "command" else {"executable": str(cli)}
    written = {"prompt": "Fix the tax.", **chosen, **case.get("config", {})}
    config = {key: value for key, value in written.items() if value is not None}
    env = {"IS_SANDBOX": "1", "TASK": "golden", "CLI": str(cli), **case.get("env", {})}
    named = {key: case[key] for key in ("model", "agent_name") if key in case}
    directory = bench.run(
        agent={"type": agent, "config": config, "env": env, **named}, gateway=case.get("gateway", "none")
    )
    started = json.loads((cli.parent / "started.json").read_text())
    names = {
        str(directory): "run",
        str(cli.parent): "cli",
        str(bench.root): "root",
        LONG: "long prompt",
        os.environ["PATH"]: "path",
    }
    return tidy(started, names, variable=("YOUBENCHA_RUN",))


def installed(directory: Path, version: str) -> Path:
    directory.mkdir()
    program = directory / "cli"
    # Without the environment and site packages: the adapter of Aider brings a `sitecustomize` of its own.
    program.write_text(f"#!{PLAIN_PYTHON} -ES\n{CLI.read_text()}")
    program.chmod(0o755)
    (directory / "version").write_text(version)
    return program
