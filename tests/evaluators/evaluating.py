"""A finished run for an evaluator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from youbencha.evaluators import EvaluationContext, get_evaluator
from youbencha.log.model import AgentInfo, Execution, ModelInfo, YouBenchaLog
from youbencha.process import Redactor
from youbencha.store.bundle import EvaluationResult
from youbencha.workspace import Changes, FileChange

START = "1" * 40
NOW = "2" * 40
A_LOG = YouBenchaLog(
    agent_info=AgentInfo(name="a", version="1", adapter_version="1.0.0"),
    model_info=ModelInfo(name="m", provider="p"),
    execution=Execution(
        started_at="2026-01-01T00:00:00Z",
        completed_at="2026-01-01T00:00:01Z",
        duration_ms=1000,
        exit_code=0,
        status="success",
    ),
)


def problems(evaluator: str, **config: Any) -> list[str]:
    checker = get_evaluator(evaluator)
    found = [*checker.check_config(config, Path()), *checker.check_environment(config, os.environ)]
    return [str(problem) for problem in found]


class OverRun:
    """The directories of a run in `root`, as the trial lays them out."""

    def __init__(self, root: Path) -> None:
        self.artifacts = root / "artifacts"
        self.tree = root / "src-modified"
        self.expected = root / "src-expected"
        self.scratch = root / "scratch"
        for directory in (self.artifacts, self.tree, self.expected, self.scratch):
            directory.mkdir(parents=True)

    def changes(self, *files: FileChange, base: str | None = START) -> Changes:
        patch = self.artifacts / "git-diff.patch"
        patch.write_text("diff --git a/a b/a\n")
        return Changes(files=files, patch_file=patch, base_commit=base, current_commit=NOW)

    async def evaluate(
        self,
        name: str,
        config: dict[str, Any] | None = None,
        *,
        changes: Changes | None = None,
        reference: bool = True,
        by_eval: bool = False,
        left_out: tuple[Path, ...] = (),
    ) -> EvaluationResult:
        own = self.artifacts / "evaluators" / name.replace(":", "-")
        own.mkdir(parents=True, exist_ok=True)
        context = EvaluationContext(
            name=name,
            config=config or {},
            directory=self.tree,
            artifacts_dir=own,
            config_dir=self.artifacts.parent,
            changes=changes,
            expected_dir=self.expected if reference else None,
            log=None if by_eval else A_LOG,
            harness_env=os.environ,
            redactor=Redactor.for_env(os.environ),
            scratch_dir=self.scratch,
            untouched=by_eval,
            left_out=left_out,
        )
        result = await get_evaluator(name).evaluate(context)
        assert result.evaluator == name
        assert EvaluationResult.model_validate_json(result.model_dump_json()) == result
        assert all((self.artifacts / artifact.path).is_file() for artifact in result.artifacts)
        return result


def changed(path: str, additions: int | None = 1, deletions: int | None = 0, kind: str = "modified") -> FileChange:
    return FileChange(path, kind, additions, deletions)  # type: ignore[arg-type]


def binary(path: str) -> FileChange:
    return changed(path, None, None)
