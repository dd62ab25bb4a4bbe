"""The layers of DESIGN: which package may import which, and what an import costs."""

from __future__ import annotations

import ast
import json
import os
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
    frozenset({"files", "json_lines", "plugins", "progress", "usage", "user_dirs"}),
    frozenset({"spec", "log"}),
    frozenset({"process"}),
    frozenset({"workspace"}),
    frozenset({"sandbox", "gateway"}),
    frozenset({"control"}),
    frozenset({"adapters", "scoring", "stats"}),
    frozenset({"evaluators", "hooks", "report", "testing"}),
    frozenset({"trial"}),
    frozenset({"engine", "loop"}),
    frozenset({"tui"}),
    frozenset({"demo", "doctor", "scaffold", "suggest"}),
    frozenset({"cli"}),
)
"""From the lowest up. A package imports from layers below its own, and never from a neighbour."""

LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names}
NOT_OURS = ("demo/repository/", "evaluators/validation/runner_hooks/")
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


class Facts(NamedTuple):
    """What tests ask about a module. Its syntax tree is not kept: so many would slow down the garbage collector."""

    imports: tuple[Import, ...]
    """Imports of our own modules."""
    imports_when_loaded: tuple[Import, ...]
    packages: frozenset[str]
    """The top-level packages that it imports, including ours."""
    classes: tuple[str, ...]
    exported: frozenset[str]
    """The names in its `__all__`."""
    reads_files: bool
    starts_programs: bool


@cache
def facts(path: Path) -> Facts:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    file = path.relative_to(SOURCE).as_posix()
    found = [(each, loaded) for node, loaded in import_statements(tree, path) for each in imported(node, file)]
    ours = [(each, loaded) for each, loaded in found if is_ours(each.module)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if MAY_READ_OR_START.search(text) else []
    return Facts(
        imports=tuple(each for each, _ in ours),
        imports_when_loaded=tuple(each for each, loaded in ours if loaded),
        packages=frozenset(each.module.partition(".")[0] for each, _ in found),
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        exported=frozenset(name for node in tree.body for name in names_in_all(node)),
        reads_files=any(map(reads_a_file, calls)),
        starts_programs=any(name_of_called(call.func).endswith(STARTING) for call in calls),
    )


def import_statements(tree: ast.Module, path: Path) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield each import statement, and whether it is executed when the module is loaded."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, True)]
    for node, loaded in waiting:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, loaded
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        inside = loaded and not later and (not for_types or path.name == "__init__.py")
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):  # expressions cannot import
            below = getattr(node, field, ())
            waiting += [(each, inside) for each in below] if isinstance(below, list) else []


def imported(node: ast.Import | ast.ImportFrom, file: str) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        return (Import(file, node.lineno, alias.name, None) for alias in node.names)
    assert node.level == 0, f"{file}:{node.lineno} is relative"
    return (Import(file, node.lineno, node.module or "", alias.name) for alias in node.names)


def names_in_all(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
        return list(ast.literal_eval(node.value))
    return []


def name_of_called(function: ast.expr) -> str:
    """Return the name of what is called, such as `os.open`; `?` stands for a part that is not a name."""
    if isinstance(function, ast.Attribute):
        return f"{name_of_called(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else "?"


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


@cache
def every_import() -> list[Import]:
    return [each for path in modules() for each in facts(path).imports]


def test_every_package_has_a_layer() -> None:
    packages = {home_of(path.relative_to(SOURCE).as_posix()) for path in modules()}
    assert packages == set(LAYER_OF), "a new package needs its place in LAYERS"


def test_imports_are_found() -> None:
    assert len(every_import()) > 200
    assert any(each.file.startswith("cli/") for each in every_import())


def test_imports_lead_only_to_lower_layers() -> None:
    wrong = []
    for each in every_import():
        home, target = home_of(each.file), package_of(each.module, each.name)
        if home != target and LAYER_OF[target] >= LAYER_OF[home]:
            wrong.append(f"{each}   ({home} is not above {target})")
    assert wrong == []


def test_no_private_name_is_imported_from_another_package() -> None:
    wrong = []
    for each in every_import():
        parts = [*each.module.split("."), each.name or ""]
        private = any(part.startswith("_") and not part.startswith("__") for part in parts)
        inside = each.module.removeprefix("youbencha.").replace(".", "/") + ".py" == each.file
        if private and not inside:
            wrong.append(str(each))
    assert wrong == []


def test_the_lowest_layers_import_only_the_standard_library() -> None:
    """`errors` and `events` are imported by everything, so they import nothing but Python itself."""
    for name in ("__init__.py", "errors.py", "events.py"):
        assert facts(SOURCE / name).packages <= sys.stdlib_module_names, name


# What an import brings in. Bounds, not wishes: each was looked at.
HEAVY = {"aiohttp", "textual", "numpy", "rich", "typer", "jinja2", "plotly", "ray", "litellm", "pytest"}


def brought_in(statement: str) -> set[str]:
    script = f"{statement}\nimport sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "not_wanted"),
    [
        (
            "import youbencha.cli, youbencha.errors, youbencha.events",
            {*HEAVY, "pydantic", "ruamel", "psutil", "asyncio", "orjson"},
        ),
        # What drives an agent from a script is started beside each: a quarter of its time was pydantic's.
        (
            "import youbencha.process, youbencha.workspace, youbencha.control.cli",
            {*HEAVY, "pydantic", "ruamel"},
        ),
        # The gateway's server is loaded while the agent starts.
        (
            "import youbencha.log, youbencha.adapters.claude_code, youbencha.gateway.gateway, "
            "youbencha.trial.gateway_session",
            HEAVY,
        ),
        ("import youbencha.cli.app", {"aiohttp", "textual", "numpy", "pydantic", "pytest"}),
    ],
)
def test_unwanted_modules_are_not_imported(statement: str, not_wanted: set[str]) -> None:
    assert brought_in(statement) & not_wanted == set()


