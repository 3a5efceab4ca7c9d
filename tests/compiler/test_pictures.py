"""The pictures of class trees and of the pattern of plans and executions."""

from __future__ import annotations

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
    """Return text, position, colour and whether the edge is dashed, of each box."""
    result = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert rect is not None
        assert text is not None
        dashed = "stroke-dasharray" in rect.attrib
        result.append((text.text or "", float(rect.attrib["x"]), float(rect.attrib["y"]), rect.attrib["fill"], dashed))
    return result


def picture(vocab) -> str:
    return (vocab.folder / "docs" / "my.svg").read_text("utf-8")


def tree(svg: str) -> list[str]:
    """Return the class tree as indented lines, without the legend."""
    shown = boxes(svg)
    first = min(y for _, _, y, *_ in shown)
    rows = [box for box in shown if box[2] > first] if sum(box[2] == first for box in shown) > 1 else shown
    margin = min(x for _, x, *_ in rows)
    return [f"{'  ' * round((x - margin) / 22)}{text}" for text, x, *_ in rows]


def legend(svg: str) -> list[str]:
    shown = boxes(svg)
    first = min(y for _, _, y, *_ in shown)
    row = [text for text, _, y, *_ in shown if y == first]
    return row if len(row) > 1 or row == ["of another ontology"] or row == ["deprecated"] else []


def test_superclasses_of_other_ontologies_are_roots(compile_turtle):
    svg = picture(compile_turtle(SIDES))
    assert tree(svg) == ["Free", "Old", "prov.Activity", "  Run", "prov.Entity", "  Plan", "    Sub"]
    assert "also prov.Collection" in svg


def test_class_is_drawn_below_the_superclass_with_most_subclasses(compile_turtle):
    svg = picture(
        compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf prov:Entity . ex:B a owl:Class ; rdfs:subClassOf prov:Entity .
        ex:C a owl:Class ; rdfs:subClassOf prov:Entity , prov:Agent . ex:D a owl:Class ; rdfs:subClassOf prov:Agent .
        """)
    )
    assert [line.strip() for line in tree(svg)][-6:] == ["prov.Agent", "D", "prov.Entity", "A", "B", "C"]
    assert "also prov.Agent" in svg


def test_legend_explains_what_occurs(compile_turtle):
    assert legend(picture(compile_turtle(SIDES))) == [
        "prospective",
        "retrospective",
        "other",
        "of another ontology",
        "deprecated",
    ]
    assert legend(picture(compile_turtle("ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A ."))) == []
    assert legend(picture(compile_turtle("ex:A a owl:Class , owl:DeprecatedClass ."))) == ["deprecated"]
    assert legend(picture(compile_turtle("ex:A a owl:Class ; rdfs:subClassOf prov:Agent ."))) == ["of another ontology"]


def test_boxes_have_the_colours_of_the_legend(compile_turtle):
    looks: dict[str, tuple[str, bool]] = {}
    for text, _, _, fill, dashed in boxes(picture(compile_turtle(SIDES))):
        looks[text] = (fill, dashed)
    assert looks["Plan"] == looks["Sub"] == looks["prospective"]
    assert looks["Run"] == looks["retrospective"]
    assert looks["Free"] == looks["other"]
    assert looks["prov.Entity"] == looks["of another ontology"]
    assert looks["Old"] == looks["deprecated"]
    assert len({looks[x] for x in ("Plan", "Run", "Free", "prov.Entity", "Old")}) == 5


@pytest.mark.parametrize("name", ["prov", "mls", "provlake", "provml", "dl"])
def test_bundled_pictures_show_every_class_once_inside_the_frame(name):
    files, _ = own_files()
    folder = Path(f"docs/reference/vocabulary/{name}")
    svg = files[folder / "classes.svg"]
    names = [line.strip() for line in tree(svg)]
    own = {text for text in names if "." not in text}
    assert own == {path.stem for path in files if path.parent == folder} - {"index", "properties", "classes"}
    assert len(set(names)) == len(names)
    root = ElementTree.fromstring(svg)
    for rect in root.iter(f"{SVG}rect"):
        if "x" in rect.attrib:
            assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= float(root.attrib["width"])
            assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= float(root.attrib["height"])


def test_values_of_provml_are_drawn_together():
    names = tree(own_files()[0][Path("docs/reference/vocabulary/provml/classes.svg")])
    at = names.index("provlake.AttributeValue")
    group = names[at + 1 : next(i for i in range(at + 1, len(names)) if not names[i].startswith(" "))]
    assert {"  LearningHyperparameterValue", "  ModelEvaluation", "  ModelSchemaValue"} <= set(group)


def test_pattern_shows_plans_and_executions_inside_the_frame():
    svg = own_files()[0][Path("docs/pictures/plan-execution.svg")]
    plans, executions = {}, {}
    for text, x, y, *_ in boxes(svg):
        (plans if x < 600 else executions)[y] = text
    assert plans.keys() == executions.keys()
    assert "Training" in plans.values()
    assert "TrainingExecution" in executions.values()
    for name in ("provlake:wasDerivedFromWorkflow", "provml:wasSectionOf", "prov:wasGeneratedBy"):
        assert f">{name}<" in svg
