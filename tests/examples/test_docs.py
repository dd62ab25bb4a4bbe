"""The documentation matches the code: keys, commands, links, and every YAML snippet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from youbencha.adapters.aider import AiderConfig
from youbencha.adapters.cli_agent import AgentConfig
from youbencha.adapters.codex import CodexConfig
from youbencha.adapters.command import CommandAgentConfig
from youbencha.adapters.copilot_cli import CopilotCliConfig
from youbencha.adapters.gemini_cli import GeminiCliConfig
from youbencha.adapters.opencode import OpenCodeConfig
from youbencha.cli.app import COMMANDS
from youbencha.cli.setup import Format
from youbencha.evaluators.command import CommandEvaluatorConfig
from youbencha.evaluators.expected_diff import ExpectedDiffConfig
from youbencha.evaluators.git_diff import GitDiffConfig
from youbencha.evaluators.judge.setup import JudgeConfig
from youbencha.loop.backends import BACKENDS
from youbencha.loop.plan import check_loop
from youbencha.spec.arena import (
    ArenaSpec,
    BudgetSpec,
    GreenWeights,
    OrchestratorSpec,
    ResourcesSpec,
    RubricSpec,
    TaskSpec,
    ValidationSpec,
    VariantSpec,
    Weights,
)
from youbencha.spec.arena_loader import load_arena_file
from youbencha.spec.compat import ralph
from youbencha.spec.loader import load_test_case
from youbencha.spec.loop import (
    AdapterSpec,
    CliSpec,
    CoreSpec,
    EscalationStep,
    EventLoopSpec,
    GateSpec,
    HatBackend,
    HatSpec,
    LoopRetrySpec,
    LoopSpec,
    MemoriesSpec,
    MemoryFilter,
    TopicSpec,
)
from youbencha.spec.loop_loader import load_loop_file
from youbencha.spec.settings import Settings, load_settings
from youbencha.spec.settings_edit import known_keys
from youbencha.spec.testcase import AgentSpec, DatabaseConfig, EvalConfig, ScriptConfig, TestCase, WebhookConfig
from youbencha.store.bundle import ResultsBundle
from youbencha.trial.checks import check_parts
from youbencha.trial.context import Host
from youbencha.trial.outcome import POLICIES

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(__file__).parents[2] / "src" / "youbencha"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("design/*.md"), *DOCS.parent.glob("*.md")])
COMMON = set(AgentConfig.model_fields)
YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)?(#[^)\s]+)?\)")


def text_of(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """From a heading to the next one of its kind."""
    text = text_of(name)
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{name}.md has no section {title}"
    return found[2]


def words(text: str) -> set[str]:
    """Everything that stands in backticks, word by word."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[\w-]+", code)}


DOCUMENTS: list[tuple[str, Any]] = [
    (page.stem, YAML(typ="safe", pure=True).load(block))
    for page in PAGES
    for block in YAML_BLOCK.findall(page.read_text(encoding="utf-8"))
]
"""Every YAML block, with the name of its page. Parsed once, because every worker does it to collect the tests."""


def as_test_case(data: Any) -> dict[str, Any] | None:
    """A snippet, completed by what it leaves out. None for what is no part of a test case."""
    whole: dict[str, Any] = {
        "repo": ".",
        "agent": {"type": "claude-code", "config": {"prompt": "Do it."}},
        "evaluators": ["git-diff"],
        "expected": "main",
    }
    if isinstance(data, list) and all("name" in each for each in data):
        return {**whole, "evaluators": data}
    return {**whole, **data} if isinstance(data, dict) and set(data) <= set(TestCase.model_fields) else None


SNIPPETS = [(name, case) for name, data in DOCUMENTS if (case := as_test_case(data))]


def test_snippets_are_found() -> None:
    assert len(SNIPPETS) >= 20
    assert {name for name, _ in SNIPPETS} >= {"README", "getting-started", "test-case", "evaluators", "hooks"}


