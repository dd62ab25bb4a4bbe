"""Images that bring an agent along, for those who want one instead of the toolbox's mount.

    built = await build_image("claude-code", base="youbencha/base:bookworm", progress=print)
    for image in await list_images(): ...

What goes into an image is gathered on this computer, from the toolbox and from youBencha as it runs: the build itself
downloads nothing.
"""

from typing import TYPE_CHECKING

from youbencha.later import imported_when_asked

if TYPE_CHECKING:
    from youbencha.sandbox.images.building import BuiltImage, build_image
    from youbencha.sandbox.images.listing import ListedImage, list_images
    from youbencha.sandbox.images.recipes import RECIPES

__all__ = ["RECIPES", "BuiltImage", "ListedImage", "build_image", "list_images"]

_HOMES = {
    "RECIPES": "recipes",
    "BuiltImage": "building",
    "ListedImage": "listing",
    "build_image": "building",
    "list_images": "listing",
}

__getattr__ = imported_when_asked(__name__, _HOMES)
