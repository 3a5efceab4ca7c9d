"""Things as RDF and back: what is written is what the ontologies say follows, and it reads as what was written."""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rdflib.namespace import OWL, RDF, RDFS, XSD
from strategies import EX, VOCABULARY, Sample, directed, iris, things

from provml import rdf
from provml.errors import MissingField, NoSuchNode, NotAnIRI, WrongType, WrongValue
from provml.field import Field
from provml.things import CLASSES, RDF_TYPE, Thing
from provml.values import IRI, Literal, Text
from provml.vocab import Activity, Agent, Entity, Model, ModelEvaluation, Person, TrainingEpochExecution

NODE = IRI(f"{EX}node")
PROV = "http://www.w3.org/ns/prov#"

# ---- the ontologies, asked with SPARQL


@cache
def ontology() -> ox.Store:
    """Our ontologies, merged into one graph."""
    store = ox.Store()
    for file in sorted((Path(__file__).parents[1] / "ontologies").rglob("*.ttl")):
        if file.parent.name == "ontologies":
            store.load(path=file, format=ox.RdfFormat.TURTLE)
    return store


def ask(query: str) -> list[tuple[str, ...]]:
    """The rows of a query over the ontologies."""
    prefixes = "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX owl: <http://www.w3.org/2002/07/owl#> "
    rows = ontology().query(prefixes + "PREFIX provlake: <https://w3id.org/provlake#> " + query)
    assert isinstance(rows, ox.QuerySolutions)
    return [tuple(term.value for term in row) for row in rows]  # type: ignore[union-attr, misc]


@cache
def ancestors(iri: str) -> frozenset[str]:
    """A class and all that it is said to be a subclass of or the same as, without aliases that older queries use.

    What a vocabulary built upon another says is the same as one of its classes does not change the older class.
    """
    aliases = {x for (x,) in ask("SELECT ?x { ?x owl:equivalentClass ?y ; owl:deprecated true FILTER isIRI(?y) }")}
    up = "(rdfs:subClassOf | owl:equivalentClass)*"
    found = {x for (x,) in ask(f"SELECT DISTINCT ?x {{ <{iri}> {up} ?x FILTER isIRI(?x) }}")}
    return frozenset(found - aliases - {str(OWL.Thing)})


@cache
def written_above(iri: str) -> frozenset[str]:
    """The super-properties of a property; a stop only where another vocabulary names it directly, and nothing above."""
    direct: dict[str, set[str]] = {}
    for below, above in ask("SELECT ?p ?q { ?p rdfs:subPropertyOf ?q FILTER isIRI(?q) }"):
        direct.setdefault(below, set()).add(above)
    stops = {x for (x,) in ask("SELECT ?x { ?x provlake:closureStop true }")}
    assert stops
    found = {x for x in direct.get(iri, ()) if x not in stops or not x.startswith(iri.partition("#")[0] + "#")}
    waiting = list(found)
    while waiting:
        more = direct.get(waiting.pop(), set()) - stops - found
        found |= more
        waiting += more
    return frozenset(found)


@cache
def inverses() -> dict[str, str]:
    return dict(ask("SELECT ?p ?q { ?p owl:inverseOf ?q FILTER (isIRI(?p) && isIRI(?q)) }"))  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", VOCABULARY, ids=lambda cls: cls.__name__)
def test_a_thing_has_every_type_that_follows_from_its_class(cls: type[Thing]):
    assert len(cls.TYPES) == len(set(cls.TYPES))
    assert set(cls.TYPES) == ancestors(str(cls.CLASS_IRI))


def test_a_field_writes_every_property_that_follows_from_it():
    for cls in VOCABULARY:
        for field in cls.FIELDS.values():
            assert set(field.supers) == written_above(field.iri), (cls, field)
            assert field.inverse == inverses().get(field.iri), (cls, field)


def test_some_of_what_follows_is_as_we_know_it():
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
    """The term that rdflib's users would write for a value."""
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
        value = value.replace(tzinfo=None) - value.utcoffset()  # type: ignore[operator]  # it is not None
        return rdflib.Literal(f"{value.isoformat()}Z", datatype=XSD.dateTime)
    return rdflib.Literal(value, datatype=DATATYPES[type(value)])


