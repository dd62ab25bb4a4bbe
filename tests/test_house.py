"""The layers of docs/architecture.md: which package may import which, and which libraries load only on demand."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Container, Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

import youbencha
from systems import ON_WINDOWS

SOURCE = Path(youbencha.__file__).parent
TESTS = Path(__file__).parent

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"youbencha"}),  # the version, nothing else
    frozenset({"errors", "events", "text"}),
    frozenset({"files", "json_lines", "plugins", "usage", "user_dirs"}),
    frozenset({"locks"}),
    frozenset({"spec", "log"}),
    frozenset({"process"}),
    frozenset({"workspace", "transcript"}),
    frozenset({"store"}),
    frozenset({"sandbox", "gateway"}),
    frozenset({"adapters", "scoring", "scripted_model", "stats"}),
    frozenset({"control", "evaluators", "hooks", "report", "testing"}),
    frozenset({"trial"}),
    frozenset({"engine", "loop"}),
    frozenset({"tui"}),
    frozenset({"demo", "doctor", "scaffold", "suggest"}),
    frozenset({"cli"}),
)
"""From the lowest up. A package imports only from lower layers, never from a neighbour."""

LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names}
NOT_OURS = ("demo/repository/", "evaluators/validation/runner_hooks/")
"""Files that are material for agents and test runners, not modules of the package."""


class Import(NamedTuple):
    file: str
    line: int
    module: str
    name: str | None

    def __str__(self) -> str:
        statement = f"from {self.module} import {self.name}" if self.name else f"import {self.module}"
        return f"{self.file}:{self.line}: {statement}"


class Facts(NamedTuple):
    """What the tests need to know about one module. Keeping its syntax tree would slow down the garbage collector."""

    imports: tuple[Import, ...]
    """Imports of our own modules."""
    imports_when_loaded: tuple[Import, ...]
    packages: frozenset[str]
    """The top-level packages that it imports, ours included."""
    classes: tuple[str, ...]
    exported: frozenset[str]
    """The names in its `__all__`."""


def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if not relative(path).startswith(NOT_OURS)]


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [
        (item, loaded) for node, loaded in import_statements(tree, path) for item in imports_in(node, relative(path))
    ]
    ours = [(item, loaded) for item, loaded in imports if is_ours(item.module)]
    return Facts(
        imports=tuple(item for item, _ in ours),
        imports_when_loaded=tuple(item for item, loaded in ours if loaded),
        packages=frozenset(item.module.partition(".")[0] for item, _ in imports),
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        exported=frozenset(name for node in tree.body for name in names_in_all(node)),
    )


def import_statements(tree: ast.Module, path: Path) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield each import statement, and whether it runs when the module is loaded."""
    queue: list[tuple[ast.AST, bool]] = [(tree, True)]
    for node, loaded in queue:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, loaded
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        loaded_below = loaded and not is_function and (not for_types or path.name == "__init__.py")
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):  # expressions cannot import
            children = getattr(node, field, ())
            queue += [(child, loaded_below) for child in children] if isinstance(children, list) else []


def imports_in(node: ast.Import | ast.ImportFrom, file: str) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        return (Import(file, node.lineno, alias.name, None) for alias in node.names)
    assert node.level == 0, f"{file}:{node.lineno} is relative"
    return (Import(file, node.lineno, node.module or "", alias.name) for alias in node.names)


