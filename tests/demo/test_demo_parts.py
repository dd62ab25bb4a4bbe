"""The demo without its agent: the bug is real, and what counts as passed. (`make demo` runs the whole.)"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

import youbencha.demo
from youbencha.cli.demo import _show
from youbencha.demo import DemoOutcome
from youbencha.demo.evaluation import _tests_pass
from youbencha.gateway.script import load_script
from youbencha.log import AgentInfo, Execution, ModelInfo, Status, Usage, YouBenchaLog

HERE = Path(youbencha.demo.__file__).parent


def outcome(status: Status = "success", *, before: bool = False, after: bool = True, model: str = "m") -> DemoOutcome:
    at = "2026-01-01T00:00:00.000Z"
    log = YouBenchaLog(
        agent_info=AgentInfo(name="claude-code", version="2.1.325", adapter_version="1.0.0"),
        model_info=ModelInfo(name=model, provider="anthropic"),
        execution=Execution(started_at=at, completed_at=at, duration_ms=1500, exit_code=0, status=status),
        usage=Usage(input_tokens=12, output_tokens=3),
    )
    return DemoOutcome(log, "+a\n", before, after, Path("/some/[where]"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "repository", tmp_path / "repository"))


@pytest.mark.parametrize(
    ("status", "before", "after", "passed"),
    [
        ("success", False, True, True),
        ("success", False, False, False),
        ("success", True, True, False),  # there was nothing to mend
        ("failed", False, True, False),
        ("timeout", False, True, False),
    ],
)
def test_what_counts_as_passed(status: Status, before: bool, after: bool, passed: bool) -> None:
    assert outcome(status, before=before, after=after).passed is passed


async def test_the_bug_is_real(repository: Path) -> None:
    assert await _tests_pass(repository) is False


async def test_the_scripts_edit_mends_it(repository: Path) -> None:
    script = (HERE / "script.yaml").read_text()
    code = (repository / "pricing.py").read_text()
    wrong, right = "for price in prices[1:]:", "for price in prices:"
    assert wrong in script
    assert right in script
    assert code.count(wrong) == 1
    (repository / "pricing.py").write_text(code.replace(wrong, right))
    assert await _tests_pass(repository) is True


async def test_looking_at_the_tests_leaves_nothing_behind(repository: Path) -> None:
    await _tests_pass(repository)
    assert sorted(path.name for path in repository.iterdir()) == ["pricing.py", "test_pricing.py"]


def test_the_script_can_be_loaded() -> None:
    assert len(load_script(HERE / "script.yaml", variables={"workspace": "/w", "python": "/p"}).turns) == 4


def shown(result: DemoOutcome) -> str:
    stream = io.StringIO()
    _show(result, Console(file=stream, width=200, no_color=True))
    return stream.getvalue()


def test_what_a_person_is_shown() -> None:
    text = shown(outcome())
    assert "success in 1.5 s" in text
    assert "12 in, 3 out" in text
    assert "failed before, passed after" in text
    assert text.endswith("passed: the agent mended the bug\n")
    assert shown(outcome(after=False)).endswith("failed: the agent did not mend the bug\n")


def test_names_are_shown_as_they_are() -> None:
    """Square brackets are markup to the library that draws this."""
    text = shown(outcome(model="claude-opus[1m]"))
    assert "claude-opus[1m]" in text
    assert str(Path("/some/[where]")) in text
