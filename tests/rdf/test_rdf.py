"""Things as RDF and back: the triples are those that follow from the ontologies, and reading them gives the thing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
import rdflib
from examples_count import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rdflib.namespace import OWL, RDF, RDFS, XSD
from strategies import EX, VOCABULARY, Sample, directed, iris, things

from provml import rdf
from provml.errors import InvalidIRI, MissingField, NodeNotFound, WrongType, WrongValue
from provml.model.field import Field
from provml.model.thing import CLASSES, RDF_TYPE, Thing
from provml.model.values import IRI, Literal, Text
from provml.rdf.namespaces import PROV
from provml.vocab import Activity, Agent, Entity, Model, ModelEvaluation, Person, TrainingEpochExecution

NODE = IRI(f"{EX}node")

# ---- the ontologies, queried with SPARQL


@cache
def ontology() -> ox.Store:
    """Return the ontologies of provml, merged into one graph."""
    store = ox.Store()
    for file in sorted((Path(__file__).parents[2] / "ontologies").rglob("*.ttl")):
        if file.parent.name == "ontologies":
            store.load(path=file, format=ox.RdfFormat.TURTLE)
    return store


def query_ontology(query: str) -> list[tuple[str, ...]]:
    """Return the rows of a query over the ontologies."""
    prefixes = "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX owl: <http://www.w3.org/2002/07/owl#> "
    rows = ontology().query(prefixes + "PREFIX provlake: <https://w3id.org/provlake#> " + query)
    assert isinstance(rows, ox.QuerySolutions)
    return [tuple(term.value for term in row) for row in rows]  # type: ignore[union-attr, misc]


@cache
def ancestors(iri: str) -> frozenset[str]:
    """Return a class and its superclasses and equivalent classes, without deprecated aliases."""
    aliases = {
        x for (x,) in query_ontology("SELECT ?x { ?x owl:equivalentClass ?y ; owl:deprecated true FILTER isIRI(?y) }")
    }
    path = "(rdfs:subClassOf | owl:equivalentClass)*"
    classes = {x for (x,) in query_ontology(f"SELECT DISTINCT ?x {{ <{iri}> {path} ?x FILTER isIRI(?x) }}")}
    return frozenset(classes - aliases - {str(OWL.Thing)})


@cache
def expected_super_properties(iri: str) -> frozenset[str]:
    """Return the super-properties of a property that are written with it.

    A property marked as a closure stop is written only for a direct sub-property in another namespace, and nothing
    above it is.
    """
    direct: dict[str, set[str]] = {}
    for narrower, wider in query_ontology("SELECT ?p ?q { ?p rdfs:subPropertyOf ?q FILTER isIRI(?q) }"):
        direct.setdefault(narrower, set()).add(wider)
    stops = {x for (x,) in query_ontology("SELECT ?x { ?x provlake:closureStop true }")}
    assert stops
    result = {x for x in direct.get(iri, ()) if x not in stops or not x.startswith(iri.partition("#")[0] + "#")}
    stack = list(result)
    while stack:
        new = direct.get(stack.pop(), set()) - stops - result
        result |= new
        stack += new
    return frozenset(result)


@cache
def inverses() -> dict[str, str]:
    return dict(query_ontology("SELECT ?p ?q { ?p owl:inverseOf ?q FILTER (isIRI(?p) && isIRI(?q)) }"))  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", VOCABULARY, ids=lambda cls: cls.__name__)
def test_a_thing_has_every_type_that_follows_from_its_class(cls: type[Thing]):
    assert len(cls.TYPES) == len(set(cls.TYPES))
    assert set(cls.TYPES) == ancestors(str(cls.CLASS_IRI))


def test_a_field_writes_every_property_that_follows_from_it():
    for cls in VOCABULARY:
        for field in cls.FIELDS.values():
            assert set(field.super_properties) == expected_super_properties(field.iri), (cls, field)
            assert field.inverse == inverses().get(field.iri), (cls, field)


def test_examples_of_inferred_triples():
    lines = rdf.ntriples(Activity(f"{EX}a", generated=NODE, used=NODE)).decode()
    assert f"<{NODE}> <{PROV}wasGeneratedBy> <{EX}a> ." in lines
    assert f"<{EX}a> <{PROV}generated> <{NODE}> ." in lines
    assert "nfluenced" not in lines
    lines = rdf.ntriples(ModelEvaluation(f"{EX}v", was_derived_from_attribute=NODE)).decode()
    assert f"<{EX}v> <{PROV}wasDerivedFrom> <{NODE}> ." in lines
    assert f"<{EX}v> a <{PROV}Entity> .".replace(" a ", f" <{RDF_TYPE}> ") in lines


# ---- against rdflib, term by term

Triple = tuple[str, str, object]
DATATYPES = {
    float: XSD.double,
    int: XSD.integer,
    bool: XSD.boolean,
    Decimal: XSD.decimal,
    datetime: XSD.dateTime,
    date: XSD.date,
    time: XSD.time,
    timedelta: XSD.dayTimeDuration,
    IRI: XSD.anyURI,
}


def rdflib_term(value: object, *, as_node: bool) -> rdflib.URIRef | rdflib.Literal:
    """Return the term that a user of rdflib would write for a value."""
    if isinstance(value, Thing):
        return rdflib.URIRef(value.iri)
    if isinstance(value, IRI) and as_node:
        return rdflib.URIRef(value)
    if isinstance(value, Text):
        return rdflib.Literal(str(value), lang=value.language)
    if isinstance(value, Literal):
        return rdflib.Literal(str(value), datatype=rdflib.URIRef(value.datatype))
    if type(value) is str:
        return rdflib.Literal(value)
    if isinstance(value, datetime) and value.utcoffset() is not None:
        value = value.replace(tzinfo=None) - value.utcoffset()  # type: ignore[operator]  # not None here
        return rdflib.Literal(f"{value.isoformat()}Z", datatype=XSD.dateTime)
    return rdflib.Literal(value, datatype=DATATYPES[type(value)])


def rdflib_graph(nodes: Iterable[Thing]) -> rdflib.Graph:
    """Return the graph of things, built triple by triple from the ontologies."""
    graph = rdflib.Graph()
    for thing in nodes:
        node = rdflib.URIRef(thing.iri)
        for name in ancestors(str(thing.CLASS_IRI)):
            graph.add((node, RDF.type, rdflib.URIRef(name)))
        for name, field in thing.FIELDS.items():
            values = getattr(thing, name)
            for value in values if isinstance(values, tuple) else () if values is None else (values,):
                term = rdflib_term(value, as_node=field.kind == "thing")
                for prop in (field.iri, *expected_super_properties(field.iri)):
                    graph.add((node, rdflib.URIRef(prop), term))
                if field.iri in inverses():
                    graph.add((term, rdflib.URIRef(inverses()[field.iri]), node))
        for prop, values in thing.extra.items():
            for value in values:
                graph.add((node, rdflib.URIRef(prop), rdflib_term(value, as_node=True)))
    return graph


def comparable(graph: rdflib.Graph) -> set[Triple]:
    """Return the triples of a graph without blank nodes, with literals by value."""
    return {(str(s), str(p), by_value(o)) for s, p, o in graph}


def by_value(term: Any) -> object:
    if isinstance(term, rdflib.URIRef):
        return str(term)
    value = term.value
    if isinstance(value, float):
        value = "NaN" if math.isnan(value) else repr(value)
    if term.datatype == XSD.dayTimeDuration:
        value = ox_canonical(str(term), str(term.datatype))
    if isinstance(value, datetime) and value.utcoffset() is not None:
        value = value.replace(tzinfo=None) - datetime.min - value.utcoffset()  # type: ignore[operator]
    key = str(term) if value is None or isinstance(value, str) else (type(value), value)
    return (key, term.language, str(term.datatype))


def ox_canonical(text: str, datatype: str) -> str:
    """Return a literal's text as Oxigraph stores it, for datatypes that rdflib parses to types of its own."""
    store = ox.Store()
    store.add(ox.Quad(ox.NamedNode(EX), ox.NamedNode(EX), ox.Literal(text, datatype=ox.NamedNode(datatype))))
    return next(iter(store)).object.value  # type: ignore[union-attr]