def rdflib_graph(given_: Iterable[Thing]) -> rdflib.Graph:
    """The graph of some things, built statement by statement from what the ontologies say."""
    graph = rdflib.Graph()
    for thing in given_:
        node = rdflib.URIRef(thing.iri)
        for name in ancestors(str(thing.CLASS_IRI)):
            graph.add((node, RDF.type, rdflib.URIRef(name)))
        for name, field in thing.FIELDS.items():
            held = getattr(thing, name)
            for value in held if isinstance(held, tuple) else () if held is None else (held,):
                term = rdflib_term(value, as_node=field.kind == "thing")
                for prop in (field.iri, *written_above(field.iri)):
                    graph.add((node, rdflib.URIRef(prop), term))
                if field.iri in inverses():
                    graph.add((term, rdflib.URIRef(inverses()[field.iri]), node))
        for prop, several in thing.also.items():
            for value in several:
                graph.add((node, rdflib.URIRef(prop), rdflib_term(value, as_node=True)))
    return graph


def comparable(graph: rdflib.Graph) -> set[Triple]:
    """The triples of a graph without blank nodes, with literals by value."""
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
    kept = str(term) if value is None or isinstance(value, str) else (type(value), value)
    return (kept, term.language, str(term.datatype))


def ox_canonical(written: str, datatype: str) -> str:
    """A literal's text as Oxigraph keeps it, for what rdflib reads into types of its own."""
    store = ox.Store()
    store.add(ox.Quad(ox.NamedNode(EX), ox.NamedNode(EX), ox.Literal(written, datatype=ox.NamedNode(datatype))))
    return next(iter(store)).object.value  # type: ignore[union-attr]


def years_that_rdflib_can_move_between_zones(thing: Thing) -> bool:
    def fine(value: object) -> bool:
        return not isinstance(value, datetime) or 1 < value.year < 9999

    held = [getattr(thing, name) for name in thing.FIELDS]
    several = [
        one for value in (*held, *thing.also.values()) for one in (value if isinstance(value, tuple) else (value,))
    ]
    return all(map(fine, several))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.lists(things().filter(years_that_rdflib_can_move_between_zones), max_size=3))
def test_what_is_written_is_what_rdflib_would_build(given_: list[Thing]):
    written = rdf.ntriples(given_)
    read = rdflib.Graph().parse(data=written, format="nt")
    built = rdflib_graph(given_)
    assert comparable(read) == comparable(built)


@settings(max_examples=300)
@given(st.lists(things(), max_size=3))
def test_what_is_written_is_n_triples_for_oxigraph_and_as_quads_too(given_: list[Thing]):
    plain = list(ox.parse(rdf.ntriples(given_), ox.RdfFormat.N_TRIPLES))
    assert list(ox.parse(rdf.nquads(given_), ox.RdfFormat.N_QUADS)) == plain
    named = list(ox.parse(rdf.nquads(given_, graph=f"{EX}g"), ox.RdfFormat.N_QUADS))
    assert [quad.triple for quad in named] == [quad.triple for quad in plain] == list(rdf.triples(given_))
    assert {quad.graph_name for quad in named} <= {ox.NamedNode(f"{EX}g")}
    assert rdf.ntriples(given_).count(b"\n") == len(plain)


@settings(max_examples=400)
@given(things() | things([Sample]))
def test_a_thing_that_went_through_a_store_is_the_same(thing: Thing):
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


def test_text_that_looks_like_syntax_stays_text_in_quads():
    sly = Thing(f"{EX}a", label=["a .\n<urn:b> <urn:c> <urn:d> .\n", ' .\n" .\n', "\\"])
    quads = list(ox.parse(rdf.nquads(sly, graph=f"{EX}g"), ox.RdfFormat.N_QUADS))
    assert {quad.object.value for quad in quads} == set(sly.label)  # type: ignore[union-attr]
    with pytest.raises(NotAnIRI):
        rdf.nquads(sly, graph="no graph")


# ---- several things


def chain(length: int) -> Thing:
    thing = Entity(f"{EX}0")
    for n in range(1, length):
        thing = Entity(f"{EX}{n}", was_derived_from=[thing, thing], also={f"{EX}p": thing})
    return thing


def described(data: bytes) -> Counter[str]:
    """How often each node is said to be an entity or activity."""
    ends = (f"<{RDF_TYPE}> <{PROV}Entity> .", f"<{RDF_TYPE}> <{PROV}Activity> .")
    return Counter(line.split()[0] for line in data.decode().splitlines() if line.endswith(ends))