COME_WITH_ANOTHER = {"pydantic_core": "pydantic", "markupsafe": "jinja2"}
NOT_INSTALLED_HERE = {
    "aider": "in Aider's own environment",
    "winpty": "on Windows, by an extra",
}


def test_only_what_users_install_is_imported() -> None:
    """The extra `dev` has more, such as scipy, which tests compare our quantiles with."""
    requirements = [each for each in metadata.requires("youbencha") or () if not re.search(r"extra == .dev.", each)]
    installed = {canonical(re.split(r"[^\w.-]", each)[0]) for each in requirements}
    known_as = metadata.packages_distributions()
    wrong = set()
    for path in modules():
        for name in facts(path).packages - sys.stdlib_module_names - {"youbencha", *NOT_INSTALLED_HERE}:
            distributions = known_as.get(COME_WITH_ANOTHER.get(name, name), ())
            if not installed & {canonical(each) for each in distributions}:
                wrong.add(f"{path.relative_to(SOURCE).as_posix()}: {name}")
    assert wrong == set()


def canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


NEEDS_POSIX = {
    "youbencha.process.guard",
    "youbencha.process.posix",
    "youbencha.process.guard_client",
}


def test_modules_that_need_posix() -> None:
    """Each of these says so in its first lines, to readers and to the type checker."""
    says_so = {
        name_of(path) for path in modules() if '\nassert sys.platform != "win32"\n' in path.read_text(encoding="utf-8")
    }
    assert says_so == NEEDS_POSIX


def test_every_module_can_be_imported() -> None:
    wanted = {name_of(path) for path in modules()} - (NEEDS_POSIX if ON_WINDOWS else set())
    subprocess.run([sys.executable, "-c", "\n".join(f"import {name}" for name in wanted)], check=True, timeout=600)


def test_no_module_relies_on_another_having_been_imported_before_it() -> None:
    """Without imports in a circle, the order in which modules are asked for makes no difference."""
    names = {name_of(path): path for path in modules()}
    graph = {
        name: {found for each in facts(path).imports_when_loaded if (found := target_of(each, names)) != name}
        for name, path in names.items()
    }
    TopologicalSorter(graph).prepare()