def rdflib_can_convert_zones(thing: Thing) -> bool:
    """Return True if no datetime is so early or late that rdflib fails to convert its zone."""
    fields = [getattr(thing, name) for name in thing.FIELDS]
    values = [
        item for value in (*fields, *thing.extra.values()) for item in (value if isinstance(value, tuple) else (value,))
    ]
    return all(1 < value.year < 9999 for value in values if isinstance(value, datetime))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.lists(things().filter(rdflib_can_convert_zones), max_size=3))
def test_the_triples_are_those_that_rdflib_builds(nodes: list[Thing]):
    parsed = rdflib.Graph().parse(data=rdf.ntriples(nodes), format="nt")
    assert comparable(parsed) == comparable(rdflib_graph(nodes))


@settings(max_examples=examples(300))
@given(st.lists(things(), max_size=3))
def test_oxigraph_parses_the_n_triples_and_n_quads(nodes: list[Thing]):
    plain = list(ox.parse(rdf.ntriples(nodes), ox.RdfFormat.N_TRIPLES))
    assert list(ox.parse(rdf.nquads(nodes), ox.RdfFormat.N_QUADS)) == plain
    named = list(ox.parse(rdf.nquads(nodes, graph=f"{EX}g"), ox.RdfFormat.N_QUADS))
    assert [quad.triple for quad in named] == [quad.triple for quad in plain] == list(rdf.triples(nodes))
    assert {quad.graph_name for quad in named} <= {ox.NamedNode(f"{EX}g")}
    assert rdf.ntriples(nodes).count(b"\n") == len(plain)