def test_following_writes_each_thing_that_can_be_reached_once():
    last = chain(3000)
    assert described(rdf.ntriples(last)) == {f"<{EX}2999>": 1}
    assert described(rdf.ntriples(last, follow=True)) == {f"<{EX}{n}>": 1 for n in range(3000)}
    assert described(rdf.nquads([last, last], follow=True, graph=EX)) == {}
    assert len(list(rdf.reachable([last, last]))) == 3000
    shared = Entity(f"{EX}s")
    one, other = Activity(f"{EX}1", used=shared), Activity(f"{EX}2", used=[shared, NODE])
    assert set(described(rdf.ntriples([one, other, shared], follow=True)).values()) == {1}


def test_following_ends_where_things_refer_to_each_other():
    first = Entity(f"{EX}a")
    activity = Activity(f"{EX}b", used=first)
    second = first.replace(was_generated_by=activity)
    assert {thing.iri for thing in rdf.reachable([second])} == {f"{EX}a", f"{EX}b"}
    assert {str(line) for line in rdf.ntriples(second, follow=True).splitlines()} == {
        str(line) for line in rdf.ntriples([second, activity]).splitlines()
    }
    knot = Entity(f"{EX}k", was_derived_from=NODE)
    knot._values["was_derived_from"] = (knot,)  # nobody can do this from outside
    assert described(rdf.ntriples(knot, follow=True)) == {f"<{EX}k>": 1}
    assert repr(knot) == f"Entity('{EX}k', was_derived_from=(<{EX}k>,))"
    assert knot == Entity(f"{EX}k", was_derived_from=knot.iri)


@pytest.mark.parametrize("follow", [False, True])
def test_things_come_from_anything_that_iterates(follow: bool):
    listed = [Entity(f"{EX}{n}", value=n) for n in range(5)]
    for make in (tuple, iter, lambda xs: (x for x in xs), lambda xs: dict.fromkeys(xs).keys()):
        given_: Callable[[list[Entity]], Iterable[Entity]] = make
        assert rdf.ntriples(given_(listed), follow=follow) == rdf.ntriples(listed)
        assert rdf.nquads(given_(listed), follow=follow, graph=EX) == rdf.nquads(listed, graph=EX)
        assert set(rdf.triples(given_(listed), follow=follow)) == set(rdf.triples(listed))
    assert rdf.ntriples([]) == rdf.nquads([], graph=EX) == b""


@pytest.mark.parametrize("write", [rdf.ntriples, rdf.nquads, rdf.triples, rdf.reachable], ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"follow": True}], ids=["alone", "followed"])
@pytest.mark.parametrize(
    ("given_", "advice"),
    [
        ("x", "Make one with a class"),
        (b"x", "Make one with a class"),
        (3, "Make one with a class"),
        (None, "Make one with a class"),
        ([1], "Make one with a class"),
        (["x"], "Make one with a class"),
        ([Entity(f"{EX}a"), None], "Make one with a class"),
        ([[Entity(f"{EX}a")]], "Give them in one flat list"),
        ({"a": 1}.items(), "Give them in one flat list"),
        (NODE, "Make a thing with this IRI"),
        ([NODE], "Make a thing with this IRI"),
    ],
    ids=repr,
)
def test_only_things_are_written(write: Any, options: dict[str, bool], given_: object, advice: str):
    if write is rdf.reachable:
        options = {}
    with pytest.raises(WrongType, match=rf"^rdf\.{write.__name__} takes a thing, or several in a list, not .*{advice}"):
        list(write(given_, **options))


def test_an_error_of_who_gives_the_things_is_left_alone():
    def broken() -> Iterable[Thing]:
        yield Entity(f"{EX}a")
        raise AttributeError("mine")

    for follow in (False, True):
        with pytest.raises(AttributeError, match="mine"):
            rdf.ntriples(broken(), follow=follow)


def test_one_thing_reaches_what_it_refers_to():
    entity = Entity(f"{EX}a", was_generated_by=Activity(f"{EX}b"))
    assert [thing.iri for thing in rdf.reachable(entity)] == [f"{EX}a", f"{EX}b"]


def test_also_writes_nodes_for_iris_and_things_and_literals_for_scalars():
    thing = Thing(f"{EX}a", also={f"{EX}p": [NODE, Entity(f"{EX}e"), "text", 3, Text("x", "en")]})
    objects = {triple.object for triple in rdf.triples(thing)}
    assert objects == {
        ox.NamedNode(NODE),
        ox.NamedNode(f"{EX}e"),
        ox.Literal("text"),
        ox.Literal(3),
        ox.Literal("x", language="en"),
    }


