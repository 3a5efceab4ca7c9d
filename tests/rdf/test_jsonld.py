"""Triples as JSON-LD: parsing the text gives the same triples."""

from __future__ import annotations

import json

import pyoxigraph as ox
import pytest
from examples_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EX, things

from provml import rdf
from provml.errors import FileFormatError
from provml.model.thing import Thing
from provml.rdf.jsonld_writer import to_jsonld
from provml.vocab import Activity, Entity


@settings(max_examples=examples(100))
@given(st.lists(things(), max_size=3))
def test_json_ld_has_the_same_triples(nodes: list[Thing]):
    store, parsed = ox.Store(), ox.Store()
    store.load(rdf.ntriples(nodes), ox.RdfFormat.N_TRIPLES)
    parsed.load(to_jsonld(store), ox.RdfFormat.JSON_LD)
    assert set(parsed) == set(store)


def test_each_node_is_an_object_with_the_names_of_the_context():
    activity = Activity(f"{EX}a", used=[Entity(f"{EX}e")], label="train")
    document = json.loads(to_jsonld(rdf.triples(activity)))
    [node] = document["@graph"]
    assert node == {"id": f"{EX}a", "type": ["Activity"], "used": f"{EX}e", "label": "train"}


def test_a_triple_term_is_an_error():
    node = ox.NamedNode(f"{EX}a")
    with pytest.raises(FileFormatError, match="JSON-LD has no triple terms"):
        to_jsonld([ox.Triple(node, node, ox.Triple(node, node, node))])
