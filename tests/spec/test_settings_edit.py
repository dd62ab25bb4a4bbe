"""One setting changed, and nothing else in the file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.spec import load_yaml_model
from youbencha.spec.settings import TEMPLATE, Settings
from youbencha.spec.settings_edit import known_keys, parse_setting, set_value, unset_value

COMMENTED = """\
# All of us.
workspace_dir: "runs"   # quoted, and it stays so

# How long.
timeout_ms: 5000

agent:
    # four blanks
    model: opus  # the large one
    timeout_ms: 9

# The end.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".youbencharc"


def settings(file: Path) -> Settings:
    return load_yaml_model(file, Settings, code="X", what="x")


def test_a_value_is_replaced_in_its_place(file: Path) -> None:
    file.write_text(COMMENTED)
    set_value(file, "agent.model", "haiku")
    changed = COMMENTED.replace("opus", "haiku")
    assert file.read_text() == changed
    set_value(file, "timeout_ms", "12")
    assert file.read_text() == changed.replace("5000", "12")


def test_a_new_key_comes_below_the_last_of_its_group(file: Path) -> None:
    file.write_text(COMMENTED.replace("    timeout_ms: 9\n", ""))
    set_value(file, "agent.timeout_ms", "9")
    assert file.read_text() == COMMENTED


def test_a_new_group_comes_below_the_last_key(file: Path) -> None:
    file.write_text(COMMENTED)
    set_value(file, "variables.NAME", "a: b # c")
    added = "    timeout_ms: 9\nvariables:\n    NAME: 'a: b # c'\n"
    assert file.read_text() == COMMENTED.replace("    timeout_ms: 9\n", added)
    assert settings(file).variables == {"NAME": "a: b # c"}


@pytest.mark.parametrize("key", ["workspace_dir", "timeout_ms", "agent.model"])
def test_removing_a_key_leaves_every_other_line(key: str, file: Path) -> None:
    file.write_text(COMMENTED)
    assert unset_value(file, key)
    name = f"{key.rpartition('.')[2]}: "
    gone = next(line for line in COMMENTED.splitlines(keepends=True) if line.strip().startswith(name))
    assert file.read_text() == COMMENTED.replace(gone, "", 1)


def test_a_group_goes_with_its_last_key(file: Path) -> None:
    file.write_text("timeout_ms: 1\nagent:\n  model: x\n\n# end\n")
    assert unset_value(file, "agent.model")
    assert file.read_text() == "timeout_ms: 1\n\n# end\n"


def test_a_whole_group_can_be_removed(file: Path) -> None:
    file.write_text(COMMENTED)
    assert unset_value(file, "agent")
    assert file.read_text() == COMMENTED[: COMMENTED.index("agent:")] + "\n# The end.\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("agent: {model: x, timeout_ms: 3}  # flow\n", {"agent": {"model": "y, z", "timeout_ms": 3}}),
        ("agent: {}\n", {"agent": {"model": "y, z"}}),
        ("agent:\n  model: >-\n    folded\n    text\ntimeout_ms: 4\n", {"agent": {"model": "y, z"}, "timeout_ms": 4}),
        ("timeout_ms: 4", {"agent": {"model": "y, z"}, "timeout_ms": 4}),
        ("", {"agent": {"model": "y, z"}}),
    ],
)
def test_other_spellings_are_understood(before: str, after: dict[str, object], file: Path) -> None:
    file.write_text(before)
    set_value(file, "agent.model", "y, z")
    assert settings(file).model_dump(exclude_unset=True) == after


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("# 1\n---\n# 2\na: 1\n# 3\n", "a", "# 1\n---\n# 2\n# 3\n"),
        ("a:\n# 1\n", "a", "# 1\n"),
        ("a: {}\n\n# 1\nb: 1\n", "b", "a: {}\n\n# 1\n"),
        ("a: 1\nb: |\n  text\n# 1\nc: 2\n", "b", "a: 1\n# 1\nc: 2\n"),
        ("a: 1\nb:\n- 1\n- 2\n\n# 1\nc: 2\n", "b", "a: 1\n\n# 1\nc: 2\n"),
        ("a:\n  b:\n    c: 1\n  # 1\n  d: 2 # 2\n# 3\n", "a.b", "a:\n  # 1\n  d: 2 # 2\n# 3\n"),
        ("a:\n  b: 1\n  # 1\n  c: 2 # 2\n# 3\nd: 4\n", "a.c", "a:\n  b: 1\n  # 1\n# 3\nd: 4\n"),
        ("a: 1\n# 1\nb: 2\n# 2\nc: 3\n", "b", "a: 1\n# 1\n# 2\nc: 3\n"),
    ],
)
def test_lines_around_a_removed_entry_stay(before: str, key: str, after: str, file: Path) -> None:
    file.write_text(before)
    assert unset_value(file, key)
    assert file.read_text() == after