def test_an_iri_where_a_scalar_belongs_is_written_as_a_literal():
    (triple,) = [t for t in rdf.triples(Entity(f"{EX}a", value=NODE)) if t.predicate.value == f"{PROV}value"]
    assert triple.object == ox.Literal(NODE, datatype=ox.NamedNode(XSD.anyURI))


def test_terms_with_quotes_in_their_iris_are_written_as_they_are():
    class Quoted(Thing):
        __slots__ = ()
        CLASS_IRI = f"{EX}it's(a)class"
        TYPES = (CLASS_IRI,)
        OWN_FIELDS = (
            Field("one", f"{EX}it's(one)", "other", one=True, datatype=f"{EX}it's(type)", supers=(f"{EX}it's(above)",)),
            Field("link", f"{EX}it's(link)", "thing", inverse=f"{EX}it's(back)"),
        )

        def __init__(self, iri: str, **values: Any) -> None:
            self._keep(iri, values, None)

    thing = Quoted(f"{EX}it's", one=Literal("it's", f"{EX}it's(type)"), link=IRI(f"{EX}that's"))
    assert {triple.predicate.value for triple in rdf.triples(thing)} == {
        str(RDF_TYPE), *(f"{EX}it's({x})" for x in ("one", "above", "link", "back")),
    }  # fmt: skip
    del CLASSES[Quoted.CLASS_IRI]


# ---- reading


def store_of(turtle: str) -> ox.Store:
    store = ox.Store()
    prefixes = f"@prefix ex: <{EX}> . @prefix prov: <{PROV}> . @prefix xsd: <{XSD}> . @prefix rdfs: <{RDFS}> . "
    store.load(prefixes + turtle, ox.RdfFormat.TURTLE)
    return store


def test_a_node_of_which_nothing_is_said_cannot_be_read():
    store = store_of("ex:a ex:p ex:b .")
    for graph in (store, ox.Dataset(store), list(store), []):
        with pytest.raises(NoSuchNode, match=r"http://example\.org/b") as caught:
            rdf.read(graph, f"{EX}b")
        assert caught.value.iri == f"{EX}b"
        assert isinstance(caught.value, LookupError)
    with pytest.raises(NotAnIRI):
        rdf.read(store, "b")


def test_a_node_of_an_unknown_type_is_a_thing_with_all_that_is_said():
    thing = rdf.read(store_of('ex:a a ex:Unknown ; rdfs:label "A"@en ; ex:p 1, ex:b, "x" .'), f"{EX}a")
    assert thing == Thing(
        f"{EX}a",
        label=Text("A", "en"),
        also={RDF_TYPE: IRI(f"{EX}Unknown"), f"{EX}p": [1, IRI(f"{EX}b"), "x"]},
    )
    assert type(rdf.read(store_of("ex:a ex:p 1 ."), f"{EX}a")) is Thing


def test_a_node_of_two_classes_is_read_as_the_one_that_says_more_and_keeps_the_other():
    both = [TrainingEpochExecution, Person]
    types = [IRI(name) for cls in both for name in cls.TYPES]
    store = ox.Store()
    for name in types:
        store.add(ox.Quad(ox.NamedNode(f"{EX}a"), ox.NamedNode(RDF_TYPE), ox.NamedNode(name)))
    more = max(both, key=lambda cls: len(cls.TYPES))
    required = {"was_derived_from_data_transformation": NODE, "was_section_of": NODE, "section_index": 1}
    for name in more.REQUIRED:
        field = more.FIELDS[name]
        store.add(ox.Quad(ox.NamedNode(f"{EX}a"), ox.NamedNode(field.iri), rdf.term(required[name])))
    for prop, value in ((f"{PROV}actedOnBehalfOf", NODE), (f"{EX}p", "x")):
        store.add(ox.Quad(ox.NamedNode(f"{EX}a"), ox.NamedNode(prop), rdf.term(value)))
    thing = rdf.read(store, f"{EX}a")
    assert type(thing) is more
    assert set(thing.also[RDF_TYPE]) == set(Person.TYPES) - more.TYPE_SET
    assert thing.also[IRI(f"{PROV}actedOnBehalfOf")] == (NODE,)
    assert set(store) <= {ox.Quad(*triple) for triple in rdf.triples(thing)}


