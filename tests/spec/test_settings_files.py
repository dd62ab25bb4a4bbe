"""Settings from their files: which are found, which win, and where their relative paths start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.errors import ConfigError
from youbencha.spec.settings import NAMES, Settings, find_settings, load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def test_without_a_file_the_defaults_hold(project: Path, home: Path) -> None:
    loaded = load_settings(project, home)
    assert loaded.settings == Settings()
    assert (loaded.files, loaded.origin, loaded.warnings) == ((), {}, ())
    assert loaded.workspace_dir == project / ".youbencha-workspace"
    assert loaded.output_dir == project / ".youbencha-eval"
    assert loaded.cache_dir is None


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_found_in_both_places(name: str, project: Path, home: Path) -> None:
    ours = write(project / name, '{"timeout_ms": 7}')
    mine = write(home / name, '{"log_level": "debug"}')
    loaded = load_settings(project, home)
    assert (loaded.settings.timeout_ms, loaded.settings.log_level) == (7, "debug")
    assert loaded.files == (mine, ours)


def test_the_project_wins_key_by_key(project: Path, home: Path) -> None:
    mine = write(home / ".youbencharc", "agent: {model: mine, timeout_ms: 5}\nvariables: {A: 1, B: 2}\ntimeout_ms: 9\n")
    ours = write(project / ".youbencharc", "agent: {model: ours}\nvariables: {B: 3}\n")
    loaded = load_settings(project, home)
    assert loaded.settings.agent.model == "ours"
    assert loaded.settings.agent.timeout_ms == 5
    assert loaded.settings.variables == {"A": 1, "B": 3}
    assert loaded.origin == {
        "agent.model": ours,
        "agent.timeout_ms": mine,
        "variables.A": mine,
        "variables.B": ours,
        "timeout_ms": mine,
    }


def test_relative_paths_start_at_the_file_that_names_them(project: Path, home: Path) -> None:
    write(home / ".youbencharc", "workspace_dir: runs\ncache_dir: ~/cache\n")
    write(project / ".youbencharc", "output_dir: ../out\n")
    loaded = load_settings(project, home)
    assert loaded.workspace_dir == home / "runs"
    assert loaded.cache_dir == home / "cache"
    assert loaded.output_dir == project / ".." / "out"


def test_inside_a_repository_the_nearest_file_up_to_its_root_counts(project: Path, home: Path) -> None:
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    (project / ".git").mkdir()
    root = write(project / ".youbencharc", "timeout_ms: 1\nworkspace_dir: w\n")
    assert load_settings(deep, home).files == (root,)
    assert load_settings(deep, home).workspace_dir == project / "w"
    nearer = write(project / "a" / ".youbencha.yml", "timeout_ms: 2\n")
    assert load_settings(deep, home).files == (nearer,)
    assert load_settings(deep, home).settings.timeout_ms == 2


def test_outside_of_a_repository_nothing_above_is_read(project: Path, home: Path) -> None:
    (project / "a").mkdir()
    write(project / ".youbencharc", "timeout_ms: 1\n")
    assert load_settings(project / "a", home).files == ()


def test_above_the_root_of_the_repository_nothing_is_read(project: Path, home: Path) -> None:
    (project / "a" / ".git").mkdir(parents=True)
    write(project / ".youbencharc", "timeout_ms: 1\n")
    assert load_settings(project / "a", home).files == ()


def test_the_home_directory_is_not_a_project(home: Path) -> None:
    (home / ".git").mkdir()
    (home / "work").mkdir()
    mine = write(home / ".youbencharc", "timeout_ms: 1\n")
    for here in (home, home / "work"):
        found = find_settings(here, home)
        assert (found.user, found.project) == (mine, None)


def test_of_several_files_the_first_counts_and_the_others_are_named(project: Path, home: Path) -> None:
    write(project / ".youbencharc.json", '{"timeout_ms": 1}')
    write(project / ".youbencharc.yaml", "timeout_ms: 2\n")
    loaded = load_settings(project, home)
    assert loaded.settings.timeout_ms == 2
    assert loaded.warnings == (
        f"{project} has more than one settings file: .youbencharc.yaml is used, .youbencharc.json is ignored",
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n# nothing\n"])
def test_an_empty_file_is_valid(text: str, project: Path, home: Path) -> None:
    file = write(project / ".youbencharc", text)
    loaded = load_settings(project, home)
    assert (loaded.settings, loaded.files) == (Settings(), (file,))


def test_every_problem_of_both_files_is_reported_with_its_position(project: Path, home: Path) -> None:
    mine = write(home / ".youbencharc", "timeout_ms: soon\n")
    ours = write(project / ".youbencha.json", '{\n\t"agent": {"modle": "x"},\n\t"log_level": "loud"}')
    with pytest.raises(ConfigError) as caught:
        load_settings(project, home)
    assert caught.value.code == "SETTINGS_INVALID"
    assert [str(problem) for problem in caught.value.problems] == [
        f"{mine}:1:13: timeout_ms: must be a whole number, not text",
        f"{ours}:2:12: agent.modle: unknown key (did you mean 'model'?)",
        f"{ours}:3:15: log_level: must be one of 'debug', 'info', 'warn' or 'error'",
    ]


def test_a_directory_of_that_name_is_a_problem(project: Path, home: Path) -> None:
    (project / ".youbencharc").mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        load_settings(project, home)


@posix_only("links and owners")
def test_a_dangling_link_is_reported(project: Path, home: Path) -> None:
    (project / ".youbencharc").symlink_to(project / "gone")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_settings(project, home)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_in_a_directory_above_is_not_read(project: Path, home: Path) -> None:
    (project / ".git").mkdir()
    (project / "a").mkdir()
    planted = write(project / ".youbencharc", "timeout_ms: 1\n")
    os.chown(planted, 12345, 12345)
    loaded = load_settings(project / "a", home)
    assert loaded.files == ()
    assert loaded.warnings == (f"{planted} belongs to another user and is ignored",)
    assert load_settings(project, home).files == (planted,)  # who is in that very directory means it


def test_problems_of_all_files_are_one_sentence(project: Path, home: Path) -> None:
    write(home / ".youbencharc", "timeout_ms: soon\n")
    write(project / ".youbencharc", "log_level: loud\n")
    with pytest.raises(ConfigError, match=r"^The settings have 2 problems:") as caught:
        load_settings(project, home)
    assert "one at a time with `yb config set`" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "users", "keys"),
    [
        ("gateway:\n  upstreams:\n    anthropic: {url: 'http://elsewhere'}\n", "", ["2:3: gateway.upstreams"]),
        ("gateway: {upstreams: {openai: {key_env: AWS_SECRET_ACCESS_KEY}}}", "", ["1:11: gateway.upstreams"]),
        ("gateway: {secrets_file: .env}", "", ["1:11: gateway.secrets_file"]),
        ("gateway: {type: litellm, litellm: {executable: ./litellm}}", "", ["1:26: gateway.litellm"]),
        ("gateway: none", "", ["1:10: gateway.type"]),
        ("gateway: auto", "gateway: builtin", ["1:10: gateway.type"]),
        (
            "sandbox: {type: docker, network: open, writable: true}",
            "",
            ["1:25: sandbox.network", "1:40: sandbox.writable"],
        ),
        (
            "sandbox: {type: docker, network: gateway}",
            "sandbox: {type: docker, network: none}",
            ["1:25: sandbox.network"],
        ),
        ("sandbox: {type: docker, allowlist: [example.org]}", "", ["1:25: sandbox.allowlist"]),
        ("sandbox: local", "sandbox: docker", ["1:10: sandbox.type"]),
        ("sandbox: {home: own}", "", ["1:11: sandbox.home"]),
        ("cache_dir: .cache", "", ["1:1: cache_dir"]),
        ("gateway: {cassette: {dir: answers, mode: replay}}", "", ["1:11: gateway.cassette"]),
        ("gateway: {budget_total_usd: 5}", "gateway: {budget_total_usd: 2}", ["1:11: gateway.budget_total_usd"]),
        ("gateway: {tokens_per_call: null}", "gateway: {tokens_per_call: 9}", ["1:11: gateway.tokens_per_call"]),
        ("gateway: {models: [a, b]}", "gateway: {models: [a]}", ["1:11: gateway.models"]),
        (
            "gateway: {prices: {'*': {input: 0, output: 0}}}",
            "gateway: {budget_per_call_usd: 1}",
            ["1:11: gateway.prices"],
        ),
        (
            "sandbox: {type: docker, memory: 8g, cpus: null}",
            "sandbox: {type: docker, memory: 2g, cpus: 1}",
            ["1:25: sandbox.memory", "1:37: sandbox.cpus"],
        ),
    ],
)
def test_a_project_cannot_say_where_keys_go_or_weaken_a_sandbox(
    text: str, users: str, keys: list[str], project: Path, home: Path
) -> None:
    ours = write(project / ".youbencharc", text)
    write(home / ".youbencharc", users)
    with pytest.raises(ConfigError) as caught:
        load_settings(project, home)
    assert [str(problem).partition(": ")[0] for problem in caught.value.problems] == [
        f"{ours}:{key.partition(': ')[0]}" for key in keys
    ]
    assert [problem.path for problem in caught.value.problems] == [key.partition(": ")[2] for key in keys]
    write(project / ".youbencharc", "")
    write(home / ".youbencharc", text)
    load_settings(project, home)  # the user's own file may


@pytest.mark.parametrize(
    ("text", "users"),
    [
        (
            "sandbox: docker\ngateway: builtin\n",
            "sandbox: {home: own}\ngateway: {type: litellm, litellm: {url: 'http://l'}}",
        ),
        ("sandbox: {type: docker, network: gateway, writable: false, image: debian}\n", ""),
        ("sandbox: local\ngateway: {type: auto, budget_per_trial_usd: 1, prices: {m: {input: 1, output: 2}}}\n", ""),
        ("sandbox: {type: docker, network: open}", "sandbox: {type: docker, network: open}"),
        ("gateway: {budget_total_usd: 1, models: [a]}", "gateway: {budget_total_usd: 2}"),
        ("sandbox: {type: docker, memory: 8g}", "sandbox: docker"),
    ],
)
def test_a_project_may_set_everything_else(text: str, users: str, project: Path, home: Path) -> None:
    write(project / ".youbencharc", text)
    write(home / ".youbencharc", users)
    assert load_settings(project, home).files[-1] == project / ".youbencharc"
