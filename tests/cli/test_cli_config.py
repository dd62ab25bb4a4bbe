"""`yb config`, as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from yb import yb
from youbencha.spec.settings import TEMPLATE, Settings

Done = subprocess.CompletedProcess[str]
Config = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def config(project: Path, home: Path) -> Config:
    def run(*arguments: str, cwd: Path = project) -> Done:
        return yb("config", *arguments, cwd=cwd, HOME=str(home), USERPROFILE=str(home))

    return run


def output(done: Done) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_what_init_writes_is_accepted_by_every_other_command(config: Config, project: Path) -> None:
    """The original's was not."""
    file = project / ".youbencharc"
    assert output(config("init")) == (0, f"wrote {file}\n", "")
    assert file.read_text() == TEMPLATE
    assert config("list").returncode == 0
    assert output(config("get", "timeout_ms")) == (0, "300000\n", "")
    assert output(config("set", "agent.model", "opus")) == (0, f"set agent.model in {file}\n", "")
    assert output(config("get", "agent.model")) == (0, "opus\n", "")
    assert output(config("unset", "agent.model")) == (0, f"removed agent.model from {file}\n", "")
    assert output(config("get", "agent.model")) == (1, "", "")


def test_init_overwrites_only_with_force(config: Config, project: Path) -> None:
    file = project / ".youbencharc.yaml"
    file.write_text("timeout_ms: 5\n")
    done = config("init")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error [SETTINGS_EXIST] {file} already exists\nhint  ")
    assert file.read_text() == "timeout_ms: 5\n"
    assert output(config("init", "--force")) == (0, f"wrote {file}\n", "")
    assert file.read_text() == TEMPLATE
    assert [path.name for path in project.iterdir()] == [".youbencharc.yaml"]


def test_init_keeps_json_json(config: Config, project: Path) -> None:
    file = project / ".youbencharc.json"
    file.write_text("{}")
    assert config("init", "--force").returncode == 0
    assert Settings.model_validate(json.loads(file.read_text())) == Settings()


def test_global_is_the_home_directory(config: Config, project: Path, home: Path) -> None:
    assert config("init", "--global").stdout == f"wrote {home / '.youbencharc'}\n"
    assert config("set", "--global", "log_level", "warn").stdout == f"set log_level in {home / '.youbencharc'}\n"
    assert list(project.iterdir()) == []
    assert config("get", "log_level").stdout == "warn\n"
    config("set", "log_level", "error")
    assert (project / ".youbencharc").read_text() == "log_level: error\n"
    assert config("get", "log_level").stdout == "error\n"
    assert config("unset", "log_level", "--global").returncode == 0
    assert config("get", "log_level").stdout == "error\n"


def test_list_shows_values_and_their_origin(config: Config, project: Path, home: Path) -> None:
    (home / ".youbencharc").write_text("agent: {model: opus}\nvariables: {API_TOKEN: hidden-away, TEAM: '[red]x'}\n")
    (project / ".youbencharc").write_text("timeout_ms: 7\n")
    done = config("list", "--json")
    assert done.returncode == 0
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    assert rows["gateway.type"] == ("auto", "default")
    assert rows["gateway.litellm.key_env"] == ("LITELLM_MASTER_KEY", "default")  # a name, and no key
    assert rows["sandbox.type"] == ("local", "default")
    assert {key: row for key, row in rows.items() if not key.startswith(("gateway.", "sandbox."))} == {
        "workspace_dir": (".youbencha-workspace", "default"),
        "output_dir": (".youbencha-eval", "default"),
        "cache_dir": (None, "default"),
        "timeout_ms": (7, str(project / ".youbencharc")),
        "log_level": ("info", "default"),
        "keep_workspace": (True, "default"),
        "variables.API_TOKEN": ("[REDACTED]", str(home / ".youbencharc")),
        "variables.TEAM": ("[red]x", str(home / ".youbencharc")),
        "agent.timeout_ms": (None, "default"),
        "agent.model": ("opus", str(home / ".youbencharc")),
        "evaluators.max_concurrent": (4, "default"),
    }
    table = config("list").stdout
    lines = {line.split()[0]: line.split(maxsplit=2)[1:] for line in table.splitlines()}
    assert lines["timeout_ms"] == ["7", str(project / ".youbencharc")]
    assert lines["keep_workspace"] == ["true", "default"]
    assert lines["variables.TEAM"] == ["[red]x", str(home / ".youbencharc")]
    assert "hidden-away" not in table
    assert config("get", "variables.API_TOKEN").stdout == "hidden-away\n"


