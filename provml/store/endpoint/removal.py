"""Remove a run from an endpoint, with the statements that no other run makes."""

from __future__ import annotations

from provml.mapping import NewLinks
from provml.store.endpoint.client import Endpoint, in_graph
from provml.store.endpoint.progress import ENDPOINT, REMOVING, Names, node_of
from provml.store.endpoint.remote_quads import RemoteQuads
from provml.store.endpoint.run_nodes import batches, nodes_of_run
from provml.store.links import BUILT_ON, EVALUATED_TRAINING, link_changes


def remove_run(endpoint: Endpoint, run: str) -> None:
    """Remove a run by its IRI. A removal that was interrupted is finished by the next one, or by the next sync.

    Nodes that are farther from the run are removed first, so that the rest can still be found from the run.
    """
    names = Names(endpoint.data_graph)
    node, progress = f"<{node_of(run)}>", names.progress
    old, new = in_graph(f"{node} ?p ?o", progress), in_graph(f'{node} <{ENDPOINT}mark> "{REMOVING}"', progress)
    endpoint.update(f"DELETE {{ {old} }} WHERE {{ {old} }} ;\nINSERT DATA {{ {new} }}")
    nodes = nodes_of_run(endpoint, run)
    linked = _remove_links_to(endpoint, nodes)
    for values in batches(reversed(nodes)):
        _delete(endpoint, names, run, f"VALUES ?s {{ {values} }} ?s ?p ?o")
    _delete_shared(endpoint, names, run)
    endpoint.drop(names.shared_of(run))
    if linked:
        _derive_again(endpoint, linked)
    endpoint.update(f"DELETE {{ {old} }} WHERE {{ {old} }}")


def _remove_links_to(endpoint: Endpoint, nodes: list[str]) -> set[str]:
    """Remove the links of other runs to some nodes; return the nodes that had them."""
    graph, subjects = endpoint.data_graph, set()
    for values in batches(nodes):
        for predicate in (BUILT_ON, EVALUATED_TRAINING):
            where = f"VALUES ?o {{ {values} }} ?s {predicate} ?o"
            subjects |= {row[0].value for row in endpoint.query(f"SELECT DISTINCT ?s WHERE {{ {where} }}")}
            pattern = in_graph(f"?s {predicate} ?o", graph)
            endpoint.update(f"DELETE {{ {pattern} }} WHERE {{ {in_graph(where, graph)} }}")
    return subjects - set(nodes)


def _delete(endpoint: Endpoint, names: Names, run: str, where: str) -> None:
    """Delete statements that no other run has made about nodes that it shares."""
    graph = endpoint.data_graph
    endpoint.update(
        f"DELETE {{ {in_graph('?s ?p ?o', graph)} }} WHERE {{ {in_graph(where, graph)} {_no_other(names, run)} }}"
    )


def _delete_shared(endpoint: Endpoint, names: Names, run: str) -> None:
    data, shared = in_graph("?s ?p ?o", endpoint.data_graph), in_graph("?s ?p ?o", names.shared_of(run))
    endpoint.update(f"DELETE {{ {data} }} WHERE {{ {shared} {_no_other(names, run)} }}")


def _no_other(names: Names, run: str) -> str:
    shared = names.shared_of(run)
    other = f'FILTER(STRSTARTS(STR(?g), "{names.shared_prefix}") && ?g != <{shared}>)'
    return f"FILTER NOT EXISTS {{ GRAPH ?g {{ ?s ?p ?o }} {other} }}"


def _derive_again(endpoint: Endpoint, stages: set[str]) -> None:
    """Derive the links of evaluations that referred to a removed training."""
    quads, links = RemoteQuads(endpoint), NewLinks(stages=stages)
    added, _ = quads.settle(lambda: link_changes(quads, links))
    endpoint.load("".join(f"{quad.triple} .\n" for quad in added).encode(), endpoint.data_graph)
