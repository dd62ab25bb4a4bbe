"""What goes wrong in templates."""


class TemplateError(Exception):
    """A mistake in a template, or in what it was given, and the line of the template."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