@settings(max_examples=examples(400))
@given(things() | things([Sample]))
def test_a_thing_is_equal_after_a_round_trip_through_a_store(thing: Thing):
    store = ox.Store()
    store.load(rdf.ntriples(thing), ox.RdfFormat.N_TRIPLES)
    back = rdf.read(store, thing.iri)
    assert type(back) is type(thing)
    assert back == thing
    again = ox.Store()
    again.load(rdf.ntriples(back), ox.RdfFormat.N_TRIPLES)
    assert set(again) == set(store)
    triples = list(rdf.triples(thing))
    assert rdf.read(triples, thing.iri) == thing
    assert rdf.read(ox.Dataset(ox.Quad(*triple) for triple in triples), thing.iri) == thing


def test_text_that_looks_like_syntax_stays_text():
    thing = Thing(f"{EX}a", label=["a .\n<urn:b> <urn:c> <urn:d> .\n", ' .\n" .\n', "\\"])
    quads = list(ox.parse(rdf.nquads(thing, graph=f"{EX}g"), ox.RdfFormat.N_QUADS))
    assert {quad.object.value for quad in quads} == set(thing.label)  # type: ignore[union-attr]
    with pytest.raises(InvalidIRI):
        rdf.nquads(thing, graph="no graph")


# ---- several things


def chain(length: int) -> Thing:
    thing = Entity(f"{EX}0")
    for n in range(1, length):
        thing = Entity(f"{EX}{n}", was_derived_from=[thing, thing], extra={f"{EX}p": thing})
    return thing


def count_descriptions(data: bytes) -> Counter[str]:
    """Count, for each node, the triples that type it as an entity or an activity."""
    endings = (f"<{RDF_TYPE}> <{PROV}Entity> .", f"<{RDF_TYPE}> <{PROV}Activity> .")
    return Counter(line.split()[0] for line in data.decode().splitlines() if line.endswith(endings))


def test_follow_writes_each_reachable_thing_once():
    last = chain(3000)
    assert count_descriptions(rdf.ntriples(last)) == {f"<{EX}2999>": 1}
    assert count_descriptions(rdf.ntriples(last, follow=True)) == {f"<{EX}{n}>": 1 for n in range(3000)}
    assert count_descriptions(rdf.nquads([last, last], follow=True, graph=EX)) == {}
    assert len(list(rdf.reachable([last, last]))) == 3000
    shared = Entity(f"{EX}s")
    first, second = Activity(f"{EX}1", used=shared), Activity(f"{EX}2", used=[shared, NODE])
    assert set(count_descriptions(rdf.ntriples([first, second, shared], follow=True)).values()) == {1}


def test_follow_ends_if_things_refer_to_each_other():
    first = Entity(f"{EX}a")
    activity = Activity(f"{EX}b", used=first)
    second = first.replace(was_generated_by=activity)
    assert {thing.iri for thing in rdf.reachable([second])} == {f"{EX}a", f"{EX}b"}
    assert {str(line) for line in rdf.ntriples(second, follow=True).splitlines()} == {
        str(line) for line in rdf.ntriples([second, activity]).splitlines()
    }
    cyclic = Entity(f"{EX}k", was_derived_from=NODE)
    cyclic._values["was_derived_from"] = (cyclic,)  # not possible with the public API
    assert count_descriptions(rdf.ntriples(cyclic, follow=True)) == {f"<{EX}k>": 1}
    assert repr(cyclic) == f"Entity('{EX}k', was_derived_from=(<{EX}k>,))"
    assert cyclic == Entity(f"{EX}k", was_derived_from=cyclic.iri)


