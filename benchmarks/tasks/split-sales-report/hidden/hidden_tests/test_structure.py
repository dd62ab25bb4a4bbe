"""How the code is built. Each test needs the package: nothing is gained by leaving the code as it was."""

import ast
import unittest
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = ("model", "reading", "summary", "renderers", "report")


class Structure(unittest.TestCase):
    def setUp(self) -> None:
        paths = [ROOT / "sales" / f"{name}.py" for name in MODULES]
        self.package = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
        self.script = ast.parse((ROOT / "sales_report.py").read_text(encoding="utf-8"))
        self.all = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "sales").rglob("*.py")]
        self.all.append(self.script)

    def test_functions_are_short(self) -> None:
        for tree in self.all:
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self.assertLessEqual((node.end_lineno or 0) - node.lineno + 1, 25, node.name)

    def test_no_global_state(self) -> None:
        for tree in self.all:
            self.assertFalse([node for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal))])

    def test_the_script_has_no_logic(self) -> None:
        defined = [node for node in ast.walk(self.script) if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.For))]
        self.assertLessEqual(len(defined), 1)  # at most a main()
        self.assertTrue({"csv", "decimal", "html"}.isdisjoint(_imports(self.script)))
        self.assertTrue(any(name.partition(".")[0] == "sales" for name in _imports(self.script)))

    def test_rounding_is_in_one_place(self) -> None:
        self.assertLessEqual(self._count(lambda node: isinstance(node, ast.Attribute) and node.attr == "quantize"), 1)

    def test_revenue_is_computed_in_one_place(self) -> None:
        products = self._count(
            lambda node: isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and not _by_constant(node)
        )
        self.assertLessEqual(products, 1)

    def test_each_layer_only_does_its_own_work(self) -> None:
        self.assertTrue(
            {"csv", "html", "sales.reading", "sales.renderers"}.isdisjoint(_imports(self.package["summary"]))
        )
        self.assertTrue({"html", "sales.summary", "sales.renderers"}.isdisjoint(_imports(self.package["reading"])))
        self.assertTrue({"sales.summary", "sales.reading"}.isdisjoint(_imports(self.package["renderers"])))
        self.assertIn("csv", _imports(self.package["reading"]))

    def test_formats_are_not_chosen_by_conditions(self) -> None:
        names = {"text", "csv", "html"}
        compared = [
            node
            for tree in self.all
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare)
            and any(isinstance(each, ast.Constant) and each.value in names for each in node.comparators)
        ]
        self.assertEqual(compared, [])

    def test_no_block_is_written_twice(self) -> None:
        """Loops and conditions of several lines, compared by their structure."""
        seen: set[str] = set()
        for tree in self.all:
            for node in ast.walk(tree):
                if isinstance(node, (ast.For, ast.With)) and (node.end_lineno or 0) - node.lineno >= 2:
                    text = ast.dump(node)
                    self.assertNotIn(text, seen)
                    seen.add(text)

    def test_the_model_has_dataclasses(self) -> None:
        classes = {node.name: node for node in ast.walk(self.package["model"]) if isinstance(node, ast.ClassDef)}
        for name in ("Sale", "RegionTotal", "Summary"):
            self.assertIn("dataclass", ast.unparse(classes[name].decorator_list[0]))

    def _count(self, wanted: object) -> int:
        return sum(1 for tree in self.all for node in ast.walk(tree) if wanted(node))  # type: ignore[operator]


def _imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(("sales." if node.level else "") + (node.module or ""))
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _by_constant(node: ast.BinOp) -> bool:
    """Whether it is by a constant, such as `"-" * 32`."""
    return any(isinstance(side, ast.Constant) for side in (node.left, node.right))
