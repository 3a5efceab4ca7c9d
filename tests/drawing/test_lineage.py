"""Pictures of lineages from records: folding, escaping, all formats, and repeatable output."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.drawing.lineage import Lineage
from provml.drawing.records import Generation, Information, Item, LineageRecords, RunRecord, Step, Use
from provml.errors import WrongValue

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</title><script>alert(1)</script> & 'x' \"y\" `z` # \x1b[31m ]]> 花 %d \\"


def records(
    steps: list[Step],
    items: list[Item],
    uses: list[tuple[str, ...]] = (),  # type: ignore[assignment]
    generations: list[tuple[str, str]] = (),  # type: ignore[assignment]
    runs: list[RunRecord] | None = None,
    **others: Any,
) -> LineageRecords:
    """Return the records of a lineage; all steps are of the run `r` unless runs are given."""
    values: dict[str, Any] = {"subject": "model net", "is_forward": False, "starts": frozenset()}
    return LineageRecords(
        items={item.id: item for item in items},
        steps={step.id: step for step in steps},
        runs={
            run.id: run for run in runs or [RunRecord("r", "monday", "flowers", "net", "FINISHED", "2026-11-18 10:00")]
        },
        uses=tuple(Use(*use) for use in uses),
        generations=tuple(Generation(*pair) for pair in generations),
        informations=others.pop("informations", ()),
        **{**values, **others},
    )


def training(**values: Any) -> LineageRecords:
    """Return the lineage of a model that one training made of one dataset."""
    step = Step("t", "r", "training", "training", sections=300, section_kind="epoch", batches=60_000, adaptations=2)
    step = replace(step, settings={"learning_rate": "0.01"})
    data = Item("d", "dataset", ("train.npz",), "ab" * 32, "4.5 kB")
    model = Item("m", "model", ("net",), "cd" * 32, "14 B")
    return records([step], [data, model], [("t", "d", "training")], [("m", "t")], starts=frozenset({"m"}), **values)


def texts(svg: str) -> list[str]:
    """Return the texts of a picture, without tooltips."""
    root = ElementTree.fromstring(svg)
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def shapes(svg: str, kind: str) -> int:
    """Count the nodes of a kind, without those of the legend."""
    root = ElementTree.fromstring(svg)
    groups = [element for element in root.iter(f"{SVG}g") if kind in element.get("class", "").split()]
    return sum(element.find(f"{SVG}text") is not None for element in groups)


def test_a_picture_has_the_shapes_and_colours_of_prov():
    svg = Lineage(training()).to_svg()
    root = ElementTree.fromstring(svg)
    assert root.get("viewBox")
    assert len(list(root.iter(f"{SVG}ellipse"))) == 3  # data, model, legend
    assert (shapes(svg, "entity"), shapes(svg, "activity"), shapes(svg, "agent")) == (2, 1, 0)
    for color in ("#fffc87", "#9fb1fc", "#fed37f", "prefers-color-scheme:dark"):
        assert color in svg
    assert "Lineage of model net" in texts(svg)
    assert "points to what a node came from" in texts(svg)


def test_a_stage_shows_its_epochs_batches_and_adaptations_as_numbers():
    shown = texts(Lineage(training()).to_svg())
    assert "300 epochs · 60,000 batches" in shown
    assert "2 adaptations" in shown
    assert "learning_rate=0.01" in shown
    assert f"sha256 {'ab' * 6} · 4.5 kB" in shown
    assert "dataset · training" in shown


def test_a_run_is_a_box_with_its_people():
    run = RunRecord("r", "monday", "flowers", "net", "FAILED", "2026-11-18 10:00", ("alice",))
    svg = Lineage(training(runs=[run])).to_svg()
    assert shapes(svg, "agent") == 1
    assert "run monday FAILED" in texts(svg)
    assert "flowers · net · 2026-11-18 10:00" in texts(svg)


def test_a_person_of_one_step_is_a_node():
    step = Step("t", "r", "training", "training", people=("bob",))
    lineage = Lineage(records([step], []))
    assert [node.title for node in lineage.graph.nodes if node.kind == "agent"] == ["bob"]
    assert ("wasAssociatedWith", "by") in [(edge.relation, edge.label) for edge in lineage.graph.edges]


def test_data_without_a_digest_says_so():
    lineage = Lineage(records([], [Item("d", "dataset", ("raw",))], starts=frozenset({"d"})))
    assert "no digest" in texts(lineage.to_svg())
    assert "How it was made is not recorded." in texts(lineage.to_svg())
    assert "How it was made is not recorded." in str(lineage)


def test_a_role_is_on_the_edge_only_if_data_has_several():
    steps = [Step("a", "r", "training", "training"), Step("b", "r", "evaluation", "evaluation")]
    data = [Item("d", "dataset", ("all",)), Item("e", "dataset", ("train",))]
    lineage = Lineage(records(steps, data, [("a", "d", "training"), ("b", "d", "test"), ("a", "e", "training")]))
    labels = {(edge.later, edge.earlier): edge.label for edge in lineage.graph.edges}
    assert labels == {("a", "d"): "used · training", ("b", "d"): "used · test", ("a", "e"): "used"}


def test_a_failed_step_shows_its_error():
    step = Step("t", "r", "training", "training", "FAILED", "MemoryError: no\nspace")
    assert "FAILED: MemoryError: no space" in texts(Lineage(records([step], [])).to_svg())


# ---- folding


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["checkpoint-180.pt", "checkpoint-20.pt", "checkpoint-300.pt"], "checkpoint-20.pt … 300.pt"),
        (["epoch 2", "epoch 10"], "epoch 2 … 10"),
        (["train", "trained", "trainer"], "train … trainer"),
        (["b.csv", "a.csv"], "a.csv … b.csv"),
        (["same", "same"], "same"),
    ],
)
def test_data_that_is_one_node_is_named_by_the_first_and_the_last(names: list[str], title: str):
    files = [Item(f"f{index}", "dataset", (name,), f"{index:064x}") for index, name in enumerate(names * 20)]
    lineage = Lineage(records([Step("s", "r", "split", "split")], files, [("s", item.id) for item in files]))
    assert [node.title for node in lineage.graph.nodes if node.kind == "entity"] == [title]


def test_alike_data_of_a_step_is_one_node():
    files = [Item(f"f{index}", "dataset", (f"image-{index}.png",), f"{index:064x}") for index in range(500)]
    lineage = Lineage(records([Step("s", "r", "split", "split")], files, [("s", item.id) for item in files]))
    assert [node.title for node in lineage.graph.nodes if node.kind == "entity"] == ["image-0.png … 499.png"]
    assert "500 datasets" in texts(lineage.to_svg())
    assert "500 digests" in texts(lineage.to_svg())


def test_the_subject_is_never_folded():
    models = [Item(f"m{index}", "model", ("net",), section=f"epoch {index}") for index in range(300)]
    step = Step("t", "r", "training", "training")
    lineage = Lineage(records([step], models, [], [(m.id, "t") for m in models], starts=frozenset({"m7"})))
    nodes = {node.id: node for node in lineage.graph.nodes if node.kind == "entity"}
    assert len(nodes) == 2
    assert nodes["m7"].lines[0] == "model · epoch 7"
    assert nodes["m7"].is_start
    assert next(node for name, node in nodes.items() if name != "m7").lines[0] == "299 models"


def test_a_step_that_ran_many_times_is_one_node():
    steps = [Step(f"s{index}", "r", "filter", "clean") for index in range(1000)]
    items = [Item(f"i{index}", "dataset", (f"{index}.csv",)) for index in range(1000)]
    lineage = Lineage(records(steps, items, [(f"s{index}", f"i{index}") for index in range(1000)]))
    assert [node.lines[0] for node in lineage.graph.nodes] == ["filter · 1,000 times", "1,000 datasets"]
    assert len(lineage.graph.edges) == 1


def test_a_chain_of_alike_steps_is_drawn_although_folding_makes_a_cycle():
    steps = [Step(f"s{index}", "r", "filter", "clean") for index in range(20)]
    items = [Item(f"i{index}", "dataset", ("x",)) for index in range(20)]
    uses = [(f"s{index}", f"i{index}") for index in range(20)]
    generations = [(f"i{index + 1}", f"s{index}") for index in range(19)]
    lineage = Lineage(records(steps, items, uses, generations))
    assert 'class="e r"' in lineage.to_svg()
    assert str(lineage)


def many_runs(count: int, **values: Any) -> LineageRecords:
    """Return the lineage of runs that each train a model of one shared dataset."""
    runs = [RunRecord(f"r{n}", f"run-{n}", "flowers", "net", "FINISHED", "2026-11-18 10:00") for n in range(count)]
    steps = [
        Step(f"t{n}", f"r{n}", "training", "training", sections=n + 1, section_kind="epoch", settings={"rate": str(n)})
        for n in range(count)
    ]
    items = [Item("d", "dataset", ("flowers",)), *(Item(f"m{n}", "model", ("net",), f"{n:064x}") for n in range(count))]
    uses, generations = [(f"t{n}", "d") for n in range(count)], [(f"m{n}", f"t{n}") for n in range(count)]
    return records(steps, items, uses, generations, runs, starts=frozenset({"d"}), is_forward=True, **values)


def test_many_runs_of_the_same_shape_are_one_box():
    lineage = Lineage(many_runs(20))
    graph = lineage.graph
    assert [group.title for group in graph.groups] == ["20 runs of flowers"]
    assert {node.id: node.lines for node in graph.nodes}["t0"] == ("1–20 epochs", "rate=0 to 19")
    assert [node.group for node in graph.nodes if node.id == "d"] == [""]  # the runs share it
    assert len(graph.nodes) == 3


def test_a_folded_node_or_box_can_be_opened():
    lineage = many_runs(20)
    (box,) = Lineage(lineage).graph.groups
    assert len(box.iris) == 20
    assert len(Lineage(lineage, [box.id]).graph.groups) == 20
    files = [Item(f"f{index}", "dataset", (f"{index}.png",)) for index in range(9)]
    split = records([Step("s", "r", "split", "split")], files, [("s", item.id) for item in files])
    folded = next(node for node in Lineage(split).graph.nodes if node.kind == "entity")
    assert len(Lineage(split, [folded.id]).graph.nodes) == 10


def test_runs_with_alike_data_have_the_same_shape_in_whatever_order_it_comes():
    lineage = many_runs(8)
    parts = [Item(f"p{n}-{(n + k) % 6}", "dataset", (f"part-{(n + k) % 6}",)) for n in range(8) for k in range(6)]
    uses = (*lineage.uses, *(Use(f"t{item.id[1]}", item.id, "training") for item in parts))
    graph = Lineage(replace(lineage, items={**lineage.items, **{i.id: i for i in parts}}, uses=uses)).graph
    assert [group.title for group in graph.groups] == ["8 runs of flowers"]


def test_a_few_runs_are_drawn_each():
    graph = Lineage(many_runs(3)).graph
    assert len(graph.groups) == 3
    assert len(graph.nodes) == 7


def test_a_run_of_another_shape_keeps_its_own_box():
    lineage = many_runs(10)
    steps = {**lineage.steps, "e": Step("e", "r3", "evaluation", "evaluation")}
    uses = (*lineage.uses, Use("e", "m3", "evaluated"))
    graph = Lineage(replace(lineage, steps=steps, uses=uses)).graph
    assert sorted(group.title for group in graph.groups) == ["9 runs of flowers", "run run-3"]


def test_runs_that_continue_from_folded_runs_are_folded_too():
    lineage = many_runs(8)
    runs = {**lineage.runs, **{f"f{n}": RunRecord(f"f{n}", f"tune-{n}", "tune") for n in range(8)}}
    steps = {**lineage.steps, **{f"u{n}": Step(f"u{n}", f"f{n}", "training", "training") for n in range(8)}}
    uses = (*lineage.uses, *(Use(f"u{n}", f"m{n}", "weights") for n in range(8)))
    graph = Lineage(replace(lineage, runs=runs, steps=steps, uses=uses)).graph
    assert [group.title for group in graph.groups] == ["8 runs of flowers", "8 runs of tune"]


def test_a_chain_of_runs_is_connected_through_boxes():
    runs = [RunRecord(f"r{n}", f"run-{n}", "tune", people=("bob",)) for n in range(3)]
    steps = [Step(f"t{n}", f"r{n}", "training", "training") for n in range(3)]
    items = [Item(f"m{n}", "model", (f"net-{n}",)) for n in range(3)]
    uses = [("t1", "m0", "weights"), ("t2", "m1", "weights")]
    lineage = Lineage(records(steps, items, uses, [(f"m{n}", f"t{n}") for n in range(3)], runs))
    svg = lineage.to_svg()
    assert len(re.findall('class="g"', svg)) == 3
    assert shapes(svg, "agent") == 3
    assert str(lineage).splitlines()[3:] == [
        "net-2 · model · no digest",
        "└─ generated by training · run run-2",
        "   └─ used net-1 · model · weights · no digest",
        "      └─ generated by training · run run-1",
        "         └─ used net-0 · model · weights · no digest",
        "            └─ generated by training · run run-0",
    ]


def test_runs_that_use_each_others_models_are_drawn_although_that_is_a_cycle():
    runs = [RunRecord(f"r{n}", f"run-{n}", "tune") for n in range(2)]
    steps = [Step(f"{kind}{n}", f"r{n}", "training", kind) for n in range(2) for kind in "ab"]
    items = [Item(f"m{n}", "model", (f"net-{n}",)) for n in range(2)]
    lineage = Lineage(records(steps, items, [("b0", "m1"), ("b1", "m0")], [("m0", "a0"), ("m1", "a1")], runs))
    assert 'class="e r"' in lineage.to_svg()


# ---- text formats


def test_dot_and_mermaid_have_the_same_nodes_and_edges():
    run = RunRecord("r", "monday", "flowers", people=("alice",))
    lineage = Lineage(training(runs=[run]))
    dot, mermaid = lineage.to_dot(), lineage.to_mermaid()
    assert dot.count("shape=") == 4
    assert "shape=house" in dot
    assert dot.count(" -> ") == 3  # used, generated by, and the person of the run
    assert mermaid.splitlines()[3] == "flowchart BT"
    assert (mermaid.count(":::entity"), mermaid.count(":::activity"), mermaid.count(":::agent")) == (2, 1, 1)
    assert mermaid.count(" -->|") == 2
    assert "<b>training</b><br>300 epochs · 60,000 batches" in mermaid


def test_a_forward_tree_begins_with_the_subject():
    lineage = replace(training(), is_forward=True, starts=frozenset({"d"}), subject="dataset train.npz")
    assert str(Lineage(lineage)).splitlines() == [
        "What came of dataset train.npz",
        "1 step in 1 run · 1 dataset · 1 model",
        "",
        "train.npz · dataset · training · sha256 abababababab · 4.5 kB",
        "└─ used by training · 300 epochs · 60,000 batches · 2 adaptations · learning_ra…",
        "   └─ generated net · model · sha256 cdcdcdcdcdcd · 14 B",
    ]


def test_a_node_that_occurs_twice_is_described_once():
    steps = [Step("a", "r", "training", "a"), Step("b", "r", "training", "b")]
    data = [Item("d", "dataset", ("raw",), "ab" * 32)]
    tree = str(Lineage(records(steps, data, [("a", "d"), ("b", "d")])))
    assert tree.count("sha256") == 1
    assert "used raw (see above)" in tree


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_tree_fits_the_terminal(width: int):
    long = training(subject="花" * 100)
    step = replace(long.steps["t"], name="a-very-long-name-" * 20, settings={"花" * 60: "x"})
    text = Lineage(replace(long, steps={"t": step})).to_text(width)
    from provml.answers.table import display_width

    assert all(display_width(line) <= width for line in text.splitlines())
    assert Lineage(long).to_text(width, ascii=True).isascii()


def test_informed_steps_are_connected():
    steps = [Step("t", "r", "training", "training"), Step("v", "r", "validation", "validation")]
    lineage = Lineage(records(steps, [], informations=(Information("v", "t"),)))
    assert [(edge.relation, edge.later) for edge in lineage.graph.edges] == [("wasInformedBy", "v")]


# ---- hostile text, determinism, files


def hostile() -> Lineage:
    run = RunRecord("r", HOSTILE, HOSTILE, HOSTILE, "FAILED", "", (HOSTILE,))
    step = Step("t", "r", HOSTILE, HOSTILE, "FAILED", HOSTILE, settings={HOSTILE: HOSTILE}, people=(HOSTILE, "bob"))
    item = Item(f"urn:x:{HOSTILE}", "dataset", (HOSTILE, "b"), "ab" * 32, path=HOSTILE)
    return Lineage(records([step], [item], [("t", item.id, HOSTILE)], [], [run], subject=HOSTILE))


def test_hostile_text_is_escaped_in_svg():
    svg = hostile().to_svg()
    root = ElementTree.fromstring(svg)
    assert not list(root.iter(f"{SVG}script"))
    assert "<script" not in svg
    assert "\x1b" not in svg
    assert "花" in svg


def test_hostile_text_is_escaped_in_dot_and_mermaid():
    dot, mermaid = hostile().to_dot(), hostile().to_mermaid()
    for line in dot.splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0, line
    body = mermaid.split("---\n", 2)[2]
    assert "<script" not in body
    for label in re.findall(r'"([^"]*)"', body):
        assert not re.search(r"</?(?!b>|br>)\w", label)
    assert "\x1b" not in dot + mermaid


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_gives_valid_xml(name: str, value: str):
    step = Step("t", "r", "training", name, settings={name: value})
    item = Item("d", "dataset", (name,), path=value)
    lineage = Lineage(records([step], [item], [("t", "d", value)], subject=name))
    ElementTree.fromstring(lineage.to_svg())
    assert lineage.to_text(80).splitlines()[0].startswith("Lineage of")


def test_the_same_records_give_the_same_text():
    for fmt in ("svg", "dot", "mermaid", "text"):
        assert Lineage(many_runs(9)).to_format(fmt) == Lineage(many_runs(9)).to_format(fmt)


def test_a_run_without_steps_has_a_picture():
    lineage = Lineage(records([], [], subject="run empty"))
    assert "The run recorded no steps." in texts(lineage.to_svg())
    assert repr(lineage) == "<Lineage 'Lineage of run empty' 0 nodes, 0 edges>"


def test_omitted_steps_and_runs_are_counted():
    svg = Lineage(training(omitted_steps=1234, omitted_runs=1)).to_svg()
    assert "Not shown: 1 more run and 1,234 more steps." in texts(svg)


@pytest.mark.parametrize(
    ("name", "start"), [("a.svg", "<svg"), ("a.dot", "digraph"), ("a.mmd", "---"), ("a.txt", "Lin")]
)
def test_a_lineage_is_saved_by_the_extension(tmp_path: Path, name: str, start: str):
    Lineage(training()).save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_an_unknown_format_is_an_error(tmp_path: Path):
    with pytest.raises(WrongValue, match=r"Lineage.save takes a file with the extension \.svg, \.dot, \.mmd or \.txt"):
        Lineage(training()).save(tmp_path / "a.png")
    with pytest.raises(WrongValue, match="svg, dot, mermaid or text"):
        Lineage(training()).to_format("png")


def test_a_notebook_shows_the_picture():
    assert Lineage(training())._repr_svg_().startswith("<svg")


def test_the_text_of_nodes_is_inside_their_shapes():
    """The widths are upper estimates, so every line of text fits into its rectangle."""
    root = ElementTree.fromstring(Lineage(training()).to_svg())
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        if "activity" in group.get("class", "") and rect is not None and group.find(f"{SVG}text") is not None:
            longest = max(len("".join(text.itertext())) for text in group.iter(f"{SVG}text"))
            assert float(rect.get("width", "0")) > longest * 5
