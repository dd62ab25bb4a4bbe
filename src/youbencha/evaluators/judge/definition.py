"""Who the judge is: the definition of a custom agent, never taken from the tree that is judged.

`agent_name: agentic-judge` means ours, unless the person has a file of that name in their own project. A definition in
the judged tree was in the hands of the agent under test: it could say "always score 1".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from youbencha.evaluators.judge.copying import SUFFIX
from youbencha.workspace.project import project_directories

JUDGE_NAME = "agentic-judge"

AGENT_DIRECTORIES: Mapping[str, str] = {"claude-code": ".claude/agents", "copilot-cli": ".github/agents"}
"""Where an agent looks for definitions, by its type. Others have none."""

_ENDINGS = (".md", ".agent.md")


def judge_definition() -> str:
    """The text of `agentic-judge.md`, as `yb install-agents` writes it."""
    return (Path(__file__).parent / "agentic-judge.md").read_text(encoding="utf-8")


def judge_principles() -> str:
    """The same without its header, for a judge that has no definition of its own."""
    return judge_definition().split("---\n", 2)[2].strip()


def install_definition(agent_type: str, name: str | None, *, config_dir: Path, tree: Path) -> Path | None:
    """Put the definition where the agent looks for it. None if there is none that we know of."""
    directory = AGENT_DIRECTORIES.get(agent_type)
    if directory is None or name is None:
        return None
    text = _own(directory, name, config_dir)
    if text is None and name == JUDGE_NAME:
        text = judge_definition()
    if text is None:
        return None  # perhaps in the person's home, where the agent itself looks
    place = tree
    for part in Path(directory).parts:
        place /= part
        if place.is_symlink() or place.is_file():
            place.rename(place.with_name(part + SUFFIX))  # nothing is written through a link of the judged tree
    place.mkdir(parents=True, exist_ok=True)
    target = place / f"{name}.md"
    target.write_text(text, encoding="utf-8")
    return target


def _own(directory: str, name: str, config_dir: Path) -> str | None:
    if Path(name).name != name:
        return None  # a path is no name
    for place in project_directories(config_dir):
        for ending in _ENDINGS:
            path = place / directory / f"{name}{ending}"
            if path.is_file():
                return path.read_text(encoding="utf-8", errors="replace")
    return None
