"""Records of a PROV document as PROV statements, without the detour of PROV-O.

RDF cannot state that a derivation has no activity or an association no plan (`-` in PROV-N), nor two statements with
one identifier. Both matter: an identifier with an activity in one statement and `-` in another is a violation (23).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from provml.rdf.prov_documents import prov_types, term
from provml.validation.prov_constraints import prov_terms
from provml.validation.prov_constraints.prov_terms import REQUIRED, Kind
from provml.validation.prov_constraints.statements import Document, Statement

PAIRS = {
    "Specialization": (prov_terms.SPECIALIZATION, "specializations"),
    "Alternate": (prov_terms.ALTERNATE, "alternates"),
    "Membership": (prov_terms.MEMBERSHIP, "members"),
}
"""The relations between two entities without an identifier, with their kind and the attribute of `Document`."""


def documents_of_records(document: Any) -> list[Document]:
    """Return the documents of a document of the package `prov`: its own statements, and those of each bundle."""
    bundles = [(None, document), *((f"<{bundle.identifier.uri}>", bundle) for bundle in document.bundles)]
    return [_RecordReader(name).read(bundle) for name, bundle in bundles]


class _RecordReader:
    """Reads the records of one bundle."""

    def __init__(self, bundle: str | None) -> None:
        self.document = Document(bundle, has_placeholders=True)
        self.kinds: dict[int, dict[Kind, None]] = defaultdict(dict)
        """The kinds of the statements with one identifier."""
        self.inferable: dict[Kind, set[int]] = {prov_terms.GENERATION: set(), prov_terms.USAGE: set()}

    def read(self, bundle: Any) -> Document:
        records = list(bundle.get_records())
        self._note_inferable(records)
        for record in records:
            if record.is_element():
                self._add_element(record)
            else:
                self._add_relation(record)
        for identifier, kinds in self.kinds.items():
            if len(kinds) > 1 and prov_terms.INFLUENCE not in kinds:  # inference 15
                self.document.add(prov_terms.INFLUENCE, identifier, [None, None], inference=15)
        return self.document

    def _number(self, value: Any) -> int | None:
        if value is None:
            return None
        return self.document.number(f"<{value.uri}>" if hasattr(value, "uri") else str(term(value)))

    def _note_inferable(self, records: list[Any]) -> None:
        """Note the generations and usages whose parts follow from a derivation with an activity (inference 11)."""
        for record in records:
            if record.get_type().localpart == "Derivation" and record.args[2] is not None:
                for kind, value in zip(self.inferable, record.args[3:], strict=True):
                    number = self._number(value)
                    self.inferable[kind] |= set() if number is None else {number}

    def _add_element(self, record: Any) -> None:
        name, document = record.get_type().localpart, self.document
        node = document.number(f"<{record.identifier.uri}>")
        element = prov_terms.ELEMENTS[name]
        document.declared[element].add(node)
        if element == prov_terms.ENTITY and prov_types(record) & prov_terms.EMPTY_COLLECTIONS:
            document.empty_collections.add(node)
        if element == prov_terms.ACTIVITY:
            document.add(prov_terms.ACTIVITY_TIMES, node, [self._number(value) for value in record.args])

    def _add_relation(self, record: Any) -> None:
        name, document = record.get_type().localpart, self.document
        columns = [[self._number(value) for value in record.get_attribute(key)] for key, _ in record.formal_attributes]
        if name in PAIRS:
            self._add_pairs(*PAIRS[name], columns)
            return
        kind = prov_terms.CLASSES[name]
        values = [column[0] if column else None for column in columns]
        identifier = self._number(record.identifier)
        if kind is prov_terms.MENTION:
            identifier = values[0]
        elif identifier is not None:
            self.kinds[identifier][kind] = None
        statement = document.add(kind, identifier, values)
        if kind is prov_terms.MENTION:
            document.specializations.add((statement.slots[0], statement.slots[1]))
        for index, slot in enumerate(kind.slots):
            is_inferable = index == 0 and identifier in self.inferable.get(kind, ())
            if slot.if_omitted is REQUIRED and values[index] is None and not is_inferable:
                document.missing.append((statement, index))

    def _add_pairs(self, kind: Kind, attribute: str, columns: list[list[int | None]]) -> None:
        getattr(self.document, attribute).update((first, second) for first in columns[0] for second in columns[1])
        for slot, column in enumerate(columns):
            if not column:
                numbers = [next(iter(each), None) for each in columns]
                slots = [self.document.new_unknown() if number is None else number for number in numbers]
                statement = Statement(kind, self.document.new_unknown(), slots)
                self.document.missing.append((statement, slot))