@pytest.mark.parametrize("follow", [False, True])
def test_any_iterable_of_things_is_accepted(follow: bool):
    entities = [Entity(f"{EX}{n}", value=n) for n in range(5)]
    for make in (tuple, iter, lambda xs: (x for x in xs), lambda xs: dict.fromkeys(xs).keys()):
        to_iterable: Callable[[list[Entity]], Iterable[Entity]] = make
        assert rdf.ntriples(to_iterable(entities), follow=follow) == rdf.ntriples(entities)
        assert rdf.nquads(to_iterable(entities), follow=follow, graph=EX) == rdf.nquads(entities, graph=EX)
        assert set(rdf.triples(to_iterable(entities), follow=follow)) == set(rdf.triples(entities))
    assert rdf.ntriples([]) == rdf.nquads([], graph=EX) == b""


@pytest.mark.parametrize("write", [rdf.ntriples, rdf.nquads, rdf.triples, rdf.reachable], ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"follow": True}], ids=["alone", "follow"])
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("x", "Create one with a class"),
        (b"x", "Create one with a class"),
        (3, "Create one with a class"),
        (None, "Create one with a class"),
        ([1], "Create one with a class"),
        (["x"], "Create one with a class"),
        ([Entity(f"{EX}a"), None], "Create one with a class"),
        ([[Entity(f"{EX}a")]], "Pass one flat list"),
        ({"a": 1}.items(), "Pass one flat list"),
        (NODE, "Create a thing with this IRI"),
        ([NODE], "Create a thing with this IRI"),
    ],
    ids=repr,
)
def test_only_things_are_written(write: Any, options: dict[str, bool], value: object, advice: str):
    if write is rdf.reachable:
        options = {}
    with pytest.raises(WrongType, match=rf"^rdf\.{write.__name__} takes a thing, or several in a list, not .*{advice}"):
        list(write(value, **options))


def test_an_error_of_the_iterable_is_raised_unchanged():
    def broken() -> Iterable[Thing]:
        yield Entity(f"{EX}a")
        raise AttributeError("mine")

    for follow in (False, True):
        with pytest.raises(AttributeError, match="mine"):
            rdf.ntriples(broken(), follow=follow)


def test_reachable_yields_a_thing_and_what_it_refers_to():
    entity = Entity(f"{EX}a", was_generated_by=Activity(f"{EX}b"))
    assert [thing.iri for thing in rdf.reachable(entity)] == [f"{EX}a", f"{EX}b"]


def test_extra_writes_nodes_for_iris_and_things_and_literals_for_scalars():
    thing = Thing(f"{EX}a", extra={f"{EX}p": [NODE, Entity(f"{EX}e"), "text", 3, Text("x", "en")]})
    objects = {triple.object for triple in rdf.triples(thing)}
    assert objects == {
        ox.NamedNode(NODE),
        ox.NamedNode(f"{EX}e"),
        ox.Literal("text"),
        ox.Literal(3),
        ox.Literal("x", language="en"),
    }


def test_an_iri_in_a_field_of_scalars_is_written_as_a_literal():
    (triple,) = [t for t in rdf.triples(Entity(f"{EX}a", value=NODE)) if t.predicate.value == f"{PROV}value"]
    assert triple.object == ox.Literal(NODE, datatype=ox.NamedNode(XSD.anyURI))


def test_iris_with_quotes_are_written_unchanged():
    class Quoted(Thing):
        __slots__ = ()
        CLASS_IRI = f"{EX}it's(a)class"
        TYPES = (CLASS_IRI,)
        OWN_FIELDS = (
            Field(
                "code",
                f"{EX}it's(code)",
                "other",
                single=True,
                datatype=f"{EX}it's(type)",
                super_properties=(f"{EX}it's(above)",),
            ),
            Field("link", f"{EX}it's(link)", "thing", inverse=f"{EX}it's(back)"),
        )

        def __init__(self, iri: str, **values: Any) -> None:
            self._assign(iri, values, None)

    thing = Quoted(f"{EX}it's", code=Literal("it's", f"{EX}it's(type)"), link=IRI(f"{EX}that's"))
    assert {triple.predicate.value for triple in rdf.triples(thing)} == {
        str(RDF_TYPE), *(f"{EX}it's({x})" for x in ("code", "above", "link", "back")),
    }  # fmt: skip
    del CLASSES[Quoted.CLASS_IRI]