def names_in_all(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
        return list(ast.literal_eval(node.value))
    return []


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "youbencha"


def package_of(module: str, name: str | None = None) -> str:
    parts = module.split(".")
    if len(parts) > 1:
        return parts[1]
    return name if name in LAYER_OF and name is not None else "youbencha"


def home_of(file: str) -> str:
    first = file.split("/")[0].removesuffix(".py")
    return "youbencha" if first == "__init__" else first


def module_name(path: Path) -> str:
    return ".".join(("youbencha", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def imported_module(item: Import, names: Container[str]) -> str:
    """Return the module that an import loads: a name imported from a package may be a module of it."""
    return below if (below := f"{item.module}.{item.name}") in names else item.module


@cache
def all_imports() -> list[Import]:
    return [item for path in modules() for item in facts(path).imports]


def test_every_package_has_a_layer() -> None:
    packages = {home_of(relative(path)) for path in modules()}
    assert packages == set(LAYER_OF), "a new package needs its place in LAYERS"


def test_imports_lead_only_to_lower_layers() -> None:
    wrong = []
    for item in all_imports():
        home, target = home_of(item.file), package_of(item.module, item.name)
        if home != target and LAYER_OF[target] >= LAYER_OF[home]:
            wrong.append(f"{item}   ({home} is not above {target})")
    assert len(all_imports()) > 200
    assert wrong == []


def test_no_private_name_is_imported_from_another_module() -> None:
    wrong = []
    for item in all_imports():
        parts = [*item.module.split("."), item.name or ""]
        private = any(part.startswith("_") and not part.startswith("__") for part in parts)
        own = item.module.removeprefix("youbencha.").replace(".", "/") + ".py" == item.file
        if private and not own:
            wrong.append(str(item))
    assert wrong == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    names = {module_name(path): path for path in modules()}
    graph = {
        name: {module for item in facts(path).imports_when_loaded if (module := imported_module(item, names)) != name}
        for name, path in names.items()
    }
    TopologicalSorter(graph).prepare()


def test_public_classes_have_unique_names() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        for name in facts(path).classes:
            if not name.startswith("_"):
                homes.setdefault(name, []).append(module_name(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_every_module_can_be_imported() -> None:
    names = [
        module_name(path)
        for path in modules()
        if not (ON_WINDOWS and '\nassert sys.platform != "win32"\n' in path.read_text(encoding="utf-8"))
    ]
    script = "\n".join(f"import {name}" for name in names)
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""


ON_DEMAND = {"aiodocker", "aiohttp", "litellm", "ray", "scipy", "textual"}
"""Large libraries that most commands do not need: functions import them."""


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import youbencha.cli.app", {*ON_DEMAND, "jinja2", "numpy", "pydantic"}),  # `yb --version`
        ("import youbencha.cli.run, youbencha.trial.run", ON_DEMAND),
    ],
)
def test_large_libraries_are_loaded_on_demand(statement: str, unwanted: set[str]) -> None:
    script = f"{statement}\nimport sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) & unwanted == set()


COMES_WITH = {"pydantic_core": "pydantic", "markupsafe": "jinja2"}
INSTALLED_ELSEWHERE = {"aider": "in Aider's own environment"}


def test_only_declared_dependencies_are_imported() -> None:
    """The extra `dev` does not count: users do not install it."""
    requirements = [item for item in metadata.requires("youbencha") or () if not re.search(r"extra == .dev.", item)]
    installed = {canonical(re.split(r"[^\w.-]", item)[0]) for item in requirements}
    distributions_of = metadata.packages_distributions()
    wrong = set()
    for path in modules():
        for name in facts(path).packages - sys.stdlib_module_names - {"youbencha", *INSTALLED_ELSEWHERE}:
            distributions = distributions_of.get(COMES_WITH.get(name, name), ())
            if not installed & {canonical(distribution) for distribution in distributions}:
                wrong.add(f"{relative(path)}: {name}")
    assert wrong == set()


def canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_test_modules_have_unique_names() -> None:
    """They are imported by their bare names, so two modules of one name would be one."""
    first: dict[str, Path] = {}
    duplicates = []
    for path in sorted(TESTS.rglob("*.py")):
        if path.name in ("conftest.py", "__init__.py"):
            continue
        if path.name in first:
            duplicates.append(f"{path} and {first[path.name]}")
        first[path.name] = path
    assert duplicates == []


def exported(package: str) -> frozenset[str]:
    """Return the names in `__all__` of a package, none for a module."""
    file = SOURCE.joinpath(*package.split(".")[1:], "__init__.py")
    return facts(file).exported if file.exists() else frozenset()


FROM_OURS = re.compile(r"^[ \t]*(from youbencha[\w.]* import (?:\([^)]*\)|[^\n(]*))", re.MULTILINE)


def test_tests_import_public_names_from_their_package() -> None:
    """So the modules inside a package can be moved and renamed. Scripts that a test runs are held to it as well."""
    wrong = []
    for path in sorted(TESTS.rglob("*.py")):
        for statement in FROM_OURS.findall(path.read_text(encoding="utf-8")):
            node = ast.parse(statement).body[0]
            assert isinstance(node, ast.ImportFrom)
            for item in imports_in(node, path.relative_to(TESTS).as_posix()):
                parents = [item.module.rsplit(".", depth)[0] for depth in range(1, item.module.count("."))]
                public = next((package for package in parents if item.name in exported(package)), None)
                if public and item.name not in exported(item.module):
                    wrong.append(f"{item}   (import it from {public})")
    assert wrong == []