@pytest.mark.parametrize(("name", "case"), SNIPPETS, ids=[f"{name}-{n}" for n, (name, _) in enumerate(SNIPPETS)])
def test_every_snippet_is_valid(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "small-change.yaml").write_text("name: git-diff\n")
    (tmp_path / "notify.sh").touch(mode=0o755)
    for path in (
        "CLAUDE.md",
        "skills/tax-rules/SKILL.md",
        "reviews/.claude-plugin/plugin.json",
        "checkout/a",
        "home/a",
    ):
        (tmp_path / "given" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "given" / path).touch()
    with (tmp_path / "testcase.yaml").open("w") as file:
        YAML().dump(case, file)
    load_test_case(tmp_path / "testcase.yaml", check=check_parts)


ARENAS = [data for name, data in DOCUMENTS if name == "thunderdome-yaml"]


@pytest.mark.parametrize("data", ARENAS)
def test_every_arena_is_valid(data: dict[str, Any], tmp_path: Path) -> None:
    with (tmp_path / "thunderdome.yaml").open("w") as file:
        YAML().dump(data, file)
    load_arena_file(tmp_path / "thunderdome.yaml")


LOOPS = [data for name, data in DOCUMENTS if name == "ralph-yml"]


@pytest.mark.parametrize("data", LOOPS)
def test_every_loop_is_valid(data: dict[str, Any], tmp_path: Path) -> None:
    with (tmp_path / "ralph.yml").open("w") as file:
        YAML().dump(data, file)
    loaded = load_loop_file(tmp_path / "ralph.yml")
    check_loop(loaded, Host({}, load_settings(tmp_path, tmp_path)))
    assert loaded.warnings == ()


def test_exactly_the_existing_backends_are_documented() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \|", section("ralph-yml", "Backends"), re.MULTILINE)
    assert rows == [*BACKENDS, "custom"]


@pytest.mark.parametrize(
    ("name", "title", "model", "unsaid"),
    [
        ("test-case", "Keys", TestCase, set()),
        ("test-case", "agent", AgentSpec, set()),
        ("test-case", "Judge a directory", EvalConfig, set()),
        ("thunderdome-yaml", "Keys", ArenaSpec, set()),
        ("thunderdome-yaml", "orchestrators", OrchestratorSpec, set()),
        ("thunderdome-yaml", "variants", VariantSpec, set()),
        ("thunderdome-yaml", "tasks", TaskSpec, set()),
        ("thunderdome-yaml", "weights", Weights, set()),
        ("thunderdome-yaml", "weights", GreenWeights, set()),
        ("thunderdome-yaml", "rubric", RubricSpec, set()),
        ("thunderdome-yaml", "resources", ResourcesSpec, set()),
        ("thunderdome-yaml", "validation", ValidationSpec, set()),
        ("thunderdome-yaml", "budgets", BudgetSpec, set()),
        ("ralph-yml", "Keys", LoopSpec, set()),
        ("ralph-yml", "cli", CliSpec, set()),
        ("ralph-yml", "event_loop", EventLoopSpec, set()),
        ("ralph-yml", "Failures", LoopRetrySpec, set()),
        ("ralph-yml", "Failures", EscalationStep, set()),
        ("ralph-yml", "gates", GateSpec, set()),
        ("ralph-yml", "hats", HatSpec, set()),
        ("ralph-yml", "hats", HatBackend, set()),
        ("ralph-yml", "core", CoreSpec, set()),
        ("ralph-yml", "memories", MemoriesSpec, set()),
        ("ralph-yml", "memories", MemoryFilter, set()),
        ("ralph-yml", "Keys", TopicSpec, set()),
        ("ralph-yml", "Keys", AdapterSpec, set()),
        ("hooks", "script", ScriptConfig, set()),
        ("hooks", "webhook", WebhookConfig, set()),
        ("hooks", "database", DatabaseConfig, set()),
        ("evaluators", "expected-diff", ExpectedDiffConfig, {"include_paths", "exclude_paths"}),
        ("evaluators", "command", CommandEvaluatorConfig, {"in_copy", "label"}),
        ("evaluators", "agentic-judge", JudgeConfig, {"instructions_file"}),
        ("results", "results.json", ResultsBundle, set()),
        ("settings", "Settings", Settings, set()),
        ("other-agents", "aider", AiderConfig, COMMON),
        ("other-agents", "copilot-cli", CopilotCliConfig, COMMON),
        ("other-agents", "codex", CodexConfig, COMMON),
        ("other-agents", "gemini-cli", GeminiCliConfig, COMMON),
        ("other-agents", "opencode", OpenCodeConfig, COMMON),
        ("other-agents", "command: any program", CommandAgentConfig, COMMON),
        ("other-agents", "Other agents", AgentConfig, set()),
    ],
)
def test_every_key_is_documented(name: str, title: str, model: Any, unsaid: set[str]) -> None:
    assert set(model.model_fields) - unsaid - words(section(name, title)) == set()