def name_of(path: Path) -> str:
    return ".".join(("youbencha", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def target_of(each: Import, names: Container[str]) -> str:
    """A name that is imported from a package may be a module of it."""
    return below if (below := f"{each.module}.{each.name}") in names else each.module


RUN = """
import atexit, sys
from youbencha.cli import main
atexit.register(lambda: print("loaded", *sys.modules))
main()
"""
NOT_FOR_A_RUN = {
    *("_strptime", "aiodocker", "aiohttp", "genai_prices", "http", "jinja2", "psutil", "rapidfuzz", "rich"),
    *("sqlite3", "xml"),
}
MODULES_OF_A_RUN = 117


def test_number_of_modules_loaded_by_a_run(tmp_path: Path) -> None:
    """With a command as the agent, evaluated by git-diff. Every loaded module costs start-up time."""
    git = ("git", "-C", tmp_path, "-c", "user.name=test", "-c", "user.email=test@example.org")
    for arguments in (("init", "-q"), ("commit", "-q", "-m", "start", "--allow-empty")):
        subprocess.run([*git, *arguments], check=True)
    agent = {"type": "command", "config": {"command": [sys.executable, "-c", "open('new.txt', 'w')"]}}
    (tmp_path / "case.json").write_text(json.dumps({"repo": ".", "agent": agent, "evaluators": ["git-diff"]}))
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", RUN, "run", "-c", "case.json", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, env=env, check=True, timeout=120, capture_output=True, text=True)
    verdict, loaded = (line.split() for line in done.stdout.splitlines())
    assert verdict[0] == "passed"
    assert {name.partition(".")[0] for name in loaded} & NOT_FOR_A_RUN == set()
    assert len([name for name in loaded if is_ours(name)]) <= MODULES_OF_A_RUN


def test_test_modules_have_unique_names() -> None:
    """They are imported by their bare names: two of one name would be one."""
    seen: dict[str, Path] = {}
    twice = []
    for path in sorted(TESTS.rglob("*.py")):
        if path.name in ("conftest.py", "__init__.py"):
            continue
        if path.name in seen:
            twice.append(f"{path} and {seen[path.name]}")
        seen[path.name] = path
    assert twice == []


def exported(package: str) -> frozenset[str]:
    """The names in `__all__` of a package; none for a module."""
    file = SOURCE.joinpath(*package.split(".")[1:], "__init__.py")
    return facts(file).exported if file.exists() else frozenset()


FROM_OURS = re.compile(r"^[ \t]*(from youbencha[\w.]* import (?:\([^)]*\)|[^\n(]*))", re.MULTILINE)


def test_tests_import_public_names_from_their_package() -> None:
    """So that the modules inside a package can be moved and renamed. Scripts that a test runs do so, too."""
    wrong = []
    seen = 0
    for path in sorted(TESTS.rglob("*.py")):
        for statement in FROM_OURS.findall(path.read_text(encoding="utf-8")):
            node = ast.parse(statement).body[0]
            assert isinstance(node, ast.ImportFrom)
            for each in imported(node, path.relative_to(TESTS).as_posix()):
                parents = [each.module.rsplit(".", depth)[0] for depth in range(1, each.module.count("."))]
                public = next((package for package in parents if each.name in exported(package)), None)
                if public and each.name not in exported(each.module):
                    wrong.append(f"{each}   (import it from {public})")
                seen += 1
    assert wrong == []
    assert seen > 2000


def test_public_classes_have_unique_names() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        for name in facts(path).classes:
            if not name.startswith("_"):
                homes.setdefault(name, []).append(name_of(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_small_modules_have_more_than_one_importer() -> None:
    """Code that only one module needs belongs into it. A command of `cli` is imported by its name in a table."""
    names = {name_of(path): path for path in modules()}
    importers: dict[str, set[str]] = {}
    for path in modules():
        for each in facts(path).imports:
            importers.setdefault(target_of(each, names), set()).add(name_of(path))
    small = {
        name
        for name, path in names.items()
        if path.name not in ("__init__.py", "__main__.py")
        and not name.startswith("youbencha.cli.")
        and len(importers.get(name, ())) < 2
        and len(path.read_text(encoding="utf-8").splitlines()) < 60
    }
    assert small == set()


AGENT_FILES = ("adapters", "evaluators", "hooks", "report", "suggest", "trial", "workspace")
"""The packages that read what an agent could have written. There is one way to do that: `files.py`."""

READS_OTHERWISE = {
    "adapters/aider/command.py": "a file of the package",
    "adapters/claude_code/adapter.py": "the user's login",
    "adapters/codex/adapter.py": "the user's login",
    "adapters/copilot_cli/adapter.py": "the user's login",
    "adapters/opencode/adapter.py": "the user's login",
    "evaluators/judge/agent.py": "the definition of a judge: of the package, or beside the test case",
    "evaluators/validation/runners.py": "files of the package",
    "evaluators/validation/task.py": "a given file, from the task's commit",
    "hooks/database.py": "the user's database",
    "report/html.py": "a file of the package",
    "trial/agent.py": "the harness's cache",
    "workspace/diff.py": "git's answer, in the private directory",
    "workspace/lock.py": "a lock, which has to be written",
    "workspace/objects.py": "directories, and new files",
    "workspace/reclaim.py": "a directory",
    "workspace/repository.py": "a checkout, before anything runs in it",
}
_COPYING = {f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move")}


def reads_a_file(call: ast.Call) -> bool:
    called = name_of_called(call.func)
    if called == "os.open" or called in _COPYING:
        return True
    if called == "open" or called.endswith(".open"):
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        return any(isinstance(each, ast.Constant) and each.value in ("r", "rb") for each in values)
    return called.endswith((".read_text", ".read_bytes"))


def test_files_of_an_agent_are_read_in_one_way() -> None:
    """A pipe would block the harness for ever, a link would lead to the user's files, a sparse file has no end."""
    reading = {
        path.relative_to(SOURCE).as_posix()
        for path in modules()
        if home_of(path.relative_to(SOURCE).as_posix()) in AGENT_FILES and facts(path).reads_files
    }
    assert reading == set(READS_OTHERWISE)


STARTS_PROGRAMS = {"process/guard.py", "process/guard_client.py", "process/windows_kernel.py", "workspace/git.py"}
"""Each without the harness's terminal and its descriptors: `tests/runs/test_run_terminal.py` looks at all of them."""

IN_THE_USERS_TERMINAL = {"loop/planning.py"}
INSIDE_AN_AGENT = {"adapters/aider/guard.py"}
STARTING = ("subprocess.run", "subprocess.Popen", "create_subprocess_exec", "create_subprocess_shell", "os.system")
STARTING += ("os.execv", "os.execve", "os.posix_spawn", "CreateProcess")


MAY_READ_OR_START = re.compile(r"open\(|read_|shutil\.|" + "|".join(map(re.escape, STARTING)))
"""Found in the text of every module that reads files or starts programs; the others need not be searched."""


def test_modules_that_start_programs() -> None:
    starting = {path.relative_to(SOURCE).as_posix() for path in modules() if facts(path).starts_programs}
    assert starting == STARTS_PROGRAMS | IN_THE_USERS_TERMINAL | INSIDE_AN_AGENT
