"""Files into models: what is refused, and where the message points."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from youbencha.errors import ConfigError
from youbencha.spec import load_yaml_model, parse_yaml_model


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Agent(Strict):
    type: str
    model: str | None = None


class Case(Strict):
    name: str
    agent: Agent | None = None
    turns: list[str] = []
    limits: dict[str, int] = {}


def load(path: Path) -> Case:
    return load_yaml_model(path, Case, code="CASE_INVALID", what="Test case")


def refused(text: str | bytes, tmp_path: Path, name: str = "case.yaml") -> list[str]:
    """The problems, without the file's directory."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.code == "CASE_INVALID"
    assert all(problem.file == path for problem in caught.value.problems)
    return [str(problem).replace(f"{path}", name) for problem in caught.value.problems]


def test_a_valid_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text("name: hello\nagent: {type: claude-code}\nturns: [a, b]\n")
    assert load(path) == Case(name="hello", agent=Agent(type="claude-code"), turns=["a", "b"])


def test_json_is_yaml_with_tabs_and_surrogate_pairs(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text('\t{\n\t"name": "\\ud83d\\ude00 \\/",\n\t"limits": {"a": 1e2}\n}\n')
    assert load(path) == Case(name="😀 /", limits={"a": 100})


def test_a_json_problem_has_its_line_and_column(tmp_path: Path) -> None:
    text = '{\n\t"name": "x",\n\t"agnet": {}\n}\n'
    assert refused(text, tmp_path, "case.json") == ["case.json:3:2: agnet: unknown key (did you mean 'agent'?)"]


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: hello\n")
    assert load(path).name == "hello"


def test_dates_stay_text_and_yes_is_text() -> None:
    case = parse_yaml_model("name: 2024-01-01\nturns: [yes, on]\n", Case, code="X", what="Case")
    assert (case.name, case.turns) == ("2024-01-01", ["yes", "on"])


def test_merge_keys_and_anchors_work() -> None:
    text = "agent: &base {type: a, model: m}\nname: x\n"
    again = text.replace("agent: &base {type: a, model: m}", "agent:\n  <<: {type: a, model: m}\n  model: own")
    assert parse_yaml_model(text, Case, code="X", what="Case").agent == Agent(type="a", model="m")
    assert parse_yaml_model(again, Case, code="X", what="Case").agent == Agent(type="a", model="own")


def test_all_problems_come_at_once_in_document_order(tmp_path: Path) -> None:
    text = """\
turns: [a, 2]
agent:
  modle: opus
limits:
  cpu: many
nme: hello
"""
    assert refused(text, tmp_path) == [
        "case.yaml:1:1: name: is required",
        "case.yaml:1:12: turns.1: must be text, not a number (put it in quotes)",
        "case.yaml:3:3: agent.type: is required",
        "case.yaml:3:3: agent.modle: unknown key (did you mean 'model'?)",
        "case.yaml:5:8: limits.cpu: must be a whole number, not text",
        "case.yaml:6:1: nme: unknown key (did you mean 'name'?)",
    ]


def test_the_error_as_a_whole_reads_well(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text("name: x\ntruns: []\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value) == (
        f"Test case has 1 problem:\n  - {path}:2:1: truns: unknown key (did you mean 'turns'?)"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "case.yaml: is empty"),
        ("# nothing but a comment\n", "case.yaml: is empty"),
        ("name: [1\n", "case.yaml:2:1: is not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("name: a: b\n", "case.yaml:1:8: is not valid YAML: mapping values are not allowed here"),
        ("agent:\n\ttype: x\n", "case.yaml:2:1: is not valid YAML: a tab cannot be used here (use spaces)"),
        ("name: a\n---\nname: b\n", "case.yaml:2:1: contains more than one document"),
        ("name: *missing\n", "case.yaml:1:7: is not valid YAML: the alias has no anchor"),
        ("- a\n- b\n", "case.yaml:1:1: must be a mapping, not a list"),
        ("just text\n", "case.yaml:1:1: must be a mapping, not text"),
        ("name: x\n? [a]\n: b\n", "case.yaml:1:1: a key must be text"),
        ("5: a\nname: x\n", "case.yaml:1:1: 5: a key must be text"),
        ("name: !!int x\n", "case.yaml: is not valid YAML: a value does not fit its tag"),
        ("name: a\nagent:\n  type: x\n  type: secret\n", "case.yaml:4:3: the key `type` is given twice"),
        ("turns: &t [*t]\nname: x\n", "case.yaml:1:8: turns.0: must be text, not empty"),
        (
            "name: a\x00\n",
            "case.yaml: is not valid YAML: unacceptable character #x0000: special characters are not allowed",
        ),
    ],
)
def test_an_invalid_document_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    assert refused(text, tmp_path) == [problem]


@pytest.mark.parametrize("tag", ["!secret", "!!python/object/apply:os.system", "!!binary", "!!set"])
def test_no_tag_makes_an_object(tag: str, tmp_path: Path) -> None:
    assert refused(f"name: {tag} x\n", tmp_path) == [
        "case.yaml:1:7: YAML tags cannot be used here (write a plain value)"
    ]


def test_a_tagged_key_is_refused(tmp_path: Path) -> None:
    assert refused("!secret name: x\n", tmp_path) == [
        "case.yaml:1:1: YAML tags cannot be used here (write a plain value)"
    ]


@pytest.mark.parametrize("spelled", ["=", "!!str 5", "2024-01-01 10:00:00", "&anchor text", "|-\n  text"])
def test_text_is_plain_text_however_it_is_spelled(spelled: str) -> None:
    name = parse_yaml_model(f"name: {spelled}\n", Case, code="X", what="Case").name
    assert type(name) is str
    assert name == spelled.split("!!str ")[-1].split("&anchor ")[-1].split("|-\n  ")[-1]


def test_an_anchored_boolean_is_a_boolean() -> None:
    class Flags(Strict):
        model_config = ConfigDict(strict=True)
        first: bool
        second: bool

    flags = parse_yaml_model("first: &on true\nsecond: *on\n", Flags, code="X", what="Flags")
    assert (flags.first, flags.second) == (True, True)


def test_a_merged_key_has_its_own_position(tmp_path: Path) -> None:
    text = "name: x\nagent:\n  <<:\n    type: a\n    modle: b\n"
    assert refused(text, tmp_path) == ["case.yaml:5:5: agent.modle: unknown key (did you mean 'model'?)"]


def test_an_alias_bomb_is_refused_without_being_expanded(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert refused("\n".join(lines), tmp_path) == ["case.yaml: has more than 250,000 values with its aliases expanded"]


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    assert refused("\n".join(" " * n + "a:" for n in range(1200)), tmp_path) == ["case.yaml: is nested too deeply"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="is a directory, not a file"):
        load(tmp_path)
    assert refused(b"name: a\nagent: \xff\n", tmp_path) == ["case.yaml: is not UTF-8 text (line 2)"]


def test_a_file_of_one_mebibyte_is_the_limit(tmp_path: Path) -> None:
    head = b"name: x\n#"
    assert refused(head + b"-" * (1024 * 1024 - len(head) + 1), tmp_path) == ["case.yaml: is larger than 1 MiB"]
    path = tmp_path / "case.yaml"
    path.write_bytes(head + b"-" * (1024 * 1024 - len(head)))
    assert load(path).name == "x"
