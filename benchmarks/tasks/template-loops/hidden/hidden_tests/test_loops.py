import unittest
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace

from minitmpl import Template, TemplateError


class Loops(unittest.TestCase):
    def check(self, source: str, expected: str, **values: object) -> None:
        self.assertEqual(Template(source).render(**values), expected)

    def test_a_list(self) -> None:
        self.check("{% for n in ns %}<{{ n }}>{% endfor %}", "<1><2>", ns=[1, 2])

    def test_a_path_of_attributes(self) -> None:
        order = SimpleNamespace(lines=[{"name": "pen"}, {"name": "ink"}])
        self.check("{% for line in order.lines %}{{ line.name | upper }} {% endfor %}", "PEN INK ", order=order)

    def test_filters(self) -> None:
        self.check("{% for t in tags | sorted %}{{ t }}{% endfor %}", "abc", tags={"c", "a", "b"})

    def test_a_generator_can_be_looped_over_and_has_a_length(self) -> None:
        source = "{% for n in ns %}{{ n }}/{{ loop.length }} {% endfor %}"
        self.check(source, "0/3 1/3 2/3 ", ns=(n for n in range(3)))

    def test_a_string(self) -> None:
        self.check("{% for c in word %}{{ c }}.{% endfor %}", "o.k.", word="ok")

    def test_the_loop(self) -> None:
        source = "{% for n in ns %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }} {% endfor %}"
        self.check(source, "10TrueFalse 21FalseTrue ", ns="ab")

    def test_commas_between(self) -> None:
        self.check("{% for n in ns %}{{ n }}{% if not loop.last %}, {% endif %}{% endfor %}", "1, 2, 3", ns=[1, 2, 3])

    def test_line_breaks_are_kept(self) -> None:
        self.check("{% for n in ns %}\n- {{ n }}\n{% endfor %}\nend", "\n- 1\n\n- 2\n\nend", ns=[1, 2])


class Unpacking(unittest.TestCase):
    def test_pairs(self) -> None:
        template = Template("{% for name, age in people %}{{ name }}={{ age }};{% endfor %}")
        self.assertEqual(template.render(people=[("ada", 36), ["alan", 41]]), "ada=36;alan=41;")

    def test_a_mapping_keeps_its_order(self) -> None:
        template = Template("{% for k , v in prices %}{{ k }}:{{ v }} {% endfor %}")
        self.assertEqual(template.render(prices=OrderedDict(b=2, a=1)), "b:2 a:1 ")

    def test_the_keys_of_a_mapping(self) -> None:
        self.assertEqual(Template("{% for k in prices %}{{ k }}{% endfor %}").render(prices={"b": 2, "a": 1}), "ba")

    def test_three_names(self) -> None:
        template = Template("{% for a, b, c in rows %}{{ c }}{{ b }}{{ a }}{% endfor %}")
        self.assertEqual(template.render(rows=["abc"]), "cba")

    def test_too_many_and_too_few(self) -> None:
        template = Template("\n{% for a, b in rows %}{{ b }}{% endfor %}")
        self.assertEqual(template.render(rows=["ab"]), "\nb")
        for rows in (["abc"], ["a"], [1]):
            with self.assertRaises(TemplateError) as caught:
                template.render(rows=rows)
            self.assertEqual(caught.exception.line, 2)


class Else(unittest.TestCase):
    def test_nothing_to_loop_over(self) -> None:
        template = Template("{% for n in ns %}{{ n }}{% else %}none{% endfor %}")
        self.assertEqual([template.render(ns=ns) for ns in ([], {}, iter(()), [0])], ["none", "none", "none", "0"])

    def test_a_missing_value_is_empty(self) -> None:
        self.assertEqual(Template("{% for n in a.b %}x{% else %}none{% endfor %}").render(), "none")
        self.assertEqual(Template("[{% for n in a.b %}x{% endfor %}]").render(), "[]")

    def test_the_else_belongs_to_the_innermost(self) -> None:
        template = Template("{% for n in ns %}{% if n %}y{% else %}n{% endif %}{% else %}e{% endfor %}")
        self.assertEqual([template.render(ns=ns) for ns in ([1, 0], [])], ["yn", "e"])

    def test_the_else_sees_the_values_outside(self) -> None:
        template = Template("{% for n in ns %}{% else %}{{ n }}{{ loop }}{% endfor %}")
        self.assertEqual(template.render(ns=[], n="outer", loop="l"), "outerl")


class Scopes(unittest.TestCase):
    def test_names_are_gone_afterwards(self) -> None:
        self.assertEqual(Template("{% for n in ns %}{% endfor %}[{{ n }}{{ loop.index }}]").render(ns=[1]), "[]")

    def test_outer_values_are_back(self) -> None:
        template = Template("{{ n }}{% for n in ns %}{{ n }}{% endfor %}{{ n }}{{ loop }}")
        self.assertEqual(template.render(n="a", ns=[1], loop="mine"), "a1amine")

    def test_nested_loops(self) -> None:
        template = Template(
            "{% for row in rows %}{% for cell in row %}{{ loop.parent.index }}{{ loop.index }}{{ cell }} {% endfor %}"
            "{{ loop.index }};{% endfor %}"
        )
        self.assertEqual(template.render(rows=["ab", "c"]), "11a 12b 1;21c 2;")

    def test_the_outermost_loop_has_no_parent(self) -> None:
        source = "{% for n in ns %}[{{ loop.parent.index }}]{% endfor %}"
        self.assertEqual(Template(source).render(ns=[1], loop={"index": 7}), "[]")

    def test_a_template_renders_twice_the_same_and_changes_nothing(self) -> None:
        template = Template("{% for n in ns %}{{ n }}{% endfor %}")
        values = {"ns": [1, 2]}
        self.assertEqual((template.render(**values), template.render(**values)), ("12", "12"))
        self.assertEqual(values, {"ns": [1, 2]})


class Mistakes(unittest.TestCase):
    """A first loop that is right shows that the mistake was found, not the loop."""

    GOOD = "{% for a in as %}{% endfor %}\n"

    def check(self, source: str, line: int) -> None:
        Template(self.GOOD)
        with self.assertRaises(TemplateError) as caught:
            Template(self.GOOD + source).render(n=1)
        self.assertEqual(caught.exception.line, line + 1)

    def test_headers(self) -> None:
        for header in ("for", "for n", "for n of ns", "for in ns", "for 1 in ns", "for a.b in ns", "for a, in ns"):
            self.check("\n{% " + header + " %}{% endfor %}", 2)

    def test_the_source(self) -> None:
        self.check("{% for n in 1 + 1 %}{% endfor %}", 1)
        self.check("{% for n in ns | shout %}{% endfor %}", 1)

    def test_never_closed(self) -> None:
        self.check("\n{% for n in ns %}\n{% else %}\n", 2)
        self.check("{% if n %}\n{% for a in ns %}\n", 2)

    def test_stray_and_crossed_ends(self) -> None:
        self.check("\n{% endfor %}", 2)
        self.check("{% for a in ns %}\n{% endif %}{% endfor %}", 2)
        self.check("{% if n %}\n{% endfor %}{% endif %}", 2)
        self.check("{% for a in ns %}{% else %}\n{% else %}{% endfor %}", 2)

    def test_a_value_that_cannot_be_looped_over(self) -> None:
        self.check("\n{% for a in n %}{% endfor %}", 2)


class Readme(unittest.TestCase):
    def test_it_has_loops(self) -> None:
        text = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
        self.assertIn("{% for", text)
        self.assertIn("loop.", text)
