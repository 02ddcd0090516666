"""The reference of the keys of scenario files, generated from their JSON Schema.

`tools/site` writes a page for each table of a scenario, and `silvan schema KEY` prints one table. The text of
each key is the doc comment of a field in `crates/silvan-scenario`.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]
#: Maps definitions of the schema to the names of their values in docs/scenario.md.
QUANTITIES = {"#/$defs/Time": "time", "#/$defs/Bytes": "size", "#/$defs/Rate": "rate"}
TYPES = {"integer": "whole number", "boolean": "`true` or `false`", "string": "text"}
#: Keys that at least this many kinds of a table have, with equal descriptions, are described once.
COMMON = 3


class UnknownKeyError(Exception):
    """Scenario files do not have this key. The message suggests similar keys."""


@dataclass(frozen=True)
class Key:
    """One key of a table."""

    name: str
    value: str
    default: str
    meaning: str


@dataclass
class Variant:
    """The keys of a table, or of one kind of a table."""

    #: Value of the key `kind`; empty for a table that has no kinds.
    kind: str
    text: str
    keys: list[Key]
    #: Names of keys that `Table.common` describes, and of nested tables.
    more: list[str] = field(default_factory=list)


@dataclass
class Table:
    """A table of scenario files, or the keys outside all tables."""

    #: Dotted path; empty for the keys outside all tables.
    path: str
    is_list: bool
    text: str
    variants: list[Variant]
    #: Keys that several kinds have.
    common: list[Key] = field(default_factory=list)
    #: Path of the table with the same keys that is described instead; empty if there is none.
    same_as: str = ""
    #: Kind of the enclosing table, if its kinds have different tables with this name; otherwise empty.
    of_kind: str = ""

    @property
    def heading(self) -> str:
        """The name of the table in a TOML file, with its kind if necessary."""
        if not self.path:
            return "Keys outside tables"
        name = f"[[{self.path}]]" if self.is_list else f"[{self.path}]"
        return f'{name} of kind = "{self.of_kind}"' if self.of_kind else name

    @property
    def anchor(self) -> str:
        """The URL fragment of the table on its page."""
        return anchor(self.path, self.of_kind)


class Reference:
    """The tables of a schema, each described once, in the order of the schema."""

    def __init__(self, schema: str) -> None:
        self._root: Schema = json.loads(schema)
        #: Path of the first table of each definition.
        self._seen: dict[str, str] = {}
        nested = {key: one for key, one in self._root["properties"].items() if not self._is_plain(one)}
        self.tables = [Table("", False, "", [self._variant(self._root)])]
        for key, one in nested.items():
            self.tables += self._walk(key, one)

    def find(self, key: str) -> list[Table]:
        """Return the tables that describe a key, a table, or one kind of a table.

        Args:
            key: A dotted path, with or without brackets and numbers of list elements, such as
                `congestion.reaction`, `traffic.0.rate` or `topology.torus`.

        Raises:
            UnknownKeyError: There is no such key.

        """
        parts = [part for part in re.split(r"[.\[\]\s]+", key) if part and not part.isdigit()]
        path, name = ".".join(parts), parts[-1] if parts else ""
        inside = [one for one in self.tables if one.path == path or one.path.startswith(f"{path}.")]
        if path and inside:
            return inside
        above = ".".join(parts[:-1])
        for table in self.tables:
            if table.path != above:
                continue
            source = table
            if table.same_as:
                source = next(one for one in self.tables if one.path == table.same_as)
            if kinds := [one for one in source.variants if name and one.kind == name]:
                common = [one for one in source.common if one.name in kinds[0].more]
                return [Table(table.path, table.is_list, "", kinds, common)]
            found = [
                Variant(one.kind, one.text, [row for row in one.keys if row.name == name])
                for one in source.variants
            ]
            common = [row for row in source.common if row.name == name]
            if common or any(one.keys for one in found):
                kept = [one for one in found if one.keys]
                return [Table(table.path, table.is_list, "", kept, common)]
        near = difflib.get_close_matches(path, self._paths(), 3)
        raise UnknownKeyError(
            f"scenario files have no key `{key}`; "
            + (f"did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else "try `topology`")
        )

    def _paths(self) -> list[str]:
        found = []
        for table in self.tables:
            names = [row.name for one in table.variants for row in one.keys]
            names += [one.kind for one in table.variants if one.kind] + [row.name for row in table.common]
            found += [table.path, *(f"{table.path}.{name}".lstrip(".") for name in names)]
        return sorted({*found} - {""})

    def _walk(self, path: str, outer: Schema, of_kind: str = "") -> Iterator[Table]:
        """Yield a table and its nested tables; only the table if an earlier table has the same definition."""
        is_list = "items" in outer
        inner = outer.get("items", outer)
        text = outer.get("description") or self._target(inner).get("description", "")
        definition = inner.get("$ref", path)
        if definition in self._seen:
            yield Table(path, is_list, text, [], same_as=self._seen[definition], of_kind=of_kind)
            return
        self._seen[definition] = path
        choices = self._choices(inner)
        # Nested tables by name. Each different table is listed with the first kind that has it.
        nested: dict[str, list[tuple[str, Schema]]] = {}
        for choice in choices:
            properties = choice.get("properties", {})
            for key, one in properties.items():
                others = nested.get(key, [])
                if not self._is_plain(one) and _definition(one) not in [
                    _definition(other) for _, other in others
                ]:
                    nested.setdefault(key, []).append((properties.get("kind", {}).get("const", ""), one))
        table = Table(path, is_list, text, [self._variant(one) for one in choices], of_kind=of_kind)
        _share(table)
        yield table
        for key, found in nested.items():
            for kind, one in found:
                yield from self._walk(f"{path}.{key}", one, kind if len(found) > 1 else "")

    def _variant(self, choice: Schema) -> Variant:
        properties = choice.get("properties", {})
        kind = properties.get("kind", {}).get("const", "")
        required = choice.get("required", [])
        keys = [
            self._key(name, one, name in required)
            for name, one in properties.items()
            if not (kind and name == "kind") and self._is_plain(one)
        ]
        more = [name for name, one in properties.items() if not self._is_plain(one)]
        return Variant(kind, choice.get("description", "") if kind else "", keys, more)

    def _key(self, name: str, schema: Schema, is_needed: bool) -> Key:
        default = "needed" if is_needed else ""
        if not is_needed and "default" in schema:
            default = f"`{json.dumps(schema['default'], ensure_ascii=False)}`"
        return Key(name, self._type(schema), default, schema.get("description", "").replace("\n", " "))

    def _target(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def _choices(self, schema: Schema) -> list[Schema]:
        """Return the alternatives of a schema, flattened."""
        target = self._target(schema)
        listed = target.get("oneOf", target.get("anyOf"))
        return [target] if listed is None else [one for choice in listed for one in self._choices(choice)]

    def _is_plain(self, schema: Schema) -> bool:
        """Return whether a value is neither a table nor a list of tables."""
        return not any(
            "properties" in one or ("items" in one and not self._is_plain(one["items"]))
            for one in self._choices(schema)
        )

    def _type(self, schema: Schema) -> str:
        if schema.get("$ref") in QUANTITIES:
            return QUANTITIES[schema["$ref"]]
        choices = self._choices(schema)
        words = [
            word for one in choices for word in one.get("enum", [one["const"]] if "const" in one else [])
        ]
        kinds = [self._simple(one) for one in choices if "enum" not in one and "const" not in one]
        if words:
            kinds.append(", ".join(f'`"{word}"`' for word in words))
        return " or ".join(dict.fromkeys(kinds))

    def _simple(self, schema: Schema) -> str:
        kind: str = schema.get("type", "any")
        if kind == "array":
            return f"list: {self._type(schema.get('items', {}))}"
        return TYPES.get(kind, kind)


def _definition(schema: Schema) -> str | None:
    """Return the reference to the definition of a table, or of the tables in a list; None without one."""
    found: str | None = schema.get("items", schema).get("$ref")
    return found


def _share(table: Table) -> None:
    """Move keys that at least :data:`COMMON` kinds have, with equal descriptions, to `Table.common`."""
    count: dict[Key, int] = {}
    for variant in table.variants:
        for key in variant.keys:
            count[key] = count.get(key, 0) + 1
    best = {key.name: key for key in sorted(count, key=count.__getitem__) if count[key] >= COMMON}
    table.common = list(best.values())
    for variant in table.variants:
        shared = [key.name for key in variant.keys if best.get(key.name) == key]
        variant.keys = [key for key in variant.keys if key.name not in shared]
        variant.more = [*shared, *variant.more]


def anchor(path: str, *more: str) -> str:
    """Return the URL fragment of a table, or of a part of its description."""
    return "-".join(filter(None, [path.replace(".", "-"), *more]))


def page(table: str) -> str:
    """Return the file name of the page that describes a table."""
    return f"{table.partition('.')[0] or 'run'}.md"


def pages(schema: str) -> dict[str, str]:
    """Return the pages of the reference in Markdown by file name, with one page per outermost table."""
    made: dict[str, list[str]] = {}
    tables = Reference(schema).tables
    anchors = {table.anchor for table in tables}
    for table in tables:
        made.setdefault(page(table.path), []).append(_section(table, anchors))
    return {name: "\n".join(parts) for name, parts in made.items()}


def _section(table: Table, anchors: set[str]) -> str:
    """Describe a table; `anchors` contains the anchors of all tables."""
    level = table.path.count(".") + 1
    title = f"`{table.heading}`" if table.path else table.heading
    parts = [f"{'#' * min(level, 5)} {title} {{ #{table.anchor or 'run'} }}", table.text]
    if table.same_as:
        where = f"{page(table.same_as)}#{anchor(table.same_as)}"
        parts.append(f"The keys are those of [`{table.same_as}`]({where}).")
    if table.common:
        name = anchor(table.path, "common")
        parts += [f"{'#' * min(level + 1, 6)} Keys of several kinds {{ #{name} }}", _rows(table.common)]
    for variant in table.variants:
        if variant.kind:
            title = f'`kind = "{variant.kind}"` {{ #{anchor(table.path, "kind", variant.kind)} }}'
            parts += [f"{'#' * min(level + 1, 6)} {title}", variant.text]
        if variant.keys:
            parts.append(_rows(variant.keys))
        if variant.kind and variant.more:
            parts.append(f"Also {', '.join(_link(table, variant, name, anchors) for name in variant.more)}.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _link(table: Table, variant: Variant, name: str, anchors: set[str]) -> str:
    if any(row.name == name for row in table.common):
        return f"[`{name}`](#{anchor(table.path, 'common')})"
    nested = anchor(f"{table.path}.{name}")
    return f"[`{name}`](#{nested if nested in anchors else f'{nested}-{variant.kind}'})"


def _rows(keys: list[Key]) -> str:
    lines = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for key in keys:
        meaning = key.meaning.replace("|", "\\|")
        lines.append(f"| `{key.name}` | {key.value} | {key.default} | {meaning} |")
    return "\n".join(lines)


def outer_tables(reference: Reference) -> list[Table]:
    """Return the tables that are not nested in other tables."""
    return [table for table in reference.tables if table.path and "." not in table.path]


def overview(reference: Reference) -> str:
    """List the outermost tables, each with the first sentence of its description."""
    tables = outer_tables(reference)
    width = max(len(table.heading) for table in tables)
    return "\n".join(f"{table.heading:{width}}  {_first_sentence(table.text)}" for table in tables)


def _first_sentence(words: str) -> str:
    return re.split(r"(?<=\.) |: ", words, maxsplit=1)[0].rstrip(".")


def text(tables: list[Table], width: int) -> str:
    """Format tables for a terminal with `width` columns."""
    parts = []
    for table in tables:
        parts.append(table.heading)
        parts += _wrapped(table.text, width, 0)
        if table.same_as:
            parts += _wrapped(f"The keys are those of {table.same_as}.", width, 0)
        if table.common and len(table.variants) != 1:
            parts += ["", "keys of several kinds", *_listed(table.common, width)]
        for variant in table.variants:
            if variant.kind:
                parts += ["", f'kind = "{variant.kind}"', *_wrapped(variant.text, width, 2)]
            parts += _listed(variant.keys, width)
            if variant.kind and variant.more:
                if len(table.variants) == 1:
                    parts += _listed(table.common, width)
                else:
                    parts += _wrapped(f"Also {', '.join(variant.more)}.", width, 2)
        parts.append("")
    return "\n".join(parts).rstrip()


def _listed(keys: list[Key], width: int) -> Iterator[str]:
    for key in keys:
        default = {"": "", "needed": " (needed)"}.get(key.default, f" (default {key.default})")
        yield from _wrapped(f"{key.name}: {key.value}{default}".replace("`", ""), width, 2)
        yield from _wrapped(key.meaning, width, 6)


def _wrapped(words: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(words, width, initial_indent=" " * indent, subsequent_indent=" " * indent)
