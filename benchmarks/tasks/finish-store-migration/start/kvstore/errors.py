"""What goes wrong with stores."""


class StoreError(Exception):
    """A store that cannot be used."""


class UnknownFormat(StoreError):
    """A file that is not a store."""


class CorruptStore(StoreError):
    """A store with a wrong record that is not the last one."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} is corrupt")
        self.line = line