def test_a_node_can_be_read_as_a_class_of_ones_choice():
    model = Model(f"{EX}m", was_derived_from_attribute=NODE, sha256="0" * 64, value="x")
    entity = rdf.read(rdf.triples(model), model.iri, as_=Entity)
    assert type(entity) is Entity
    assert entity.value == "x"
    assert {quad.triple for quad in ox.parse(rdf.ntriples(entity), ox.RdfFormat.N_TRIPLES)} == set(rdf.triples(model))
    assert rdf.read(store_of('ex:a prov:value "x" .'), f"{EX}a", as_=Entity) == Entity(f"{EX}a", value="x")


def test_a_node_in_a_named_graph_is_read_too():
    entity = Entity(f"{EX}a", value=1)
    store = ox.Store()
    store.load(rdf.nquads(entity, graph=f"{EX}g"), ox.RdfFormat.N_QUADS)
    store.load(rdf.nquads(entity), ox.RdfFormat.N_QUADS)
    assert rdf.read(store, f"{EX}a") == entity
    assert rdf.read(iter(store), f"{EX}a") == entity


@pytest.mark.parametrize(
    ("said", "error", "field"),
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
        ("ex:p [ ex:q 1 ]", WrongType, "also"),
        ('a prov:Entity, "Entity"', WrongType, "also"),
        ("a prov:Entity, []", WrongType, "also"),
        ("rdfs:label 3", WrongType, "label"),
    ],
)
def test_a_graph_that_says_what_a_class_refuses_is_refused(said: str, error: type[WrongType], field: str):
    with pytest.raises(error) as caught:
        rdf.read(store_of(f"ex:a {said} ."), f"{EX}a")
    assert caught.value.field.startswith(field)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("graph", [3, None, "x", b"x", [1], Entity(f"{EX}a")], ids=repr)
def test_a_graph_to_read_from_is_one_of_pyoxigraph(graph: object):
    with pytest.raises(WrongType, match=r"^rdf\.read takes a Store, a Dataset, or triples of pyoxigraph, not "):
        rdf.read(graph, f"{EX}a")


@pytest.mark.parametrize(
    ("said", "field", "left", "also"),
    [
        ('a prov:Activity ; prov:startedAtTime "yesterday"', "started_at_time", None, ["yesterday"]),
        ("a prov:Activity ; prov:startedAtTime ex:then", "started_at_time", None, [IRI(f"{EX}then")]),
        ('a prov:Activity ; prov:used "text", ex:b', "used", (), ["text", IRI(f"{EX}b")]),
        ("a prov:Entity ; prov:value ex:b", "value", None, [IRI(f"{EX}b")]),
        ("a prov:Entity ; prov:value 1, 2", "value", None, [1, 2]),
    ],
)
def test_what_breaks_the_ontology_is_read_into_also_when_asked(said: str, field: str, left: object, also: list[object]):
    store = store_of(f'ex:a {said} ; rdfs:label "A" .')
    thing = rdf.read(store, f"{EX}a", strict=False)
    assert (getattr(thing, field), thing.label) == (left, ("A",))
    assert set(thing.also[IRI(type(thing).FIELDS[field].iri)]) == set(also)
    assert {ox.Quad(*triple) for triple in rdf.triples(thing)} == set(store)


def test_a_node_that_lacks_what_is_required_is_read_when_asked():
    store = store_of("ex:a a <https://w3id.org/provml#ModelEvaluation> ; prov:value 0.17 .")
    with pytest.raises(MissingField):
        rdf.read(store, f"{EX}a")
    thing = rdf.read(store, f"{EX}a", strict=False)
    assert (type(thing), thing.value, thing.was_derived_from_attribute) == (ModelEvaluation, Decimal("0.17"), ())
    assert set(store) <= {ox.Quad(*triple) for triple in rdf.triples(thing)}
    assert thing.replace(was_derived_from_attribute=NODE).was_derived_from_attribute == (NODE,)


def test_a_thing_read_with_what_does_not_fit_is_mended_by_replacing():
    store = store_of("ex:a a prov:Entity ; prov:value 1, 2 .")
    thing = rdf.read(store, f"{EX}a", strict=False)
    with pytest.raises(WrongValue, match="Give value=… instead"):
        thing.replace(label="A")
    assert thing.replace(value=1, also=None) == Entity(f"{EX}a", value=1)


