"""The colours of the screen: three themes, and the styles that rows name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rich.style import Style
from textual.theme import Theme


@dataclass(frozen=True)
class Palette:
    name: str
    dark: bool
    background: str
    panel: str
    """Behind the header, the list and the footer."""
    raised: str
    """Behind what is selected."""
    text: str
    dim: str
    faint: str
    accent: str
    ok: str
    error: str
    warning: str
    violet: str

    def theme(self) -> Theme:
        """The same colours for Textual's own widgets."""
        return Theme(
            name=self.name,
            primary=self.accent,
            secondary=self.violet,
            accent=self.accent,
            success=self.ok,
            error=self.error,
            warning=self.warning,
            foreground=self.text,
            background=self.background,
            surface=self.panel,
            panel=self.raised,
            dark=self.dark,
        )

    @cached_property
    def styles(self) -> dict[str, Style]:
        """Each style of `STYLES` in these colours."""
        return {name: Style.parse(style.format_map(vars(self))) for name, style in STYLES.items()}


STYLES = {
    "text": "{text}",
    "strong": "bold {text}",
    "dim": "{dim}",
    "faint": "{faint}",
    "argument": "{dim}",
    "name": "{text}",
    "tool": "bold {accent}",
    "said": "bold {accent}",
    "user": "bold {violet}",
    "topic": "bold {violet}",
    "thinking": "italic {dim}",
    "note": "{dim}",
    "phase": "bold {accent}",
    "heading": "bold {accent}",
    "code": "{violet}",
    "detail": "{dim}",
    "result": "{dim}",
    "failure": "{error}",
    "added": "{ok}",
    "removed": "{error}",
    "hunk": "{accent}",
    "running": "{accent}",
    "ok": "{ok}",
    "error": "bold {error}",
    "warning": "bold {warning}",
    "unknown": "{dim}",
    "accent": "{accent}",
    "key": "bold {accent}",
    "match": "bold {background} on {warning}",
    "live": "bold {background} on {ok}",
    "review": "bold {background} on {warning}",
    "over": "bold {background} on {error}",
    "alert": "bold {background} on {accent}",
}

# Backgrounds are nearly grey: with 256 colours, a terminal would show a tinted dark grey as a strong blue.
DARK = Palette(
    "yb-dark", True,
    background="#15171a", panel="#1d2025", raised="#2a2e35", text="#d5dae3", dim="#8b94a3", faint="#4a5260",
    accent="#6cb6ff", ok="#7fc98f", error="#f0787a", warning="#e3b341", violet="#c0a6f5",
)  # fmt: skip
LIGHT = Palette(
    "yb-light", False,
    background="#fcfcfa", panel="#f0f0ec", raised="#e1e4e8", text="#24292f", dim="#5f6873", faint="#b3bac2",
    accent="#0757ba", ok="#1a7f37", error="#c4232b", warning="#8a5a00", violet="#6f42c1",
)  # fmt: skip
CONTRAST = Palette(
    "yb-contrast", True,
    background="#000000", panel="#000000", raised="#333333", text="#ffffff", dim="#dddddd", faint="#a0a0a0",
    accent="#4fd7ff", ok="#5cff5c", error="#ff7070", warning="#ffe14d", violet="#ffa8ff",
)  # fmt: skip

PALETTES = (DARK, LIGHT, CONTRAST)
"""The themes, in the order in which a key cycles through them."""