def test_get_prints_the_bare_value(config: Config, project: Path) -> None:
    (project / ".youbencharc").write_text("variables: {A: 1, B: x y, C: 1.5, D: false}\n")
    for key, value in {"variables.A": "1", "variables.B": "x y", "variables.C": "1.5", "variables.D": "false"}.items():
        assert output(config("get", key)) == (0, f"{value}\n", "")
    assert json.loads(config("get", "variables").stdout) == {"A": 1, "B": "x y", "C": 1.5, "D": False}


@pytest.mark.parametrize("arguments", [("get", "agnet.model"), ("set", "agnet.model", "x"), ("unset", "agnet.model")])
def test_an_unknown_key_is_an_error_with_the_nearest(arguments: tuple[str, ...], config: Config, project: Path) -> None:
    done = config(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "agnet.model: unknown key (did you mean 'agent.model'?)" in done.stderr
    assert list(project.iterdir()) == []


def test_keys_that_are_not_set(config: Config, project: Path) -> None:
    assert output(config("get", "variables.NONE")) == (1, "", "")
    assert output(config("unset", "agent.model")) == (1, "", "there is no settings file\n")
    file = project / ".youbencharc"
    file.write_text("timeout_ms: 7\n")
    assert output(config("unset", "agent.model")) == (1, "", f"agent.model is not set in {file}\n")


def test_set_keeps_comments_and_text_that_looks_like_a_number(config: Config, project: Path) -> None:
    file = project / ".youbencharc"
    file.write_text("# why\ntimeout_ms: 7  # short\n")
    assert config("set", "variables.PYTHON", "3.10").returncode == 0
    assert config("set", "variables.PORT", "80", "--string").returncode == 0
    assert config("set", "timeout_ms", "8").returncode == 0
    assert file.read_text() == "# why\ntimeout_ms: 8  # short\nvariables:\n  PYTHON: '3.10'\n  PORT: '80'\n"


def test_an_invalid_value_is_refused(config: Config, project: Path) -> None:
    done = config("set", "timeout_ms", "soon")
    assert done.returncode == 2
    assert "timeout_ms: must be a whole number, not text" in done.stderr
    assert list(project.iterdir()) == []


def test_an_invalid_file_is_reported_with_its_position(config: Config, project: Path) -> None:
    (project / ".youbencharc").write_text("timeout_ms: 7\nlog_level: [\n")
    for arguments in (("list",), ("get", "timeout_ms"), ("set", "timeout_ms", "8"), ("unset", "timeout_ms")):
        done = config(*arguments)
        assert done.returncode == 2, arguments
        assert f"{project / '.youbencharc'}:3:1: is not valid YAML" in done.stderr


def test_in_a_subdirectory_the_projects_file_is_used(config: Config, project: Path) -> None:
    (project / ".git").mkdir()
    (project / "deep").mkdir()
    (project / ".youbencharc").write_text("timeout_ms: 7\n")
    assert config("set", "timeout_ms", "8", cwd=project / "deep").returncode == 0
    assert (project / ".youbencharc").read_text() == "timeout_ms: 8\n"
    assert list((project / "deep").iterdir()) == []


def test_two_files_are_warned_of(config: Config, project: Path) -> None:
    (project / ".youbencharc").write_text("timeout_ms: 7\n")
    (project / ".youbencharc.json").write_text("{}")
    done = config("get", "timeout_ms")
    assert done.stdout == "7\n"
    assert done.stderr.startswith(f"warning  {project} has more than one settings file")


@pytest.mark.parametrize(
    ("key", "value"),
    [("gateway.upstreams.anthropic.url", "http://elsewhere"), ("gateway", "none"), ("sandbox.home", "own")],
)
def test_user_only_settings_are_refused_for_a_project(
    key: str, value: str, config: Config, project: Path, home: Path
) -> None:
    done = config("set", key, value)
    assert (done.returncode, list(project.iterdir())) == (2, [])
    assert "error [SETTINGS_INVALID]" in done.stderr
    assert config("set", "--global", key, value).returncode == 0
    assert config("set", key, value, cwd=home).returncode == 0
