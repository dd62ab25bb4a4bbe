"""The branches and tags of a repository, and which of them somebody means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.text import did_you_mean
from youbencha.workspace.head import is_ref_name

RefKind = Literal["branch", "tag", "commit"]

_HEADS, _TAGS, _TRACKED = "refs/heads/", "refs/tags/", "refs/remotes/origin/"
_PLACES: Mapping[str, tuple[str, ...]] = {"branch": (_HEADS, _TAGS, _TRACKED), "tag": (_TAGS,)}
"""Where a name is looked for. A `branch` may be a tag; and in a clone on this machine it may be known only as a
branch of where that came from."""
_PEELED = "^{}"
_FEW = 5


class Refs(NamedTuple):
    """What a repository has to offer at the moment."""

    ids: Mapping[str, str]
    """By full name. An annotated tag stands for what it names."""
    head: str | None
    """The commit that is checked out by default."""
    default_branch: str | None
    """None if HEAD names no branch."""
    commits: frozenset[str] = frozenset()
    """Ids that are known to be commits, and to be at hand."""

    def pick(self, name: str | None, kind: Literal["branch", "tag"], where: str) -> str:
        """The id behind a name; without one, behind HEAD."""
        if not self.ids and self.head is None:
            raise YouBenchaError(
                "REPO_EMPTY", f"The repository {where} is empty.", hint="It needs at least one commit to start from."
            )
        if name is None:
            return self.head or self._no_head(where)
        short = short_name(name)
        found = next((self.ids[place + short] for place in _PLACES[kind] if place + short in self.ids), None)
        return found or self._unknown(short, kind, where)

    def _unknown(self, name: str, kind: str, where: str) -> str:
        names = self._names(_PLACES[kind])
        some = ", ".join(names[:_FEW]) + (", …" if len(names) > _FEW else "")
        raise YouBenchaError(
            "REPO_BRANCH_UNKNOWN",
            f"The repository {where} has no {'branch or tag' if kind == 'branch' else kind} `{name}`.",
            hint=did_you_mean(name, names) or (f"It has: {some}." if names else f"It has no {kind} at all."),
        )

    def _no_head(self, where: str) -> str:
        names = ", ".join(self._names((_HEADS,))[:_FEW])
        raise YouBenchaError(
            "REPO_BRANCH_UNKNOWN",
            f"The default branch of the repository {where} does not exist.",
            hint=f"Name a `branch`. It has: {names}." if names else "Name a `branch` or a `commit`.",
        )

    def _names(self, places: Iterable[str]) -> list[str]:
        short = {name.removeprefix(place) for place in places for name in self.ids if name.startswith(place)}
        return sorted(short - {"HEAD"})


def short_name(name: str) -> str:
    return name.removeprefix(_HEADS).removeprefix(_TAGS)


def from_listing(output: str) -> Refs:
    """As `git ls-remote --symref` tells them. What a server calls a ref and git would not, is left out."""
    ids: dict[str, str] = {}
    head = branch = None
    for line in output.splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: ") and name == "HEAD":
            branch = value.removeprefix("ref: ").removeprefix(_HEADS)
        elif name == "HEAD":
            head = value
        elif name.startswith((_HEADS, _TAGS)) and is_ref_name(name.removesuffix(_PEELED)):
            ids[name.removesuffix(_PEELED)] = value  # the peeled one comes after the tag itself
    return Refs(ids, head, branch if branch and is_ref_name(branch) else None)


LOCAL_FORMAT = "%(HEAD)%00%(objecttype)%00%(objectname)%00%(*objectname)%00%(refname)"
LOCAL_PLACES = (_HEADS, _TAGS, _TRACKED)


def from_local(output: bytes) -> Refs:
    """As `git for-each-ref` tells them in `LOCAL_FORMAT`."""
    ids: dict[str, str] = {}
    commits: set[str] = set()
    head = branch = None
    for line in output.decode("utf-8", "surrogateescape").splitlines():
        mark, kind, direct, peeled, name = line.split("\0")
        ids[name] = peeled or direct
        if kind == "commit":
            commits.add(direct)
        if mark == "*":
            head, branch = direct, name.removeprefix(_HEADS)
    return Refs(ids, head, branch, frozenset(commits))
