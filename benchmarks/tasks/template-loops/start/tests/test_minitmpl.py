import unittest
from types import SimpleNamespace

from minitmpl import Template, TemplateError


class Values(unittest.TestCase):
    def test_text(self) -> None:
        self.assertEqual(Template("Hello.\n").render(), "Hello.\n")

    def test_paths_and_filters(self) -> None:
        template = Template("{{ order.total | money }} for {{ order.by.name | upper }}")
        order = {"total": 1234.5, "by": SimpleNamespace(name="ada")}
        self.assertEqual(template.render(order=order), "1,234.50 for ADA")

    def test_missing(self) -> None:
        self.assertEqual(Template("[{{ a.b }}]").render(), "[]")

    def test_private_attributes(self) -> None:
        self.assertEqual(Template("{{ a.__class__ }}").render(a=SimpleNamespace()), "")

    def test_comments(self) -> None:
        self.assertEqual(Template("a{# {{ no }} #}b").render(), "ab")


class Conditions(unittest.TestCase):
    def test_if(self) -> None:
        template = Template("{% if paid %}thanks{% else %}pay{% endif %}")
        self.assertEqual(template.render(paid=True), "thanks")
        self.assertEqual(template.render(), "pay")

    def test_not(self) -> None:
        self.assertEqual(Template("{% if not paid %}pay{% endif %}").render(paid=False), "pay")


class Mistakes(unittest.TestCase):
    def check(self, source: str, line: int) -> None:
        with self.assertRaises(TemplateError) as caught:
            Template(source)
        self.assertEqual(caught.exception.line, line)

    def test_lines(self) -> None:
        self.check("\n{{ a", 2)
        self.check("a\n\n{{ 1 + 1 }}", 3)
        self.check("\n{% if a %}\n\n", 2)
        self.check("{% if a %}\n{% else %}\n{% else %}{% endif %}", 3)
        self.check("\n{% endif %}", 2)
        self.check("{{ a | shout }}", 1)


if __name__ == "__main__":
    unittest.main()