# ---- reading


def store_of(turtle: str) -> ox.Store:
    store = ox.Store()
    prefixes = f"@prefix ex: <{EX}> . @prefix prov: <{PROV}> . @prefix xsd: <{XSD}> . @prefix rdfs: <{RDFS}> . "
    store.load(prefixes + turtle, ox.RdfFormat.TURTLE)
    return store


def test_a_node_without_triples_is_not_found():
    store = store_of("ex:a ex:p ex:b .")
    for graph in (store, ox.Dataset(store), list(store), []):
        with pytest.raises(NodeNotFound, match=r"http://example\.org/b") as caught:
            rdf.read(graph, f"{EX}b")
        assert caught.value.iri == f"{EX}b"
        assert isinstance(caught.value, LookupError)
    with pytest.raises(InvalidIRI):
        rdf.read(store, "b")


def test_a_node_of_an_unknown_type_is_a_thing_with_extra_properties():
    thing = rdf.read(store_of('ex:a a ex:Unknown ; rdfs:label "A"@en ; ex:p 1, ex:b, "x" .'), f"{EX}a")
    assert thing == Thing(
        f"{EX}a",
        label=Text("A", "en"),
        extra={RDF_TYPE: IRI(f"{EX}Unknown"), f"{EX}p": [1, IRI(f"{EX}b"), "x"]},
    )
    assert type(rdf.read(store_of("ex:a ex:p 1 ."), f"{EX}a")) is Thing


def test_a_node_of_two_classes_is_read_as_the_more_specific_one():
    classes = [TrainingEpochExecution, Person]
    types = [IRI(name) for cls in classes for name in cls.TYPES]
    store = ox.Store()
    for name in types:
        store.add(ox.Quad(ox.NamedNode(f"{EX}a"), ox.NamedNode(RDF_TYPE), ox.NamedNode(name)))
    specific = max(classes, key=lambda cls: len(cls.TYPES))
    required = {"was_derived_from_data_transformation": NODE, "was_section_of": NODE, "section_index": 1}
    for name in specific.REQUIRED:
        field = specific.FIELDS[name]
        store.add(ox.Quad(ox.NamedNode(f"{EX}a"), ox.NamedNode(field.iri), rdf.term(required[name])))
    for prop, value in ((f"{PROV}actedOnBehalfOf", NODE), (f"{EX}p", "x")):
        store.add(ox.Quad(ox.NamedNode(f"{EX}a"), ox.NamedNode(prop), rdf.term(value)))
    thing = rdf.read(store, f"{EX}a")
    assert type(thing) is specific
    assert set(thing.extra[RDF_TYPE]) == set(Person.TYPES) - specific.TYPE_SET
    assert thing.extra[IRI(f"{PROV}actedOnBehalfOf")] == (NODE,)
    assert set(store) <= {ox.Quad(*triple) for triple in rdf.triples(thing)}


def test_a_node_can_be_read_as_a_chosen_class():
    model = Model(f"{EX}m", was_derived_from_attribute=NODE, sha256="0" * 64, value="x")
    entity = rdf.read(rdf.triples(model), model.iri, cls=Entity)
    assert type(entity) is Entity
    assert entity.value == "x"
    assert {quad.triple for quad in ox.parse(rdf.ntriples(entity), ox.RdfFormat.N_TRIPLES)} == set(rdf.triples(model))
    assert rdf.read(store_of('ex:a prov:value "x" .'), f"{EX}a", cls=Entity) == Entity(f"{EX}a", value="x")


def test_a_node_in_a_named_graph_is_read_too():
    entity = Entity(f"{EX}a", value=1)
    store = ox.Store()
    store.load(rdf.nquads(entity, graph=f"{EX}g"), ox.RdfFormat.N_QUADS)
    store.load(rdf.nquads(entity), ox.RdfFormat.N_QUADS)
    assert rdf.read(store, f"{EX}a") == entity
    assert rdf.read(iter(store), f"{EX}a") == entity