def test_every_key_of_ralph_is_documented() -> None:
    names = {path[-1] for path in ralph.ALL_KEYS} - {"_suppress_warnings", "args", "enabled"}
    assert names - words(section("ralph-yml", "Keys of Ralph")) == set()


def test_every_option_of_git_diff_is_documented() -> None:
    said = words(section("evaluators", "git-diff"))
    old = {"base_commit", "include_entropy"}
    limits = {field for field in GitDiffConfig.model_fields if field.startswith(("min_", "max_"))}
    assert set(GitDiffConfig.model_fields) - limits - old - said == set()
    assert {limit.partition("_")[2] for limit in limits} <= said


def test_exactly_the_existing_settings_are_documented() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \|", text_of("settings"), re.MULTILINE)
    elsewhere = ("variables.", "gateway.", "sandbox.")  # what these take has pages of its own
    assert set(rows) == {key for key in known_keys() if not key.startswith(elsewhere)} - {"agent", "evaluators"}


def test_exactly_the_existing_commands_have_a_section() -> None:
    titles = re.findall(r"^## yb ([a-z-]+)$", text_of("commands"), re.MULTILINE)
    assert sorted(titles) == sorted(COMMANDS)


def test_the_readme_names_every_command() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^## Commands\n(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`yb ([a-z-]+)", table)) == set(COMMANDS)


@cache
def options_of(name: str) -> set[str]:
    """What a command takes, those of its subcommands included."""
    module, _, attribute = COMMANDS[name].where.partition(":")
    found = getattr(import_module(f"youbencha.cli.{module}"), attribute)
    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(name)(found)
    command: Any = typer.main.get_command(app)
    commands = [command, *getattr(command, "commands", {}).values()]
    return {
        option for command in commands for param in command.params for option in (*param.opts, *param.secondary_opts)
    }


def options_in(text: str) -> set[str]:
    """The options in a section, in its code and in its tables."""
    inline = re.findall(r"`([^`\n]+)`", text)
    calls = re.findall(r"^\$ yb (.*?)(?:#.*)?$", text, re.MULTILINE)
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(inline + calls)))


@pytest.mark.parametrize("name", COMMANDS)
def test_exactly_the_existing_options_are_in_their_commands_section(name: str) -> None:
    common = {"--config", "--debug", "--install-completion", "--show-completion", "--version"}
    long = {option for option in options_of(name) if option.startswith("--")}
    assert options_in(section("commands", f"yb {name}")) - common == long - common


def test_every_schema_is_named() -> None:
    assert {each.value for each in Format} <= words(section("commands", "yb schema"))