def test_a_group_is_replaced_by_its_short_form(file: Path) -> None:
    file.write_text("gateway:\n  type: none\n\n# more\nsandbox: local\n")
    set_value(file, "gateway", "builtin")
    assert file.read_text() == "gateway: builtin\n\n# more\nsandbox: local\n"


def test_a_value_that_comes_from_a_merge_cannot_be_removed(file: Path) -> None:
    text = "agent:\n  <<: {model: x}\n  timeout_ms: 5\n"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"agent\.model: cannot be changed without changing other settings"):
        unset_value(file, "agent.model")
    assert file.read_text() == text


def test_flow_style_keeps_its_comment(file: Path) -> None:
    file.write_text("# top\nagent: {model: x}  # flow\nlog_level: info # low\n")
    set_value(file, "agent.timeout_ms", "3")
    assert unset_value(file, "agent.model")
    text = file.read_text()
    assert [comment for comment in ("# top", "# flow", "# low") if comment not in text] == []
    assert settings(file).agent.timeout_ms == 3
    assert settings(file).agent.model is None


def test_the_template_takes_settings_and_keeps_its_comments(file: Path) -> None:
    file.write_text(TEMPLATE)
    set_value(file, "keep_workspace", "false")
    set_value(file, "agent.model", "opus")
    assert file.read_text() == TEMPLATE + "\nkeep_workspace: false\nagent:\n  model: opus\n"
    assert unset_value(file, "agent.model")
    assert unset_value(file, "keep_workspace")
    assert file.read_text().rstrip() == TEMPLATE.rstrip()


def test_the_template_shows_every_key_and_the_defaults() -> None:
    lines = [line[2:] for line in TEMPLATE.splitlines() if line.startswith("# ")]
    yaml = "\n".join(line for line in lines if ":" in line and line.split(":")[0].strip() in _names())
    shown = Settings.model_validate(_parse(yaml))
    # Of gateway and sandbox, only the type: the rest has pages of its own.
    wanted = {key for key in known_keys() if not key.startswith(("gateway.", "sandbox."))}
    wanted |= {"gateway.type", "sandbox.type", "variables.TEAM"}
    assert set(_flat(shown.model_dump(exclude_unset=True))) == wanted
    different = shown.model_dump(exclude={"variables", "agent", "cache_dir"})
    assert different == Settings().model_dump(exclude={"variables", "agent", "cache_dir"})


def _names() -> set[str]:
    return {key.rpartition(".")[2] for key in known_keys()} | {"TEAM"}


def _parse(text: str) -> object:
    from youbencha.spec.document import parse_document

    return parse_document(text, code="X", what="x").data


def _flat(values: dict[str, object], before: str = "") -> list[str]:
    keys = []
    for key, value in values.items():
        keys.append(before + key)
        if isinstance(value, dict):
            keys += _flat(value, f"{before}{key}.")
    return keys


def test_json_stays_json(tmp_path: Path) -> None:
    file = tmp_path / ".youbencharc.json"
    file.write_text('{\n\t"timeout_ms": 5,\n\t"agent": {"model": "ä"}\n}\n', encoding="utf-8")
    set_value(file, "agent.timeout_ms", "7")
    assert unset_value(file, "timeout_ms")
    expected = '{\n\t"agent": {\n\t\t"model": "ä",\n\t\t"timeout_ms": 7\n\t}\n}\n'
    assert file.read_text(encoding="utf-8") == expected


def test_json_without_its_ending_stays_json(file: Path) -> None:
    file.write_text('{"timeout_ms": 5}')
    set_value(file, "log_level", "warn")
    assert json.loads(file.read_text()) == {"timeout_ms": 5, "log_level": "warn"}


def test_a_new_json_file_is_json(tmp_path: Path) -> None:
    file = tmp_path / ".youbencha.json"
    set_value(file, "log_level", "warn")
    assert json.loads(file.read_text()) == {"log_level": "warn"}


def test_invalid_json_is_refused_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / ".youbencharc.json"
    file.write_text('{"timeout_ms": 5,}')
    with pytest.raises(ConfigError, match="is not valid JSON"):
        set_value(file, "log_level", "warn")
    assert file.read_text() == '{"timeout_ms": 5,}'


def test_windows_line_ends_stay(file: Path) -> None:
    file.write_bytes(b"# a\r\ntimeout_ms: 5\r\n")
    set_value(file, "log_level", "warn")
    assert file.read_bytes() == b"# a\r\ntimeout_ms: 5\r\nlog_level: warn\r\n"


