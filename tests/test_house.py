"""The house as DESIGN draws it: who may import whom, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import youbencha
from systems import ON_WINDOWS

SOURCE = Path(youbencha.__file__).parent

FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"youbencha"}),  # the version, nothing else
    frozenset({"errors", "events", "later"}),
    frozenset({"spec", "log"}),
    frozenset({"process"}),
    frozenset({"workspace"}),
    frozenset({"sandbox", "gateway", "control"}),
    frozenset({"adapters"}),
    frozenset({"evaluators", "hooks", "report", "testing"}),
    frozenset({"trial"}),
    frozenset({"demo", "doctor", "scaffold", "suggest"}),
    frozenset({"cli"}),
)
"""From the ground up. A package imports from floors below its own, and never from a neighbour."""

FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}
NOT_OURS = ("demo/repository/",)
"""Files that are material, not code of the house."""


class Import(NamedTuple):
    file: str
    line: int
    module: str
    name: str | None

    def __str__(self) -> str:
        what = f"from {self.module} import {self.name}" if self.name else f"import {self.module}"
        return f"{self.file}:{self.line}: {what}"


def modules() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    return [path for path in found if not str(path.relative_to(SOURCE).as_posix()).startswith(NOT_OURS)]


def imports(path: Path) -> Iterator[Import]:
    """Every import of ours, at the top or inside a function, for the program or only for its types."""
    file = path.relative_to(SOURCE).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (Import(file, node.lineno, alias.name, None) for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} is relative"
            module = node.module or ""
            if is_ours(module):
                yield from (Import(file, node.lineno, module, alias.name) for alias in node.names)


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "youbencha"


def package_of(module: str, name: str | None = None) -> str:
    parts = module.split(".")
    if len(parts) > 1:
        return parts[1]
    return name if name in FLOOR_OF and name is not None else "youbencha"


def home_of(file: str) -> str:
    first = file.split("/")[0].removesuffix(".py")
    return "youbencha" if first == "__init__" else first


ALL = [each for path in modules() for each in imports(path)]


def test_every_package_has_its_floor() -> None:
    packages = {home_of(path.relative_to(SOURCE).as_posix()) for path in modules()}
    assert packages == set(FLOOR_OF), "a new package needs its place in FLOORS"


def test_there_is_something_to_look_at() -> None:
    assert len(ALL) > 200
    assert any(each.file.startswith("cli/") for each in ALL)


def test_imports_only_lead_down() -> None:
    wrong = []
    for each in ALL:
        home, target = home_of(each.file), package_of(each.module, each.name)
        if home != target and FLOOR_OF[target] >= FLOOR_OF[home]:
            wrong.append(f"{each}   ({home} is not above {target})")
    assert wrong == []


def test_nobody_takes_anothers_private_things() -> None:
    wrong = []
    for each in ALL:
        parts = [*each.module.split("."), each.name or ""]
        private = any(part.startswith("_") and not part.startswith("__") for part in parts)
        inside = each.module.removeprefix("youbencha.").replace(".", "/") + ".py" == each.file
        if private and not inside:
            wrong.append(str(each))
    assert wrong == []


def test_the_lowest_floors_stay_light() -> None:
    """`errors` and `events` are imported by everything, so they import nothing but Python itself."""
    for name in ("__init__.py", "errors.py", "events.py"):
        tree = ast.parse((SOURCE / name).read_text(encoding="utf-8"))
        used = {
            (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert used <= sys.stdlib_module_names, name


# What an import brings in. Bounds, not wishes: each was looked at.
HEAVY = {"aiohttp", "textual", "numpy", "scipy", "rich", "typer", "jinja2", "plotly", "ray", "litellm", "pytest"}


def brought_in(statement: str) -> set[str]:
    script = f"{statement}\nimport sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "not_wanted"),
    [
        ("import youbencha", {*HEAVY, "pydantic", "ruamel", "psutil", "asyncio", "orjson"}),
        ("import youbencha.cli", {*HEAVY, "pydantic", "ruamel", "psutil", "asyncio", "orjson"}),
        ("import youbencha.errors, youbencha.events", {*HEAVY, "pydantic", "asyncio"}),
        ("import youbencha.log", HEAVY),
        ("import youbencha.process", {*HEAVY, "pydantic", "ruamel"}),
        ("import youbencha.workspace", {*HEAVY, "pydantic", "ruamel"}),
        # What drives an agent from a script is started beside each: a quarter of its time was pydantic's.
        ("import youbencha.control.cli, youbencha.control.session", {*HEAVY, "pydantic", "ruamel"}),
        ("import youbencha.adapters", HEAVY),
        ("import youbencha.adapters.claude_code", HEAVY),
        ("import youbencha.cli.app", {"aiohttp", "textual", "numpy", "pydantic", "pytest"}),
    ],
)
def test_what_an_import_does_not_bring_in(statement: str, not_wanted: set[str]) -> None:
    assert brought_in(statement) & not_wanted == set()


NEEDS_POSIX = {
    "youbencha.process.guard",
    "youbencha.process.terminal",
    "youbencha.process.systems.guard_line",
    "youbencha.process.systems.nursery",
    "youbencha.process.systems.posix",
}


def test_what_needs_posix_is_known() -> None:
    """Each of these says so in its first lines, to readers and to the type checker."""
    says_so = {
        ".".join(("youbencha", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in modules()
        if '\nassert sys.platform != "win32"\n' in path.read_text(encoding="utf-8")
    }
    assert says_so == NEEDS_POSIX


def test_every_module_can_be_imported_alone() -> None:
    """No module relies on another having been imported before it.

    From the ground up, and what lies below stays loaded: it cannot lead back up, so that it makes no difference.
    """
    names = [".".join(("youbencha", *path.relative_to(SOURCE).with_suffix("").parts)) for path in modules()]
    wanted = [name.removesuffix(".__init__") for name in names if not (ON_WINDOWS and name in NEEDS_POSIX)]
    wanted.sort(key=lambda name: FLOOR_OF[package_of(name)])
    script = (
        "import importlib, sys\n"
        f"for name in {wanted!r}:\n"
        "    package = '.'.join(name.split('.')[:2])\n"
        "    for loaded in list(sys.modules):\n"
        "        if loaded == package or loaded.startswith(package + '.'): del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


def test_test_modules_have_names_of_their_own() -> None:
    """They are imported by their bare names: two of one name would be one."""
    seen: dict[str, Path] = {}
    twice = []
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        if path.name in ("conftest.py", "__init__.py"):
            continue
        if path.name in seen:
            twice.append(f"{path} and {seen[path.name]}")
        seen[path.name] = path
    assert twice == []
