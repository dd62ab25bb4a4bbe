"""Images that bring an agent along, for those who want one instead of the toolbox's mount.

    built = await build_image("claude-code", base="youbencha/base:bookworm", progress=print)
    for image in await list_images(): ...

What goes into an image is gathered on this computer, from the toolbox and from youBencha as it runs: the build itself
downloads nothing.
"""

from __future__ import annotations
