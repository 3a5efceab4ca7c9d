"""The picture of a class tree: foreign parents at the roots, and a legend of what occurs."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from provml.compiler import own_files

SVG = "{http://www.w3.org/2000/svg}"
SIDES = """
@prefix provlake: <https://w3id.org/provlake#> .
ex:Plan a owl:Class ; rdfs:subClassOf prov:Entity ; provlake:side "prospective" .
ex:Sub a owl:Class ; rdfs:subClassOf ex:Plan , prov:Collection ; provlake:side "prospective" .
ex:Run a owl:Class ; rdfs:subClassOf prov:Activity ; provlake:side "retrospective" .
ex:Free a owl:Class . ex:Old a owl:Class , owl:DeprecatedClass .
"""


def boxes(svg: str) -> list[tuple[str, float, float, str, bool]]:
    """Each box: its text, where it stands, its colour, and whether its edge is dashed."""
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert rect is not None
        assert text is not None
        dashed = "stroke-dasharray" in rect.attrib
        found.append((text.text or "", float(rect.attrib["x"]), float(rect.attrib["y"]), rect.attrib["fill"], dashed))
    return found


def picture(made) -> str:
    return (made.folder / "docs" / "my.svg").read_text("utf-8")


def tree(svg: str) -> list[str]:
    """The class tree as lines, by what is below and to the right of what; the legend is left out."""
    shown = boxes(svg)
    first = min(y for _, _, y, *_ in shown)
    rows = [box for box in shown if box[2] > first] if sum(box[2] == first for box in shown) > 1 else shown
    left = min(x for _, x, *_ in rows)
    return [f"{'  ' * round((x - left) / 22)}{text}" for text, x, *_ in rows]


def legend(svg: str) -> list[str]:
    shown = boxes(svg)
    first = min(y for _, _, y, *_ in shown)
    row = [text for text, _, y, *_ in shown if y == first]
    return row if len(row) > 1 or row == ["of another ontology"] or row == ["deprecated"] else []


def test_foreign_parents_stand_at_the_roots(make):
    svg = picture(make(SIDES))
    assert tree(svg) == ["Free", "Old", "prov.Activity", "  Run", "prov.Entity", "  Plan", "    Sub"]
    assert "also prov.Collection" in svg


def test_a_class_of_two_foreign_parents_stands_with_the_crowd(make):
    svg = picture(
        make("""
        ex:A a owl:Class ; rdfs:subClassOf prov:Entity . ex:B a owl:Class ; rdfs:subClassOf prov:Entity .
        ex:C a owl:Class ; rdfs:subClassOf prov:Entity , prov:Agent . ex:D a owl:Class ; rdfs:subClassOf prov:Agent .
        """)
    )
    assert [line.strip() for line in tree(svg)][-6:] == ["prov.Agent", "D", "prov.Entity", "A", "B", "C"]
    assert "also prov.Agent" in svg


def test_the_legend_has_what_occurs(make):
    assert legend(picture(make(SIDES))) == [
        "prospective",
        "retrospective",
        "other",
        "of another ontology",
        "deprecated",
    ]
    assert legend(picture(make("ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A ."))) == []
    assert legend(picture(make("ex:A a owl:Class , owl:DeprecatedClass ."))) == ["deprecated"]
    assert legend(picture(make("ex:A a owl:Class ; rdfs:subClassOf prov:Agent ."))) == ["of another ontology"]


def test_boxes_look_like_the_legend_says(make):
    looks: dict[str, tuple[str, bool]] = {}
    for text, _, _, fill, dashed in boxes(picture(make(SIDES))):
        looks[text] = (fill, dashed)
    assert looks["Plan"] == looks["Sub"] == looks["prospective"]
    assert looks["Run"] == looks["retrospective"]
    assert looks["Free"] == looks["other"]
    assert looks["prov.Entity"] == looks["of another ontology"]
    assert looks["Old"] == looks["deprecated"]
    assert len({looks[x] for x in ("Plan", "Run", "Free", "prov.Entity", "Old")}) == 5


@pytest.mark.parametrize("name", ["prov", "mls", "provlake", "provml", "dl"])
def test_our_pictures_show_every_class_once_and_nothing_leaves_the_frame(name):
    files, _ = own_files()
    svg = files[Path(f"docs/vocabulary/{name}.svg")]
    page = files[Path(f"docs/vocabulary/{name}.md")].split("## Properties")[0]
    names = [line.strip() for line in tree(svg)]
    own = [text for text in names if "." not in text]
    assert sorted(own) == sorted(re.findall(r"^### (\w+)$", page, re.M))
    assert len(set(names)) == len(names)
    root = ElementTree.fromstring(svg)
    for rect in root.iter(f"{SVG}rect"):
        if "x" in rect.attrib:
            assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= float(root.attrib["width"])
            assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= float(root.attrib["height"])


def test_the_values_and_the_attributes_of_provml_stand_together():
    names = tree(own_files()[0][Path("docs/vocabulary/provml.svg")])
    at = names.index("provlake.AttributeValue")
    group = names[at + 1 : next(i for i in range(at + 1, len(names)) if not names[i].startswith(" "))]
    assert {"  LearningHyperparameterValue", "  ModelEvaluation", "  ModelSchemaValue"} <= set(group)
