"""Emission: compare provml, rdflib, owlready2 and raw f-strings in writing the same epochs as N-Triples.

    python tests/bench/emit.py [--epochs 2000] [--repeat 5]

Every contender starts from the same Python values (index, times, seconds and loss of an epoch) and ends with the bytes
of the same N-Triples graph. The outputs of provml, rdflib and the f-strings are compared as sets of lines before the
measurement. `provml` creates things (with all checks) and serializes them; `provml, things ready` only serializes.
Rounds alternate between contenders. The figure is the CPU time of this process in the best round. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import gc
import io
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from provml.model.values import IRI
from provml.rdf import ntriples
from provml.vocab import EvaluationMeasure, ModelEvaluation, TrainingEpoch, TrainingEpochExecution

RUN = "https://w3id.org/provml/run/bench"
PLAN = IRI(f"{RUN}/plan/epoch")
TRAINING = IRI(f"{RUN}/training")
LOSS = IRI(f"{RUN}/attribute/loss")
START = datetime(2026, 1, 1, tzinfo=UTC)
Row = tuple[int, datetime, datetime, float, float]


def make_rows(count: int) -> list[Row]:
    """Return the values of some epochs."""
    return [
        (n, START + timedelta(seconds=60 * n), START + timedelta(seconds=60 * n + 42.5), 42.5 + n / 1000, 1 / (n + 1))
        for n in range(1, count + 1)
    ]


def things(rows: list[Row]) -> list[object]:
    """Create an epoch and its loss for each row."""
    result: list[object] = []
    for n, start, end, seconds, loss in rows:
        epoch = TrainingEpochExecution(
            IRI(f"{RUN}/epoch/{n}"),
            section_index=n,
            was_derived_from_data_transformation=PLAN,
            was_section_of=TRAINING,
            started_at_time=start,
            ended_at_time=end,
            elapsed_seconds=seconds,
            status="FINISHED",
        )
        result.append(epoch)
        result.append(
            ModelEvaluation(
                IRI(f"{RUN}/epoch/{n}/loss"), was_derived_from_attribute=LOSS, was_generated_by=epoch, value=loss
            )
        )
    return result


def by_provml(rows: list[Row]) -> bytes:
    return ntriples(things(rows))  # type: ignore[arg-type]


TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
PROV, PROVLAKE, PROVML = "http://www.w3.org/ns/prov#", "https://w3id.org/provlake#", "https://w3id.org/provml#"
XSD = "http://www.w3.org/2001/XMLSchema#"


def by_rdflib(rows: list[Row]) -> bytes:
    from rdflib import Graph, Literal, URIRef

    graph = Graph()
    for n, start, end, seconds, loss in rows:
        node = URIRef(f"{RUN}/epoch/{n}")
        for name in TrainingEpochExecution.TYPES:
            graph.add((node, URIRef(TYPE), URIRef(name)))
        graph.add((node, URIRef(PROVML + "sectionIndex"), Literal(n)))
        for name in (PROVLAKE + "wasDerivedFromDataTransformation", PROV + "wasInfluencedBy"):
            graph.add((node, URIRef(name), URIRef(PLAN)))
        for name in (PROVML + "wasSectionOf", PROV + "wasInformedBy"):
            graph.add((node, URIRef(name), URIRef(TRAINING)))
        graph.add((node, URIRef(PROV + "startedAtTime"), Literal(start)))
        graph.add((node, URIRef(PROV + "endedAtTime"), Literal(end)))
        graph.add((node, URIRef(PROVML + "elapsedSeconds"), Literal(seconds)))
        graph.add((node, URIRef(PROVLAKE + "status"), Literal("FINISHED")))
        value = URIRef(f"{RUN}/epoch/{n}/loss")
        for name in ModelEvaluation.TYPES:
            graph.add((value, URIRef(TYPE), URIRef(name)))
        for name in (PROVLAKE + "wasDerivedFromAttribute", PROV + "wasDerivedFrom"):
            graph.add((value, URIRef(name), URIRef(LOSS)))
        graph.add((value, URIRef(PROV + "wasGeneratedBy"), node))
        graph.add((value, URIRef(PROV + "value"), Literal(loss)))
    return graph.serialize(format="nt", encoding="utf-8")


def by_fstrings(rows: list[Row]) -> bytes:
    """Format text for these two classes only, without checks and escapes: the limit."""
    a = f" <{TYPE}> "
    out = []
    for n, start, end, seconds, loss in rows:
        e = f"<{RUN}/epoch/{n}>"
        v = f"<{RUN}/epoch/{n}/loss>"
        out.append(
            f"{e}{a}<{PROVML}TrainingEpochExecution> .\n{e}{a}<{PROVML}EpochExecution> .\n"
            f"{e}{a}<{PROVML}TrainingSectionExecution> .\n{e}{a}<{PROVML}LearningStageSectionExecution> .\n"
            f"{e}{a}<{PROVML}BaseLearningStageExecution> .\n{e}{a}<{PROVLAKE}DataTransformationExecution> .\n"
            f"{e}{a}<{PROV}Activity> .\n"
            f'{e} <{PROVML}sectionIndex> "{n}"^^<{XSD}integer> .\n'
            f"{e} <{PROVLAKE}wasDerivedFromDataTransformation> <{PLAN}> .\n{e} <{PROV}wasInfluencedBy> <{PLAN}> .\n"
            f"{e} <{PROVML}wasSectionOf> <{TRAINING}> .\n{e} <{PROV}wasInformedBy> <{TRAINING}> .\n"
            f'{e} <{PROV}startedAtTime> "{start.isoformat()}"^^<{XSD}dateTime> .\n'
            f'{e} <{PROV}endedAtTime> "{end.isoformat()}"^^<{XSD}dateTime> .\n'
            f'{e} <{PROVML}elapsedSeconds> "{seconds!r}"^^<{XSD}double> .\n'
            f'{e} <{PROVLAKE}status> "FINISHED" .\n'
            f"{v}{a}<{PROVML}ModelEvaluation> .\n{v}{a}<{PROVLAKE}AttributeValue> .\n"
            f"{v}{a}<http://www.w3.org/ns/mls#ModelEvaluation> .\n"
            f"{v}{a}<http://www.w3.org/ns/mls#InformationEntity> .\n{v}{a}<{PROV}Entity> .\n"
            f"{v} <{PROVLAKE}wasDerivedFromAttribute> <{LOSS}> .\n{v} <{PROV}wasDerivedFrom> <{LOSS}> .\n"
            f"{v} <{PROV}wasGeneratedBy> {e} .\n"
            f'{v} <{PROV}value> "{loss!r}"^^<{XSD}double> .\n'
        )
    return "".join(out).encode()


def by_owlready2() -> Callable[[list[Row]], bytes]:
    """Use individuals of the same ontology in owlready2. Without inference, it writes fewer triples than the others."""
    import owlready2
    import pyoxigraph as ox

    from provml import paths

    def run(rows: list[Row]) -> bytes:
        onto = world.get_ontology(f"{RUN}#")
        classes = {name: world[PROVML + name] for name in ("TrainingEpochExecution", "ModelEvaluation")}
        with onto:
            plan, training, measure = (onto.__getitem__(x) or owlready2.Thing(x, namespace=onto) for x in "ptl")
            for n, start, end, seconds, loss in rows:
                epoch = classes["TrainingEpochExecution"](f"epoch-{n}", namespace=onto)
                epoch.sectionIndex = n
                epoch.wasDerivedFromDataTransformation = plan
                epoch.wasSectionOf = training
                epoch.startedAtTime = start.replace(tzinfo=None)
                epoch.endedAtTime = end.replace(tzinfo=None)
                epoch.elapsedSeconds = seconds
                epoch.status = "FINISHED"
                value = classes["ModelEvaluation"](f"epoch-{n}-loss", namespace=onto)
                value.wasDerivedFromAttribute = [measure]
                value.wasGeneratedBy = [epoch]
                value.value = loss
        out = io.BytesIO()
        onto.save(out, format="ntriples")
        onto.destroy()
        return out.getvalue()

    world = owlready2.World()
    merged = b""
    for path in sorted(paths.ontologies().glob("*.ttl")):
        quads = ox.parse(path=str(path), rename_blank_nodes=True)
        triples = (q.triple for q in quads if q.predicate.value != "http://www.w3.org/2002/07/owl#imports")
        merged += ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES) or b""
    world.get_ontology("https://w3id.org/provml-all#").load(fileobj=io.BytesIO(merged))
    return run


def best(contenders: dict[str, Callable[[list[Row]], object]], rows: list[Row], repeat: int) -> dict[str, float]:
    """Return the best CPU time of each contender, in seconds; rounds alternate."""
    times = dict.fromkeys(contenders, float("inf"))
    for _ in range(repeat):
        for name, contender in contenders.items():
            gc.collect()
            began = time.process_time()
            contender(rows)
            times[name] = min(times[name], time.process_time() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rows = make_rows(options.epochs)
    output, limit = by_provml(rows), by_fstrings(rows)
    if not set(output.splitlines()) == set(limit.splitlines()) == set(by_rdflib(rows).splitlines()):
        raise SystemExit("the contenders do not write the same graph")
    ready = things(rows)
    contenders: dict[str, Callable[[list[Row]], object]] = {
        "provml": by_provml,
        "provml, things ready": lambda _: ntriples(ready),  # type: ignore[arg-type]
        "raw f-strings": by_fstrings,
        "rdflib": by_rdflib,
        "owlready2": by_owlready2(),
    }
    times = best(contenders, rows, options.repeat)
    triples = output.count(b"\n")
    print(f"{options.epochs} epochs with a loss each: {triples} triples; best of {options.repeat} rounds, CPU time")
    print(f"{'':24}{'µs/triple':>10}{'µs/thing':>10}{'of provml':>11}")
    for name, seconds in times.items():
        per = seconds / triples * 1e6
        print(f"{name:24}{per:10.2f}{seconds / (2 * options.epochs) * 1e6:10.2f}{seconds / times['provml']:10.2f}x")
    print(f"\nprovml is {times['rdflib'] / times['provml']:.1f} times as fast as rdflib (target: 20)")
    print(f"provml is {times['owlready2'] / times['provml']:.1f} times as fast as owlready2 (target: 5)")
    print(f"provml takes {times['provml'] / times['raw f-strings']:.2f} times as long as raw f-strings (target: 3)")


if __name__ == "__main__":
    _ = (EvaluationMeasure, TrainingEpoch)
    main()
