"""Pictures of the screen. After an intended change: `pytest tests/tui --update-golden`, and look at each of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from opened_screen import Shown, opened

from pinned import pinned_only
from screen_stories import loop_story, show_trials, waiting_story
from youbencha.events import Event

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "pictures"


class Picture(NamedTuple):
    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    shows: Literal["loop", "waiting", "trials"] = "loop"
    directory: Path = HERE / "pictures"


PICTURES = (
    Picture("screen-80x24", (80, 24), directory=DOCS),
    Picture("screen-160x50", (160, 50), directory=DOCS),
    Picture("unfolded-80x24", (80, 24), ("h", "j", "j", "j", "enter")),
    Picture("search-160x50", (160, 50), ("slash", *"week", "enter", "n")),
    Picture("diff-80x24", (80, 24), ("d",)),
    Picture("help-80x24", (80, 24), ("question_mark",)),
    Picture("stop-80x24", (80, 24), ("s",)),
    Picture("guidance-80x24", (80, 24), ("colon", *"be brief")),
    Picture("waiting-80x24", (80, 24), shows="waiting"),
    Picture("trials-160x50", (160, 50), shows="trials"),
    Picture("light-160x50", (160, 50), ("T", "h", "f", "g")),
    Picture("contrast-80x24", (80, 24), ("T", "T", "k")),
    Picture("narrow-40x10", (40, 10)),
)


@pinned_only("rich", "textual")
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
async def test_picture(picture: Picture, update: bool, tmp_path: Path) -> None:
    events = {"loop": loop_story, "waiting": waiting_story, "trials": list[Event]}[picture.shows]()
    is_loop = picture.shows != "trials"
    async with opened(events, size=picture.size, loop=is_loop, expected=None if is_loop else 6) as shown:
        if not is_loop:
            show_trials(shown.screen)
        await shown.press(*picture.keys)
        shown.app.set_focus(None)  # the cursor of an input blinks
        await shown.settle()
        drawn = draw(shown)
    file = picture.directory / f"{picture.name}.svg"
    if update:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(drawn, encoding="utf-8")
        return
    if drawn != (file.read_text(encoding="utf-8") if file.is_file() else ""):
        now = tmp_path / file.name
        now.write_text(drawn, encoding="utf-8")
        pytest.fail(f"{file.name} looks different: see {now}. If that is intended: {__doc__}", pytrace=False)


def draw(shown: Shown) -> str:
    """The screen as SVG, with fonts that every computer has, and none from the network."""
    svg = shown.app.export_screenshot(title="ralph run")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    svg = re.sub(r"terminal-\d+-", "t-", svg)
    return svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas").replace(" \n", "\n")
