"""Load test cases and eval configurations: substitute variables, read evaluator files, check everything."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from youbencha.errors import ConfigError, KeyPath, Problem, ProblemKind
from youbencha.spec.compat import youbencha
from youbencha.spec.document import Document, read_document
from youbencha.spec.testcase import AgentOverride, EvalConfig, EvaluatorFile, TestCase
from youbencha.spec.variables import Step, substitute_tree
from youbencha.text import did_you_mean

_FREE_TEXT: tuple[tuple[str, ...], ...] = (
    ("description",),
    ("agent", "config"),
    ("agent", "env"),
    ("evaluators",),
    ("config",),
    ("pre_execution",),
    ("post_evaluation",),
)
"""Keys where an undefined `${NAME}` may be literal text: a prompt about templates, a hook's shell line, an environment
variable. Elsewhere (`repo`, `branch` …) it is a mistake."""

Case = TypeVar("Case", bound=TestCase | EvalConfig)


class NamedEvaluator(NamedTuple):
    """An evaluator with its configuration: plain data."""

    name: str
    config: Mapping[str, Any]
    config_dir: Path
    """The directory where relative paths in `config` start."""


class LocatedEvaluator(NamedTuple):
    """An evaluator, and where it is written: in the test case, or in a separate file."""

    name: str
    config: Mapping[str, Any]
    config_dir: Path
    document: Document
    path: tuple[Step, ...]
    """The path of the entry with `name` and `config` in that document."""

    def named(self) -> NamedEvaluator:
        return NamedEvaluator(self.name, self.config, self.config_dir)

    def problem(
        self, message: str, hint: str | None = None, *, key: tuple[Step, ...] = (), kind: ProblemKind = "invalid"
    ) -> Problem:
        return self.document.problem((*self.path, *key), message, hint, kind=kind)


class LoadedCase(NamedTuple, Generic[Case]):
    """A valid test case or eval configuration, and where it is written."""

    case: Case
    document: Document
    directory: Path
    """The directory where relative paths in it start."""
    evaluators: tuple[LocatedEvaluator, ...]
    config_hash: str
    unknown_variables: tuple[Problem, ...] = ()
    """Warnings about undefined variables in free text, where they may be literal text."""

    @property
    def file(self) -> Path | None:
        """None if it was not read from a file."""
        return self.document.file and self.document.file.absolute()

    @property
    def name(self) -> str:
        return self.case.name or (self.file.stem if self.file else "unnamed")


class CaseParts(NamedTuple):
    """The parts of a test case that only adapters and evaluators can check: their own options.

    They are read even from an invalid file, so that all problems are reported at once.
    """

    document: Document
    directory: Path
    agent: Mapping[str, Any] | None
    evaluators: tuple[LocatedEvaluator, ...]


Check = Callable[[CaseParts], Sequence[Problem]]


def load_test_case(
    path: Path | str,
    variables: Mapping[str, Any] | None = None,
    *,
    check: Check | None = None,
    agent: AgentOverride | None = None,
) -> LoadedCase[TestCase]:
    """Load a test case; `agent` replaces what the file says about the agent."""
    document = read_document(path, code="TEST_CASE_INVALID", what="The test case")
    return _load(path, document, TestCase, variables or {}, check, agent)


def check_test_case(case: TestCase, directory: Path | str, *, check: Check | None = None) -> LoadedCase[TestCase]:
    """Check a test case that is in no file. Relative paths in it start at `directory`."""
    data = case.model_dump(mode="json", exclude_unset=True)
    document = Document(data, None, "TEST_CASE_INVALID", "The test case")
    return _check(case, document, Path(directory).absolute(), {}, check, [])


def load_eval_config(
    path: Path | str, variables: Mapping[str, Any] | None = None, *, check: Check | None = None
) -> LoadedCase[EvalConfig]:
    document = read_document(path, code="EVAL_CONFIG_INVALID", what="The eval configuration")
    return _load(path, document, EvalConfig, variables or {}, check)


def is_eval_config(path: Path) -> bool:
    """Whether a file's keys are those of an eval configuration, not of a test case."""
    try:
        data = read_document(path, code="", what="").data
    except ConfigError:
        return False
    return isinstance(data, Mapping) and "directory" in data and "repo" not in data and "agent" not in data