def test_what_a_property_that_does_not_fit_would_have_implied_is_kept():
    store = ox.Store()
    evaluation = ModelEvaluation(f"{EX}v", was_derived_from_attribute=NODE)
    store.load(
        rdf.ntriples([evaluation, evaluation.replace(was_derived_from_attribute=IRI(f"{EX}b"))]), ox.RdfFormat.N_TRIPLES
    )
    thing = rdf.read(store, f"{EX}v", strict=False)  # two attributes where one is allowed
    assert thing.was_derived_from_attribute == ()
    assert set(thing.was_derived_from) == {NODE, IRI(f"{EX}b")}
    assert {ox.Quad(*triple) for triple in rdf.triples(thing)} == set(store)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(things())
def test_what_keeps_to_the_ontology_is_read_the_same_either_way(thing: Thing):
    said = list(rdf.triples(thing))
    assert rdf.read(said, thing.iri, strict=False) == rdf.read(said, thing.iri)


def test_a_blank_node_is_refused_either_way():
    with pytest.raises(WrongType, match="Give the node an IRI first"):
        rdf.read(store_of("ex:a a prov:Activity ; prov:used [ a prov:Entity ] ."), f"{EX}a", strict=False)


def test_facets_hold_for_what_is_read():
    model = Model(f"{EX}m", was_derived_from_attribute=NODE, sha256="0" * 64)
    broken = rdf.ntriples(model).replace(b"0" * 64, b"0" * 63)
    with pytest.raises(WrongValue):
        rdf.read((quad.triple for quad in ox.parse(broken, ox.RdfFormat.N_TRIPLES)), model.iri)


def test_a_literal_that_holds_an_iri_stays_a_literal():
    store = store_of('ex:a ex:p "http://example.org/b"^^xsd:anyURI, ex:b .')
    thing = rdf.read(store, f"{EX}a")
    assert set(thing.also[IRI(f"{EX}p")]) == {Literal(f"{EX}b", XSD.anyURI), IRI(f"{EX}b")}
    assert {ox.Quad(*triple) for triple in rdf.triples(thing)} == set(store)


@given(directed)
def test_text_with_a_direction_goes_through_a_store(text: Text):
    store = ox.Store()
    store.load(rdf.ntriples(Entity(f"{EX}a", value=text, label=text)), ox.RdfFormat.N_TRIPLES)
    back = rdf.read(store, f"{EX}a")
    assert (back.value, back.label) == (text, (text,))


def test_what_follows_from_a_narrower_property_is_not_read_as_said_unless_said_of_another():
    evaluation = ModelEvaluation(f"{EX}v", was_derived_from_attribute=NODE, was_derived_from=IRI(f"{EX}other"))
    back = rdf.read(rdf.triples(evaluation), evaluation.iri)
    assert back == evaluation
    assert back.was_derived_from == (IRI(f"{EX}other"),)


class Kin(Thing):
    """A class whose properties stand above each other in every way."""

    __slots__ = ()
    CLASS_IRI = f"{EX}ns#Kin"
    TYPES = (CLASS_IRI,)
    OWN_FIELDS = (
        Field("same_a", f"{EX}ns#sameA", "thing", supers=(f"{EX}ns#sameB",)),
        Field("same_b", f"{EX}ns#sameB", "thing", supers=(f"{EX}ns#sameA",)),
        Field("low", f"{EX}ns#low", "thing", supers=(f"{EX}ns#middle",)),
        Field("middle", f"{EX}ns#middle", "thing", supers=(f"{EX}ns#high",)),
        Field("high", f"{EX}ns#high", "thing"),
        Field("hidden", f"{EX}ns#hidden", "thing", supers=(f"{EX}ns#noField",)),
    )

    def __init__(self, iri: str, *, also: Any = None, **values: Any) -> None:
        self._keep(iri, values, also)


@given(st.dictionaries(st.sampled_from([field.name for field in Kin.OWN_FIELDS]), st.lists(iris.map(IRI), max_size=2)))
def test_nothing_is_lost_between_properties_that_follow_from_each_other(values: dict[str, list[IRI]]):
    thing = Kin(f"{EX}kin", **values)
    back = rdf.read(rdf.triples(thing), thing.iri)
    assert set(rdf.triples(back)) == set(rdf.triples(thing))
    assert back.same_b == ()
    assert back.also == {}


def test_the_class_of_types_is_the_most_telling_one():
    assert rdf.class_of([]) is Thing
    assert rdf.class_of([f"{EX}Unknown"]) is Thing
    assert rdf.class_of(Model.TYPES) is Model
    assert rdf.class_of([str(Agent.CLASS_IRI), f"{EX}Unknown"]) is Agent