@posix_only("links and permissions")
def test_links_and_permissions_stay(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.write_text("timeout_ms: 5\n")
    real.chmod(0o600)
    link = tmp_path / ".youbencharc"
    link.symlink_to(real)
    set_value(link, "timeout_ms", "6")
    assert link.is_symlink()
    assert real.read_text() == "timeout_ms: 6\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [".youbencharc", "dotfiles"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("007", "007"),
        ("3.10", "3.10"),
        ("1e5", "1e5"),
        ("1_000", "1_000"),
        ("٣", "٣"),
        ("12345678901234567890.5", "12345678901234567890.5"),
        ("nan", "nan"),
        ("", ""),
        ("null", "null"),
    ],
)
def test_a_parsed_value_survives_the_file(text: str, value: object, file: Path) -> None:
    parsed = parse_setting("variables.X", text)
    assert (type(parsed), parsed) == (type(value), value)
    assert set_value(file, "variables.X", text) == value
    written = settings(file).variables["X"]
    assert (type(written), written) == (type(value), value)


def test_text_stays_text_on_request(file: Path) -> None:
    assert set_value(file, "variables.X", "12", as_text=True) == "12"
    assert settings(file).variables == {"X": "12"}


def test_a_setting_that_takes_text_is_given_text(file: Path) -> None:
    assert parse_setting("agent.model", "4") == "4"
    set_value(file, "agent.model", "4")
    assert settings(file).agent.model == "4"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("agnet.model", "x", "agnet.model: unknown key (did you mean 'agent.model'?)"),
        ("agent.modle", "x", "agent.modle: unknown key (did you mean 'agent.model'?)"),
        ("timeout", "5", "timeout: unknown key (did you mean 'timeout_ms'?)"),
        ("timeout_ms.x", "5", "unknown key"),
        ("variables", "x", "variables: must be a mapping, not text"),
        ("variables.a.b", "x", "unknown key"),
        ("variables.a-b", "x", "must match"),
        ("variables.", "x", "unknown key"),
        ("", "x", "unknown key"),
        ("timeout_ms", "soon", "timeout_ms: must be a whole number, not text"),
        ("timeout_ms", "0", "must be more than 0"),
        ("timeout_ms", "1.5", "must be a whole number"),
        ("keep_workspace", "yes", "must be true or false"),
        ("log_level", "inof", "did you mean 'info'?"),
        ("evaluators.max_concurrent", "1000", "must be at most 64"),
        ("workspace_dir", "  ", "must not be empty"),
    ],
)
def test_an_invalid_value_is_never_written(key: str, value: str, words: str, file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        set_value(file, key, value)
    assert words in str(caught.value)
    assert not file.exists()


def test_mistakes_can_be_fixed_one_at_a_time(file: Path) -> None:
    file.write_text("timeout_ms: soon # 1\nlog_level: loud # 2\nagnet: {model: x}\n")
    set_value(file, "timeout_ms", "6")
    assert file.read_text() == "timeout_ms: 6 # 1\nlog_level: loud # 2\nagnet: {model: x}\n"
    assert unset_value(file, "agnet")
    set_value(file, "log_level", "warn")
    assert file.read_text() == "timeout_ms: 6 # 1\nlog_level: warn # 2\n"
    assert settings(file).timeout_ms == 6


def test_a_scalar_in_place_of_a_group_is_replaced(file: Path) -> None:
    file.write_text("agent: 5\nlog_level: loud\n")
    set_value(file, "agent.model", "x")
    assert file.read_text() == "agent:\n  model: x\nlog_level: loud\n"


@pytest.mark.parametrize("text", ["- a\n", "just words\n", "a: 1\na: 2\n", "a: [\n"])
def test_an_invalid_settings_file_is_reported_and_not_changed(text: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"^The settings file has 1 problem:\n  - .*\.youbencharc"):
        set_value(file, "timeout_ms", "6")
    assert file.read_text() == text


def test_a_missing_key_is_not_removed(file: Path) -> None:
    assert not unset_value(file, "agent.model")
    assert not file.exists()
    file.write_text("timeout_ms: 5\n")
    assert not unset_value(file, "agent.model")
    assert file.read_text() == "timeout_ms: 5\n"


def test_a_change_that_would_break_another_key_is_refused(file: Path) -> None:
    """Two keys that share one mapping: a key that is valid in the one is unknown in the other."""
    shared = "agent: &a {}\nevaluators: *a\n"
    file.write_text(shared)
    with pytest.raises(ConfigError, match=r"agent\.timeout_ms: cannot be changed"):
        set_value(file, "agent.timeout_ms", "5")
    assert file.read_text() == shared


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError, match="Cannot write") as caught:
        set_value(tmp_path / "missing" / ".youbencharc", "timeout_ms", "5")
    assert caught.value.code == "SETTINGS_NOT_WRITABLE"
