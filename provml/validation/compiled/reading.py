"""Shape files in, shapes out: what is no shape is refused with its name and file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path as File
from typing import Any

import pyoxigraph as ox

from provml.errors import BrokenFile
from provml.rdf.literal import XSD
from provml.validation.compiled import prebinding
from provml.validation.compiled.path import SUFFIX, Path
from provml.validation.compiled.shape import OWL, RDF, RDFS, SH, Constraint, Query, Shape, Shapes, Targets

MANY = ("class", "minExclusive", "minInclusive", "maxExclusive", "maxInclusive", "pattern", "node", "not", "equals",
        "disjoint", "lessThan", "lessThanOrEquals", "hasValue", "sparql")  # fmt: skip
LISTED = ("and", "or", "xone")
ONCE = ("datatype", "nodeKind", "minLength", "maxLength", "languageIn", "in", "minCount", "maxCount", "uniqueLang",
        "closed")  # fmt: skip
REFERRING = ("node", "not", "property", "qualifiedValueShape")
ASIDE = {
    "path", "property", "targetNode", "targetClass", "targetSubjectsOf", "targetObjectsOf", "severity", "message",
    "deactivated", "flags", "ignoredProperties", "qualifiedValueShape", "qualifiedMinCount", "qualifiedMaxCount",
    "qualifiedValueShapesDisjoint", "name", "description", "order", "group", "defaultValue", "shapesGraph",
    "entailment", "declare", "suggestedShapesGraph", "labelTemplate", "resultMessage", "intent", "agentInstruction",
    "codeIdentifier", "prefixes", "select", "ask",
}  # fmt: skip
KINDS = ("IRI", "BlankNode", "Literal", "BlankNodeOrIRI", "BlankNodeOrLiteral", "IRIOrLiteral")
PROPERTY_ONLY = ("minCount", "maxCount", "uniqueLang", "lessThan", "lessThanOrEquals")
INTEGER = f"{XSD}integer"
ONE = ox.Literal("1", datatype=ox.NamedNode(f"{XSD}boolean"))
"""SHACL asks for unique languages by `true` and by nothing else; Oxigraph makes this one the same."""
UNIQUE = ox.NamedNode(f"{SH}uniqueLang")


def read_shapes(paths: Iterable[File]) -> Shapes:
    """All shapes of some files, read as one graph."""
    reader = _Reader()
    files = [File(path) for path in paths]
    for path in files:
        reader.load(path)
    return Shapes(reader.read(), tuple(map(str, files)), reader.uncovered, reader.said)


class _Reader:
    """The shapes graph while it is read; terms are as Oxigraph keeps them, so that they equal those of the data."""

    def __init__(self) -> None:
        self.said: dict[Any, dict[str, list[Any]]] = {}
        self.files: dict[Any, str] = {}
        self.shapes: dict[Any, Shape] = {}
        self.uncovered: dict[Any, str] = {}
        self.ones: set[Any] = set()
        self.having: dict[str, dict[Any, list[Any]]] = {}

    def load(self, path: File) -> None:
        form = ox.RdfFormat.from_extension(path.suffix[1:])
        if form is None:
            raise BrokenFile("has an ending that names no RDF format", "Give shapes in Turtle.", file=str(path))
        try:
            base = path.absolute().as_uri()
            quads = list(ox.parse(path=str(path), format=form, base_iri=base, rename_blank_nodes=True))
        except SyntaxError as error:
            reason = re.sub(r"^Parser error at .*?: ", "", str(error.msg)).rstrip(".")
            advice = f"Mend the {form.name} there."
            raise BrokenFile(reason, advice, file=str(path), line=error.lineno) from error
        except OSError as error:
            reason = re.sub(r" \(os error.*", "", str(error)).lower()
            raise BrokenFile(reason, "Check the path.", file=str(path)) from error
        store = ox.Store()
        store.extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in quads)
        self.ones |= {quad.subject for quad in quads if quad.object == ONE and quad.predicate == UNIQUE}
        for quad in store:
            self.files.setdefault(quad.subject, str(path))
            values = self.said.setdefault(quad.subject, {}).setdefault(quad.predicate.value, [])
            if quad.object not in values:
                values.append(quad.object)

    # ---- the graph

    def values(self, node: Any, predicate: str) -> list[Any]:
        """What a node has, in an order that is the same each time."""
        full = predicate if ":" in predicate else SH + predicate
        return sorted(self.said.get(node, {}).get(full, ()), key=str)

    def one(self, node: Any, predicate: str) -> Any:
        found = self.values(node, predicate)
        if len(found) > 1:
            raise self.broken(node, f"has {len(found)} values of sh:{predicate}", "Leave one.")
        return found[0] if found else None

    def subjects(self, predicate: str, value: Any = None) -> list[Any]:
        """The nodes that have a property, or that value of it."""
        full = predicate if ":" in predicate else SH + predicate
        if full not in self.having:
            self.having[full] = {}
            for node, said in self.said.items():
                for one in said.get(full, ()):
                    self.having[full].setdefault(one, []).append(node)
        held = self.having[full]
        return list(dict.fromkeys(chain(*held.values()))) if value is None else held.get(value, [])

    def list_of(self, owner: Any, node: Any, name: str) -> list[Any]:
        """The members of an RDF list."""
        found: list[Any] = []
        seen: set[Any] = set()
        while node != ox.NamedNode(f"{RDF}nil"):
            first, rest = self.values(node, f"{RDF}first"), self.values(node, f"{RDF}rest")
            if len(first) != 1 or len(rest) != 1 or node in seen:
                raise self.broken(owner, f"gives sh:{name} what is no list", f"Write sh:{name} ( … ).")
            seen.add(node)
            found += first
            node = rest[0]
        return found

    def broken(self, node: Any, reason: str, advice: str) -> BrokenFile:
        text = str(node)
        name = "a shape without a name" if text.startswith("_:") else f"the shape {text}"
        if text.startswith("_:"):
            for predicate in self.values(node, "path"):
                name = f"the property shape for {predicate}"
        return BrokenFile(f"{name} {reason}", advice, file=self.files.get(node, "shapes"))

    def number(self, node: Any, name: str) -> int | None:
        value = self.one(node, name)
        if value is None:
            return None
        if not isinstance(value, ox.Literal) or value.datatype.value != INTEGER or int(value.value) < 0:
            raise self.broken(node, f"has {value} for sh:{name}", "Give a whole number that is not negative.")
        return int(value.value)

    def truth(self, node: Any, name: str) -> bool:
        value = self.one(node, name)
        if value is not None and (not isinstance(value, ox.Literal) or value.value not in ("true", "false")):
            raise self.broken(node, f"has {value} for sh:{name}", "Give true or false.")
        return value is not None and value.value == "true"

    # ---- the shapes

    def read(self) -> dict[Any, Shape]:
        kinds = {ox.NamedNode(f"{SH}NodeShape"), ox.NamedNode(f"{SH}PropertyShape")}
        found = {node for kind in kinds for node in self.subjects(f"{RDF}type", kind)}
        targets = ("targetNode", "targetClass", "targetSubjectsOf", "targetObjectsOf", "target")
        for name in (*targets, "property", "node", "rule"):
            found.update(self.subjects(name))
        self.components = list(self._components())
        for node in sorted(found, key=str):
            self.shape(node, ())
        return self.shapes

    def shape(self, node: Any, above: tuple[Any, ...]) -> None:
        """Read a shape, and those that it refers to before it; `above` are those that refer to it."""
        if node in above:
            round_ = " > ".join(map(str, (*above[above.index(node) :], node)))
            advice = "SHACL leaves open what recursion means: say it with a property path, or with sh:sparql."
            raise self.broken(node, f"refers to itself ({round_})", advice)
        if node in self.shapes:
            return
        if isinstance(node, ox.Literal) or (node not in self.said and above):
            raise self.broken(above[-1], f"refers to the shape {node}, which is not defined", "Define it, or mend it.")
        for other in self._referred(node):
            self.shape(other, (*above, node))
        self.shapes[node] = self._read(node)

    def _referred(self, node: Any) -> list[Any]:
        found = [other for name in REFERRING for other in self.values(node, name)]
        for name in LISTED:
            found += [other for listed in self.values(node, name) for other in self.list_of(node, listed, name)]
        if self.truth(node, "qualifiedValueShapesDisjoint"):
            found += self._siblings(node)
        return found

    def _siblings(self, node: Any) -> list[Any]:
        own = self.values(node, "qualifiedValueShape")
        parents = self.subjects("property", node)
        near = {other for parent in parents for other in self.values(parent, "property")}
        return [shape for other in sorted(near, key=str) for shape in self.values(other, "qualifiedValueShape")
                if shape not in own]  # fmt: skip

    def _read(self, node: Any) -> Shape:
        types = {kind.value for kind in self.values(node, f"{RDF}type") if isinstance(kind, ox.NamedNode)}
        path_node = self.one(node, "path")
        is_property = f"{SH}PropertyShape" in types or path_node is not None or bool(self.subjects("property", node))
        if is_property and path_node is None:
            raise self.broken(node, "is a property shape and has no sh:path", "Give it one.")
        if is_property and f"{SH}NodeShape" in types:
            raise self.broken(node, "is a node shape and has a sh:path", "Make it a sh:PropertyShape.")
        path = self._path(node, path_node) if path_node is not None else None
        for other in self.values(node, "property"):
            if self.shapes[other].path is None:
                raise self.broken(node, f"has the sh:property {other}, which has no sh:path", "Give it one.")
        self._note_uncovered(node)
        severity = self.one(node, "severity")
        return Shape(
            node=node,
            path=path,
            targets=self._targets(node, types),
            constraints=tuple(self._constraints(node, path is not None)),
            properties=tuple(self.values(node, "property")),
            severity=severity.value if severity is not None else f"{SH}Violation",
            messages=tuple(self.values(node, "message")),
            is_deactivated=self.truth(node, "deactivated"),
            file=self.files.get(node, "shapes"),
        )

    def _targets(self, node: Any, types: set[str]) -> Targets:
        root: Any = ox.NamedNode(f"{RDFS}Class")
        classes = [root, ox.NamedNode(f"{OWL}Class"), *self.subjects(f"{RDFS}subClassOf", root)]
        is_class = any(str(kind).strip("<>") in types for kind in classes)
        return Targets(
            nodes=tuple(self.values(node, "targetNode")),
            classes=tuple(dict.fromkeys([*self.values(node, "targetClass"), *([node] if is_class else [])])),
            subjects_of=tuple(self.values(node, "targetSubjectsOf")),
            objects_of=tuple(self.values(node, "targetObjectsOf")),
        )

    def _path(self, shape: Any, node: Any, above: tuple[Any, ...] = ()) -> Path:
        if isinstance(node, ox.NamedNode) and node.value != f"{RDF}nil":
            return Path("predicate", (), node)
        if node in above:
            raise self.broken(shape, "has a sh:path that leads back to itself", "Write it with sh:zeroOrMorePath.")
        if self.values(node, f"{RDF}first"):
            return self._way(shape, node, "sequence", self.list_of(shape, node, "path"), above)
        for kind in ("inversePath", *SUFFIX):
            for part in self.values(node, kind):
                return Path(kind, (self._path(shape, part, (*above, node)),), node)
        for listed in self.values(node, "alternativePath"):
            return self._way(shape, node, "alternative", self.list_of(shape, listed, "alternativePath"), above)
        raise self.broken(shape, f"has {node} for sh:path, which is no property path", "Give an IRI or a SHACL path.")

    def _way(self, shape: Any, node: Any, kind: str, parts: list[Any], above: tuple[Any, ...]) -> Path:
        if len(parts) < 2:
            raise self.broken(shape, f"has a {kind} path of fewer than two parts", "Give two or more.")
        return Path(kind, tuple(self._path(shape, part, (*above, node)) for part in parts), node)

    def _note_uncovered(self, node: Any) -> None:
        known = {*MANY, *LISTED, *ONCE, *ASIDE}
        for predicate in sorted(self.said.get(node, {})):
            name = predicate.removeprefix(SH)
            if name != predicate and name not in known:
                self.uncovered.setdefault(node, f"it uses sh:{name}")

    # ---- what they ask

    def _constraints(self, node: Any, is_property: bool) -> Iterator[Constraint]:
        for name in (*MANY, *LISTED, *ONCE):
            found = self.values(node, name)
            if name in ONCE and len(found) > 1:
                self.one(node, name)
            if found and name in PROPERTY_ONLY and not is_property:
                raise self.broken(node, f"has sh:{name} and no sh:path", "Move it to a property shape.")
            for value in found:
                component = f"{SH}{name[0].upper()}{name[1:]}ConstraintComponent"
                if name == "sparql":
                    yield from self._sparql(node, value)
                else:
                    yield Constraint(name, component, *self._value(node, name, value))
        yield from self._qualified(node, is_property)
        yield from self._custom(node, is_property)

    def _value(self, node: Any, name: str, value: Any) -> tuple[Any, Any]:
        """What a parameter was given, checked, and what belongs to it."""
        if name in (*LISTED, "in", "languageIn"):
            members = self.list_of(node, value, name)
            if name in LISTED and not members:
                raise self.broken(node, f"has an empty sh:{name}", "Give it a shape or more.")
            return tuple(members), None
        if name in ("minCount", "maxCount", "minLength", "maxLength"):
            return self.number(node, name), None
        if name == "uniqueLang":
            return self.truth(node, name) and node not in self.ones, None
        if name == "closed":
            allowed = [part for shape in self.values(node, "property") for part in self.values(shape, "path")]
            for listed in self.values(node, "ignoredProperties"):
                allowed += self.list_of(node, listed, "ignoredProperties")
            return self.truth(node, name), tuple(allowed)
        if name == "pattern":
            flags = self.one(node, "flags")
            return value.value, "" if flags is None else flags.value
        if name == "nodeKind" and value.value.removeprefix(SH) not in KINDS:
            raise self.broken(node, f"has {value} for sh:nodeKind", f"Give one of {', '.join(KINDS)}, in sh:.")
        if name in ("class", "datatype", "equals", "disjoint", "lessThan", "lessThanOrEquals") and isinstance(
            value, ox.Literal
        ):
            raise self.broken(node, f"has {value} for sh:{name}", "Give an IRI.")
        if name == "node" and self.shapes[value].path is not None:
            raise self.broken(node, f"has the property shape {value} for sh:node", "Use sh:property.")
        if name.startswith(("min", "max")) and not isinstance(value, ox.Literal):
            raise self.broken(node, f"has {value} for sh:{name}", "Give a literal.")
        return value, None

    def _qualified(self, node: Any, is_property: bool) -> Iterator[Constraint]:
        if not is_property:  # as pySHACL has it: it asks nothing there
            return
        for value in self.values(node, "qualifiedValueShape"):
            least, most = self.number(node, "qualifiedMinCount"), self.number(node, "qualifiedMaxCount")
            if least is None and most is None:
                advice = "Give sh:qualifiedMinCount or sh:qualifiedMaxCount."
                raise self.broken(node, "has sh:qualifiedValueShape and no count", advice)
            others = tuple(self._siblings(node)) if self.truth(node, "qualifiedValueShapesDisjoint") else ()
            for name, count in (("qualifiedMinCount", least), ("qualifiedMaxCount", most)):
                if count is not None:
                    component = f"{SH}{name[0].upper()}{name[1:]}ConstraintComponent"
                    yield Constraint(name, component, count, (value, others))

    def _sparql(self, node: Any, source: Any) -> Iterator[Constraint]:
        if self.truth(source, "deactivated"):
            return
        select = self.one(source, "select")
        if not isinstance(select, ox.Literal):
            raise self.broken(node, "has a sh:sparql without a sh:select", "Give it the text of a SELECT query.")
        query = self._query(node, source, select.value, {}, ())
        messages = tuple(self.values(source, "message"))
        yield Constraint("sparql", f"{SH}SPARQLConstraintComponent", source, None, query, messages)

    def _query(self, node: Any, source: Any, text: str, bound: dict[str, Any], names: tuple[str, ...]) -> Query:
        prefixes = {"rdf": RDF, "rdfs": RDFS, "owl": OWL}
        ontologies = set(self.subjects(f"{RDF}type", ox.NamedNode(f"{OWL}Ontology")))
        owners = self.values(source, "prefixes")
        if owners and not any(self.values(owner, "declare") and owner in ontologies for owner in owners):
            owners = [*sorted(ontologies, key=str), *owners]  # as pySHACL has it: any ontology's prefixes count
        for owner in owners:
            owners += [one for one in self.values(owner, f"{OWL}imports") if one not in owners]
            for one in self.values(owner, "declare"):
                prefix, namespace = self.one(one, "prefix"), self.one(one, "namespace")
                if prefix is None or namespace is None:
                    raise self.broken(owner, "has a sh:declare without sh:prefix or sh:namespace", "Give both.")
                prefixes[prefix.value] = namespace.value
        try:
            prebinding.check(text, {"this", *names})
        except ValueError as error:
            raise self.broken(
                node, f"has a query that {error}", "SHACL cannot bind values in it: write it without."
            ) from error
        head = "".join(f"PREFIX {prefix}: <{namespace}>\n" for prefix, namespace in prefixes.items())
        return Query(head + text, prebinding.is_ask(text), {"currentShape": node, **bound})

    # ---- constraint components that the shapes graph defines

    def _components(self) -> Iterator[tuple[Any, list[tuple[Any, bool]]]]:
        root = ox.NamedNode(f"{SH}ConstraintComponent")
        kinds = [root, *self.subjects(f"{RDFS}subClassOf", root)]
        found = {node for kind in kinds for node in self.subjects(f"{RDF}type", kind)}
        for node in sorted(found, key=str):
            if not str(node).startswith(f"<{SH}"):
                parameters = self.values(node, "parameter")
                paths = [(self.one(one, "path"), self.truth(one, "optional")) for one in parameters]
                if any(not isinstance(path, ox.NamedNode) for path, _ in paths):
                    raise self.broken(node, "has a sh:parameter whose sh:path is no IRI", "Give it one.")
                yield node, paths

    def _custom(self, node: Any, is_property: bool) -> Iterator[Constraint]:
        for component, parameters in self.components:
            if any(not self.values(node, path.value) for path, optional in parameters if not optional):
                continue
            bound = {re.split(r"[/#:]", path.value)[-1]: self.values(node, path.value)[0] for path, _ in parameters
                     if self.values(node, path.value)}  # fmt: skip
            names = tuple(re.split(r"[/#:]", path.value)[-1] for path, _ in parameters)
            own = self.values(component, "propertyValidator" if is_property else "nodeValidator")
            validator = next(iter([*own, *self.values(component, "validator")]), None)
            text = None if validator is None else self.one(validator, "select" if own else "ask")
            if text is None:
                if validator is None or not self.values(validator, "jsFunctionName"):
                    raise self.broken(component, "has no validator for this kind of shape", "Give it a sh:validator.")
                self.uncovered.setdefault(node, f"its component {component} is written in JavaScript")
                continue
            query = self._query(node, validator, text.value, bound, names)
            messages = tuple(self.values(validator, "message")) or tuple(self.values(component, "message"))
            yield Constraint("component", component.value, component, None, query, messages)