@pytest.mark.parametrize(
    ("turtle", "error", "field"),
    [
        ('a prov:Activity ; prov:startedAtTime "yesterday"', WrongType, "started_at_time"),
        ('a prov:Activity ; prov:startedAtTime "yesterday"^^xsd:dateTime', WrongType, "started_at_time"),
        ("a prov:Activity ; prov:startedAtTime ex:then", WrongType, "started_at_time"),
        ('a prov:Activity ; prov:startedAtTime "12024-01-01T00:00:00"^^xsd:dateTime', WrongType, "started_at_time"),
        ('a prov:Activity ; prov:used "text"', WrongType, "used"),
        ('a prov:Activity ; prov:used "http://example.org/b"^^xsd:anyURI', WrongType, "used"),
        ("a prov:Activity ; prov:used [ a prov:Entity ]", WrongType, "used"),
        ("a prov:Entity ; prov:value ex:b", WrongType, "value"),
        ("a prov:Entity ; prov:value []", WrongType, "value"),
        ("a prov:Entity ; prov:value 1, 2", WrongType, "value"),
        ("ex:p [ ex:q 1 ]", WrongType, "extra"),
        ('a prov:Entity, "Entity"', WrongType, "extra"),
        ("a prov:Entity, []", WrongType, "extra"),
        ("rdfs:label 3", WrongType, "label"),
    ],
)
def test_a_node_that_violates_its_class_is_an_error(turtle: str, error: type[WrongType], field: str):
    with pytest.raises(error) as caught:
        rdf.read(store_of(f"ex:a {turtle} ."), f"{EX}a")
    assert caught.value.field.startswith(field)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("graph", [3, None, "x", b"x", [1], Entity(f"{EX}a")], ids=repr)
def test_read_accepts_only_graphs_of_pyoxigraph(graph: object):
    with pytest.raises(WrongType, match=r"^rdf\.read takes a Store, a Dataset, or triples of pyoxigraph, not "):
        rdf.read(graph, f"{EX}a")


@pytest.mark.parametrize(
    ("turtle", "field", "value", "extra"),
    [
        ('a prov:Activity ; prov:startedAtTime "yesterday"', "started_at_time", None, ["yesterday"]),
        ("a prov:Activity ; prov:startedAtTime ex:then", "started_at_time", None, [IRI(f"{EX}then")]),
        ('a prov:Activity ; prov:used "text", ex:b', "used", (), ["text", IRI(f"{EX}b")]),
        ("a prov:Entity ; prov:value ex:b", "value", None, [IRI(f"{EX}b")]),
        ("a prov:Entity ; prov:value 1, 2", "value", None, [1, 2]),
    ],
)
def test_values_that_violate_the_ontology_are_read_into_extra_if_not_strict(
    turtle: str, field: str, value: object, extra: list[object]
):
    store = store_of(f'ex:a {turtle} ; rdfs:label "A" .')
    thing = rdf.read(store, f"{EX}a", strict=False)
    assert (getattr(thing, field), thing.label) == (value, ("A",))
    assert set(thing.extra[IRI(type(thing).FIELDS[field].iri)]) == set(extra)
    assert {ox.Quad(*triple) for triple in rdf.triples(thing)} == set(store)


def test_a_node_without_required_values_is_read_if_not_strict():
    store = store_of("ex:a a <https://w3id.org/provml#ModelEvaluation> ; prov:value 0.17 .")
    with pytest.raises(MissingField):
        rdf.read(store, f"{EX}a")
    thing = rdf.read(store, f"{EX}a", strict=False)
    assert (type(thing), thing.value, thing.was_derived_from_attribute) == (ModelEvaluation, Decimal("0.17"), ())
    assert set(store) <= {ox.Quad(*triple) for triple in rdf.triples(thing)}
    assert thing.replace(was_derived_from_attribute=NODE).was_derived_from_attribute == (NODE,)


def test_a_thing_that_was_not_read_strictly_is_fixed_by_replace():
    store = store_of("ex:a a prov:Entity ; prov:value 1, 2 .")
    thing = rdf.read(store, f"{EX}a", strict=False)
    with pytest.raises(WrongValue, match="Pass value=… instead"):
        thing.replace(label="A")
    assert thing.replace(value=1, extra=None) == Entity(f"{EX}a", value=1)


