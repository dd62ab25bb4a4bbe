"""Test cases and eval configurations from their files: variables put in, evaluator files read, everything checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from youbencha.errors import ConfigError, Problem, ProblemKind
from youbencha.spec.document import Document, read_document
from youbencha.spec.testcase import AS_WRITTEN, AgentChoice, EvalConfig, EvaluatorFile, TestCase
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
    ("post_evaluators",),
)
"""Where `${NAME}` may be meant as it stands: a prompt about templates, a hook's shell line, a variable of the
environment. Elsewhere (`repo`, `branch` …) one that nobody defined is a mistake."""

Case = TypeVar("Case", bound=TestCase | EvalConfig)


class NamedEvaluator(NamedTuple):
    """An evaluator with its configuration, wherever it was written."""

    name: str
    config: Mapping[str, Any]
    config_dir: Path
    source: Document
    path: tuple[Step, ...]
    """Where `name` and `config` stand in that source."""

    def problem(
        self, message: str, hint: str | None = None, *, key: tuple[Step, ...] = (), kind: ProblemKind = "invalid"
    ) -> Problem:
        return self.source.problem((*self.path, *key), message, hint, kind=kind)


class Loaded(NamedTuple, Generic[Case]):
    """What a file says, and the file."""

    case: Case
    source: Document
    file: Path
    evaluators: tuple[NamedEvaluator, ...]
    config_hash: str
    unknown_variables: tuple[Problem, ...] = ()
    """Named in free text, where they may be meant as they stand."""

    @property
    def name(self) -> str:
        return self.case.name or self.file.stem

    @property
    def directory(self) -> Path:
        """Where relative paths in the file start."""
        return self.file.parent


class Parts(NamedTuple):
    """What only others can judge: an adapter its options, an evaluator its own.

    Taken from the file even where something else in it is wrong, so that a person learns of everything at once.
    """

    source: Document
    directory: Path
    agent: Mapping[str, Any] | None
    evaluators: tuple[NamedEvaluator, ...]


Check = Callable[[Parts], Sequence[Problem]]


def load_test_case(
    path: Path,
    variables: Mapping[str, Any] | None = None,
    *,
    check: Check | None = None,
    agent: AgentChoice = AS_WRITTEN,
) -> Loaded[TestCase]:
    """`agent` is taken instead of what the file says of it."""
    return _load(
        path, TestCase, variables or {}, check, code="TEST_CASE_INVALID", what="The test case", changed=agent.over
    )


def load_eval_config(
    path: Path, variables: Mapping[str, Any] | None = None, *, check: Check | None = None
) -> Loaded[EvalConfig]:
    return _load(path, EvalConfig, variables or {}, check, code="EVAL_CONFIG_INVALID", what="The eval configuration")


def is_eval_config(path: Path) -> bool:
    """Which of the two a file is, as far as its keys tell: one has a repository, the other a directory."""
    try:
        data = read_document(path, code="", what="").data
    except ConfigError:
        return False
    return isinstance(data, Mapping) and "directory" in data and "repo" not in data and "agent" not in data


def _load(
    path: Path,
    model: type[Case],
    variables: Mapping[str, Any],
    check: Check | None,
    *,
    code: str,
    what: str,
    changed: Callable[[Any], Any] | None = None,
) -> Loaded[Case]:
    file = path.absolute()
    source, problems, harmless = _substituted(read_document(path, code=code, what=what), variables)
    source = source.with_data(changed(source.data)) if changed else source
    case = source.validate(model)
    problems += case if isinstance(case, list) else []
    parts = _parts(source, file.parent, variables, problems)
    problems += check(parts) if check else []
    if isinstance(case, list) or problems:
        raise source.error(_without_echo(problems))
    return Loaded(case, source, file, parts.evaluators, _hash(case, parts.evaluators), tuple(harmless))


def _without_echo(problems: Sequence[Problem]) -> list[Problem]:
    """One problem for each place, the first: an undefined variable is often no valid value, either."""
    return list({(problem.file, problem.path): problem for problem in reversed(problems)}.values())


def _substituted(source: Document, variables: Mapping[str, Any]) -> tuple[Document, list[Problem], list[Problem]]:
    undefined: list[Problem] = []
    harmless: list[Problem] = []

    def on_unknown(path: tuple[Step, ...], name: str) -> None:
        free = any(path[: len(prefix)] == prefix for prefix in _FREE_TEXT)
        message = f"${{{name}}} is not defined" + (", and stays as it is" if free else "")
        (harmless if free else undefined).append(source.problem(path, message, _hint(name, variables)))

    return source.with_data(substitute_tree(source.data, variables, on_unknown)), undefined, harmless


def _hint(name: str, variables: Mapping[str, Any]) -> str:
    define = f"define it under `variables` in .youbencharc, or give --var {name}=VALUE"
    return did_you_mean(name, variables) or define


def _parts(source: Document, directory: Path, variables: Mapping[str, Any], problems: list[Problem]) -> Parts:
    data = source.data if isinstance(source.data, Mapping) else {}
    agent, written = data.get("agent"), data.get("evaluators")
    found: list[NamedEvaluator] = []
    for index, entry in enumerate(written if isinstance(written, list) else []):
        path: tuple[Step, ...] = ("evaluators", index)
        name, config, file = _entry(entry)
        if isinstance(file, str) and name is None:
            try:
                found.append(_from_file(directory / Path(file.strip()).expanduser(), variables))
            except _FileProblems as wrong:
                missing = source.problem((*path, "file"), f"{file}: {wrong.problems[0].message}")
                problems += [missing] if wrong.missing else wrong.problems
        elif isinstance(name, str) and isinstance(config, Mapping):
            found.append(NamedEvaluator(name.strip(), config, directory, source, path))
    return Parts(source, directory, agent if isinstance(agent, Mapping) else None, tuple(found))


def _entry(written: Any) -> tuple[Any, Any, Any]:
    if isinstance(written, Mapping):
        config = written.get("config")
        return written.get("name"), {} if config is None else config, written.get("file")
    return written, {}, None


class _FileProblems(Exception):
    def __init__(self, problems: Sequence[Problem], *, missing: bool = False) -> None:
        super().__init__(problems)
        self.problems = problems
        self.missing = missing


def _from_file(file: Path, variables: Mapping[str, Any]) -> NamedEvaluator:
    try:
        source, undefined, _ = _substituted(
            read_document(file, code="EVALUATOR_INVALID", what="The evaluator file"), variables
        )
    except ConfigError as error:
        raise _FileProblems(error.problems, missing=not file.is_file()) from None
    model = source.validate(EvaluatorFile)
    if isinstance(model, list) or undefined:
        raise _FileProblems([*undefined, *(model if isinstance(model, list) else [])])
    return NamedEvaluator(model.name, model.config, file.parent, source, ())


def _hash(case: TestCase | EvalConfig, evaluators: Sequence[NamedEvaluator]) -> str:
    """Of what was meant, not of how it was written: comments, order of keys and file names do not matter."""
    meant = case.model_dump(mode="json", exclude={"evaluators", "version"}, exclude_none=True)
    meant["evaluators"] = [{"name": each.name, "config": dict(each.config)} for each in evaluators]
    return hashlib.sha256(orjson.dumps(meant, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)).hexdigest()
