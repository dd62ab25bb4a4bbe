"""Variants of an arena's orchestrators: the same agent with something changed, as orchestrators of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from youbencha.errors import KeyPath, Problem, Step
from youbencha.spec.arena import LONGEST_NAME, VARIANT_MARK, ArenaSpec, OrchestratorSpec, VariantSpec
from youbencha.spec.document import Document
from youbencha.text import did_you_mean, first_few

_NOT_FOR_SCRIPTS = ("version", "config")
_IDENTIFYING = {"name", "agent", "variants"}


class ArenaEntry(NamedTuple):
    """An orchestrator, or a variant merged with its orchestrator, and where it is written."""

    spec: OrchestratorSpec
    orchestrator: OrchestratorSpec
    """The same, or that of the variant."""
    orchestrator_path: KeyPath
    variant: VariantSpec | None = None
    variant_path: KeyPath = ()

    def path_of(self, *keys: Step) -> KeyPath:
        is_own = self.variant is not None and (not keys or self.variant.changes(str(keys[0]), *keys[1:]))
        return (*(self.variant_path if is_own else self.orchestrator_path), *keys)


def expand(orchestrators: Iterable[OrchestratorSpec]) -> tuple[ArenaEntry, ...]:
    """Each orchestrator, followed by its variants."""
    entries = []
    for index, each in enumerate(orchestrators):
        path: KeyPath = ("orchestrators", index)
        entries.append(ArenaEntry(each, each, path))
        for number, variant in enumerate(each.variants):
            merged = each.with_variant(variant)
            entries.append(ArenaEntry(merged, each, path, variant, (*path, "variants", number)))
    return tuple(entries)


def written_names(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """The name of each orchestrator and variant, and where it is written, even in an invalid file."""
    for path, orchestrator in _mappings(data, "orchestrators"):
        name = orchestrator.get("name")
        if isinstance(name, str):
            yield (*path, "name"), name.strip()
            for inner, variant in _mappings(orchestrator, "variants"):
                if isinstance(variant.get("name"), str):
                    yield (*path, *inner, "name"), f"{name.strip()}{VARIANT_MARK}{variant['name']}"


def _mappings(data: Mapping[str, Any], key: str) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    entries = data.get(key)
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping):
            yield (key, index), entry


def problems_of_variants(document: Document, spec: ArenaSpec, entries: Sequence[ArenaEntry]) -> Iterator[Problem]:
    """What is wrong with variants, given their orchestrators, and with the baseline."""
    for index, orchestrator in enumerate(spec.orchestrators):
        if orchestrator.variants and orchestrator.needs_no_model:
            path = ("orchestrators", index, "variants")
            yield document.problem(path, "have no effect on `null`, which does nothing", "remove them", at_key=True)
    for entry in entries:
        if entry.variant is not None and not entry.orchestrator.needs_no_model:
            yield from _problems_of_one(document, entry, entry.variant)
    names = [entry.spec.name for entry in entries]
    if spec.baseline is not None and spec.baseline not in names:
        hint = did_you_mean(spec.baseline, names) or f"the arena has: {first_few(names)}"
        yield document.problem(("baseline",), "there is no such orchestrator or variant", hint)


def _problems_of_one(document: Document, entry: ArenaEntry, variant: VariantSpec) -> Iterator[Problem]:
    orchestrator = entry.orchestrator
    unusable = [key for key in _NOT_FOR_SCRIPTS if orchestrator.adapter and key in variant.model_fields_set]
    for key in unusable:
        message = "cannot be combined with the orchestrator's `adapter`"
        yield document.problem((*entry.variant_path, key), message, "use `env`", at_key=True)
    if not unusable and _settings_of(entry.spec) == _settings_of(orchestrator):
        hint = "for a comparison with itself, add an orchestrator with another name"
        yield document.problem(entry.variant_path, f"changes nothing of {orchestrator.name}", hint)
    if len(entry.spec.name) > LONGEST_NAME:
        message = f"{entry.spec.name!r} would be longer than {LONGEST_NAME} characters"
        yield document.problem((*entry.variant_path, "name"), message, "use a shorter name")


def _settings_of(orchestrator: OrchestratorSpec) -> dict[str, Any]:
    return orchestrator.model_dump(exclude=_IDENTIFYING)