def test_an_empty_field_implies_no_other_value():
    store = ox.Store()
    evaluation = ModelEvaluation(f"{EX}v", was_derived_from_attribute=NODE)
    store.load(
        rdf.ntriples([evaluation, evaluation.replace(was_derived_from_attribute=IRI(f"{EX}b"))]), ox.RdfFormat.N_TRIPLES
    )
    thing = rdf.read(store, f"{EX}v", strict=False)  # two attributes, and one is allowed
    assert thing.was_derived_from_attribute == ()
    assert set(thing.was_derived_from) == {NODE, IRI(f"{EX}b")}
    assert {ox.Quad(*triple) for triple in rdf.triples(thing)} == set(store)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(things())
def test_a_valid_node_is_read_the_same_if_not_strict(thing: Thing):
    triples = list(rdf.triples(thing))
    assert rdf.read(triples, thing.iri, strict=False) == rdf.read(triples, thing.iri)


def test_a_blank_node_is_an_error_even_if_not_strict():
    with pytest.raises(WrongType, match="Give the node an IRI first"):
        rdf.read(store_of("ex:a a prov:Activity ; prov:used [ a prov:Entity ] ."), f"{EX}a", strict=False)


def test_facets_are_checked_when_a_node_is_read():
    model = Model(f"{EX}m", was_derived_from_attribute=NODE, sha256="0" * 64)
    invalid = rdf.ntriples(model).replace(b"0" * 64, b"0" * 63)
    with pytest.raises(WrongValue):
        rdf.read((quad.triple for quad in ox.parse(invalid, ox.RdfFormat.N_TRIPLES)), model.iri)


def test_an_any_uri_literal_stays_a_literal():
    store = store_of('ex:a ex:p "http://example.org/b"^^xsd:anyURI, ex:b .')
    thing = rdf.read(store, f"{EX}a")
    assert set(thing.extra[IRI(f"{EX}p")]) == {Literal(f"{EX}b", XSD.anyURI), IRI(f"{EX}b")}
    assert {ox.Quad(*triple) for triple in rdf.triples(thing)} == set(store)


@given(directed)
def test_text_with_a_direction_survives_a_round_trip(text: Text):
    store = ox.Store()
    store.load(rdf.ntriples(Entity(f"{EX}a", value=text, label=text)), ox.RdfFormat.N_TRIPLES)
    back = rdf.read(store, f"{EX}a")
    assert (back.value, back.label) == (text, (text,))


def test_a_value_implied_by_a_narrower_property_is_left_out_and_others_are_read():
    evaluation = ModelEvaluation(f"{EX}v", was_derived_from_attribute=NODE, was_derived_from=IRI(f"{EX}other"))
    back = rdf.read(rdf.triples(evaluation), evaluation.iri)
    assert back == evaluation
    assert back.was_derived_from == (IRI(f"{EX}other"),)


class Related(Thing):
    """A class with equivalent properties, a chain of sub-properties, and a super-property without a field."""

    __slots__ = ()
    CLASS_IRI = f"{EX}ns#Related"
    TYPES = (CLASS_IRI,)
    OWN_FIELDS = (
        Field("same_a", f"{EX}ns#sameA", "thing", super_properties=(f"{EX}ns#sameB",)),
        Field("same_b", f"{EX}ns#sameB", "thing", super_properties=(f"{EX}ns#sameA",)),
        Field("low", f"{EX}ns#low", "thing", super_properties=(f"{EX}ns#middle",)),
        Field("middle", f"{EX}ns#middle", "thing", super_properties=(f"{EX}ns#high",)),
        Field("high", f"{EX}ns#high", "thing"),
        Field("hidden", f"{EX}ns#hidden", "thing", super_properties=(f"{EX}ns#noField",)),
    )

    def __init__(self, iri: str, *, extra: Any = None, **values: Any) -> None:
        self._assign(iri, values, extra)


@given(
    st.dictionaries(st.sampled_from([field.name for field in Related.OWN_FIELDS]), st.lists(iris.map(IRI), max_size=2))
)
def test_no_triple_is_lost_with_super_properties_of_all_kinds(values: dict[str, list[IRI]]):
    thing = Related(f"{EX}node", **values)
    back = rdf.read(rdf.triples(thing), thing.iri)
    assert set(rdf.triples(back)) == set(rdf.triples(thing))
    assert back.same_b == ()
    assert back.extra == {}


def test_class_of_returns_the_most_specific_class():
    assert rdf.class_of([]) is Thing
    assert rdf.class_of([f"{EX}Unknown"]) is Thing
    assert rdf.class_of(Model.TYPES) is Model
    assert rdf.class_of([str(Agent.CLASS_IRI), f"{EX}Unknown"]) is Agent