def test_the_documented_outcomes_match_the_code() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (yes|no) \|", section("results", "What kind of result is it?"), re.MULTILINE)
    assert {name: valid == "yes" for name, valid in rows} == {name: each.valid for name, each in POLICIES.items()}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_resolves(path: Path) -> None:
    for target, anchor in LINK.findall(path.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        file = (path.parent / target) if target else path
        assert file.exists(), f"{path.name}: {target}"
        if anchor:
            assert anchor[1:] in anchors(file), f"{path.name}: {target}{anchor}"


def test_every_picture_exists() -> None:
    readme = DOCS.parent / "README.md"
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', readme.read_text(encoding="utf-8"))
    assert len(pictures) == 2
    assert all((readme.parent / name).is_file() for name in pictures)


def anchors(path: Path) -> set[str]:
    """As GitHub makes them out of headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_glossary_is_sorted_and_names_every_outcome() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", text_of("glossary"), re.MULTILINE)
    assert len(terms) > 40
    assert terms == sorted(terms)
    assert set(POLICIES) <= words(text_of("glossary"))


def test_contributing_names_every_package() -> None:
    source = DOCS.parent / "src" / "youbencha"
    packages = {each.name for each in source.iterdir() if (each / "__init__.py").is_file()}
    modules = {each.stem for each in source.glob("*.py") if not each.stem.startswith("_")}
    contributing = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (layout,) = re.findall(r"^## Layout\n(.*?)^## ", contributing, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"^\| (`.*?) \|", layout, re.MULTILINE)))
    assert set(named) == packages | modules


def test_the_architecture_page_names_existing_files_and_names() -> None:
    """Every file exists, and every name that follows a file is defined in it."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    missing = []
    for file, names in re.findall(
        r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|c))`((?:,?\s+(?:and\s+)?`(?!\w+\.py)[A-Za-z_.]+`(?![\w/]))*)", page
    ):
        if not (SOURCE / file).exists():
            missing.append(file)
            continue
        source = (SOURCE / file).read_text(encoding="utf-8")
        for name in re.findall(r"`([A-Za-z_]+)(?:\.[a-z_]+)?`", names):
            if not re.search(rf"^(?:async def|def|class) {name}\b", source, re.M):
                missing.append(f"{file}: {name}")
    assert missing == []


def texts_in(source: str) -> Iterator[tuple[str, bool]]:
    """Every text in a module, with `{}` for what is only known later; and whether it is a hint."""
    nodes = list(ast.walk(ast.parse(source)))
    given: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            given += [keyword.value for keyword in node.keywords if keyword.arg in ("hint", "fix")]
            given += node.args[2:3] if names_in(node.func).endswith("problem") else []
        elif isinstance(node, ast.Assign) and any("hint" in names_in(target) for target in node.targets):
            given.append(node.value)
    hints = {id(part) for each in given for part in ast.walk(each)}
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield (
                "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values),
                id(node) in hints,
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value, id(node) in hints


def names_in(node: ast.expr) -> str:
    """Return an expression as it is written, in lower case; for an attribute, only the attribute's own name."""
    if isinstance(node, ast.Attribute | ast.Name):
        return (node.attr if isinstance(node, ast.Attribute) else node.id).lower()
    return ast.unparse(node).lower()


CALL = re.compile(r"(?<![\w/.-])yb ([a-z][a-z-]*)((?: [^\n`,;.()]*)?)")
OTHERS = {"--binary", "--filter", "--oneline", "--user", "--config"}
"""In hints, options of docker, git, systemctl and litellm."""


def wrong_calls(text: str) -> list[str]:
    """Commands of `yb` in a text that do not exist, or not with these options."""
    wrong = []
    for name, rest in CALL.findall(text):
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest))
        if name not in COMMANDS or not options <= options_of(name) | {"--help", "--debug"}:
            wrong.append(f"yb {name}{rest}")
    return wrong


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_on_a_page_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    calls = re.findall(r"`(yb [^`\n]+)`", text) + re.findall(r"^(?:\$ )?(yb .*?)(?:  +#.*)?$", text, re.MULTILINE)
    assert [call for each in calls for call in wrong_calls(each)] == []


def test_commands_and_options_in_messages_exist() -> None:
    known = set().union(OTHERS, *map(options_of, COMMANDS), {"--debug"})
    wrong, texts, hints = [], 0, 0
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "yb " not in source and "--" not in source:
            continue
        for text, is_hint in texts_in(source):
            unknown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - known if is_hint else set()
            wrong += [f"{path.relative_to(SOURCE)}: {each}" for each in (*wrong_calls(text), *unknown)]
            texts, hints = texts + bool(CALL.search(text)), hints + is_hint
    assert wrong == []
    assert min(texts, hints) > 50