def _load(
    path: Path | str,
    document: Document,
    model: type[Case],
    variables: Mapping[str, Any],
    check: Check | None,
    agent: AgentOverride | None = None,
) -> LoadedCase[Case]:
    document, _, refusals = document.translated(youbencha.translate)
    document, problems, literal = _substitute(document, variables)
    problems += refusals
    if agent is not None:
        document = replace(document, data=agent.merged_over(document.data))
    case = document.validate(model)
    loaded = _check(case, document, Path(path).absolute().parent, variables, check, problems)
    return loaded._replace(unknown_variables=tuple(literal))


def _check(
    case: Case | list[Problem],
    document: Document,
    directory: Path,
    variables: Mapping[str, Any],
    check: Check | None,
    problems: list[Problem],
) -> LoadedCase[Case]:
    """Check everything else. `case` is the model, or its problems; `problems` are those of earlier steps."""
    problems += case if isinstance(case, list) else []
    parts = _read_parts(document, directory, variables, problems)
    problems += check(parts) if check else []
    if isinstance(case, list) or problems:
        raise document.error(_first_at_each_path(problems))
    return LoadedCase(case, document, directory, parts.evaluators, _hash(case, parts.evaluators))


def _first_at_each_path(problems: Sequence[Problem]) -> list[Problem]:
    """Keep one problem for each part: an undefined variable is often an invalid value as well."""
    first: dict[tuple[Path | None, KeyPath], Problem] = {}
    for problem in problems:
        first.setdefault((problem.file, problem.keys), problem)
    return list(first.values())


def _substitute(document: Document, variables: Mapping[str, Any]) -> tuple[Document, list[Problem], list[Problem]]:
    """Return the document with its variables substituted, problems with undefined ones, and those in free text."""
    undefined: list[Problem] = []
    literal: list[Problem] = []

    def on_undefined(path: tuple[Step, ...], name: str) -> None:
        in_free_text = any(path[: len(prefix)] == prefix for prefix in _FREE_TEXT)
        message = f"${{{name}}} is not defined"
        hint = f"define it under `variables` in .youbencharc, or give --var {name}=VALUE"
        if path[:2] == ("agent", "env"):
            message += " here; a run takes it from the environment"
            hint = f"export {name}, or {hint}"
        elif in_free_text:
            message += ", and stays unchanged"
        problem = document.problem(path, message, did_you_mean(name, variables) or hint)
        (literal if in_free_text else undefined).append(problem)

    return replace(document, data=substitute_tree(document.data, variables, on_undefined)), undefined, literal


def _read_parts(
    document: Document, directory: Path, variables: Mapping[str, Any], problems: list[Problem]
) -> CaseParts:
    data = document.data if isinstance(document.data, Mapping) else {}
    agent, entries = data.get("agent"), data.get("evaluators")
    evaluators: list[LocatedEvaluator] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        path: tuple[Step, ...] = ("evaluators", index)
        name, config, file = _name_config_file(entry)
        if isinstance(file, str) and name is None:
            target = directory / Path(file.strip()).expanduser()
            try:
                evaluators.append(_read_evaluator(target, variables))
            except ConfigError as error:
                missing = document.problem((*path, "file"), f"{file}: {error.problems[0].message}")
                problems += error.problems if target.is_file() else [missing]
        elif isinstance(name, str) and isinstance(config, Mapping):
            evaluators.append(LocatedEvaluator(name.strip(), config, directory, document, path))
    return CaseParts(document, directory, agent if isinstance(agent, Mapping) else None, tuple(evaluators))


def _name_config_file(entry: Any) -> tuple[Any, Any, Any]:
    if isinstance(entry, Mapping):
        config = entry.get("config")
        return entry.get("name"), {} if config is None else config, entry.get("file")
    return entry, {}, None


def _read_evaluator(file: Path, variables: Mapping[str, Any]) -> LocatedEvaluator:
    read = read_document(file, code="EVALUATOR_INVALID", what="The evaluator file")
    document, undefined, _ = _substitute(read, variables)
    model = document.validate(EvaluatorFile)
    if isinstance(model, list) or undefined:
        raise ConfigError(document.code, document.what, [*undefined, *(model if isinstance(model, list) else [])])
    return LocatedEvaluator(model.name, model.config, file.parent, document, ())


def _hash(case: TestCase | EvalConfig, evaluators: Sequence[LocatedEvaluator]) -> str:
    """A hash of the content: comments, the order of keys and file names do not matter."""
    content = case.model_dump(mode="json", exclude={"evaluators"}, exclude_none=True)
    content["evaluators"] = [{"name": evaluator.name, "config": dict(evaluator.config)} for evaluator in evaluators]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)).hexdigest()
