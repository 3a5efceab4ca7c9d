"""RDF files that are hostile: refused with one sentence, in bounded time; good files of every format are parsed."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pyoxigraph as ox
import pytest

from provml.errors import FileFormatError
from provml.rdf import parse_file
from provml.rdf.graph_files import read_quads
from provml.rdf.parse_file import MAX_STATEMENT_BYTES, ParsedFile

RDF_XML = '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="urn:a:">{}</r:RDF>'
TRIPLE = "<urn:a:s> <urn:a:p> {} .\n"


def nested(start: str, end: str, depth: int) -> str:
    return start * depth + '"x"' + end * depth


def entities(levels: int) -> str:
    """Return RDF/XML of 600 bytes with a literal of 10 ** (levels + 1) characters."""
    declared = [f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, levels + 1)]
    text = f'<?xml version="1.0"?><!DOCTYPE r:RDF [<!ENTITY e0 "xxxxxxxxxx">{"".join(declared)}]>'
    return text + RDF_XML.format(f"<a:N><a:p>&e{levels};</a:p></a:N>")


def chain_of_terms(length: int) -> str:
    """Return JSON-LD in which each term of the context is defined by the previous one."""
    terms = ",".join(f'"k{number}":"k{number - 1}:x"' for number in range(1, length))
    return f'{{"@context":{{"k0":"urn:a:k",{terms}}},"@id":"urn:a:a","k{length - 1}":1}}'


def triple_terms(depth: int) -> str:
    return TRIPLE.format(nested("<<( <urn:a:s> <urn:a:p> ", " )>>", depth))


def nested_elements(depth: int) -> str:
    return RDF_XML.format("<a:N><a:p>" * (depth // 2) + "</a:p></a:N>" * (depth // 2))


def nested_json(depth: int) -> str:
    return nested('{"urn:a:b":', "}", depth)


HOSTILE = [
    ("entities.rdf", entities(7), "longer than 16 MiB"),
    ("more-entities.rdf", entities(9), "MB of memory"),
    ("deep.jsonld", nested_json(4000), "nested in more than 500 levels"),
    ("chain.jsonld", chain_of_terms(20_000), "the parser crashed, which happens if"),
    ("deep.rdf", nested_elements(100_000), "nested in more than 500 levels"),
    ("deep.nt", triple_terms(20_000), "the parser crashed, which happens if"),
    ("deep.nq", triple_terms(20_000), "the parser crashed, which happens if"),
    ("deep.ttl", triple_terms(20_000), "the parser crashed, which happens if"),
    ("deep.trig", triple_terms(20_000), "the parser crashed, which happens if"),
    ("deeper.ttl", triple_terms(200), "triple terms are nested in more than 100 levels"),
    ("long.nt", TRIPLE.format(f'"{"x" * 30_000_000}"'), "longer than 16 MiB"),
    ("long.ttl", TRIPLE.format(f'"{"x" * 30_000_000}"'), "longer than 16 MiB"),
    ("long.jsonld", f'{{"@id":"urn:a:a","urn:a:b":"{"x" * 30_000_000}"}}', "longer than 16 MiB"),
    ("long.rdf", RDF_XML.format(f"<a:N><a:p>{'x' * 30_000_000}</a:p></a:N>"), "longer than 16 MiB"),
    (
        "external.rdf",
        f'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>{RDF_XML.format("<a:N><a:p>&x;</a:p></a:N>")}',
        "it has an external entity, and nothing is fetched",
    ),
    ("remote.jsonld", '{"@context":"http://localhost:9/x","@id":"urn:a:a","b":1}', "nothing is fetched"),
]


def parse(path: Path) -> list[ox.Quad]:
    rdf_format = ox.RdfFormat.from_extension(path.suffix[1:])
    assert rdf_format is not None
    return list(ParsedFile(path, rdf_format))


@pytest.mark.parametrize(("name", "text", "reason"), HOSTILE, ids=[name for name, _, _ in HOSTILE])
def test_a_hostile_file_is_refused_with_a_reason(tmp_path: Path, name: str, text: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    started = time.process_time()
    with pytest.raises(FileFormatError, match=reason) as caught:
        parse(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert "convert it to N-Triples" not in str(caught.value) or path.suffix not in (".nt", ".nq")
    assert time.process_time() - started < 5


def test_a_file_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.rdf"
    declarations = " ".join(f"xmlns:n{number}='urn:x:'" for number in range(50_000))
    path.write_text(RDF_XML.format(f"<a:N {declarations}/>"))
    limits = parse_file.limits_for(0)._replace(cpu_seconds=1)
    monkeypatch.setattr(parse_file, "limits_for", lambda size: limits)
    with pytest.raises(FileFormatError, match="parsing takes more than 1 seconds"):
        parse(path)


def test_a_file_with_too_much_output_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonld"
    nodes = ",".join(['{"a":1}'] * 9)
    path.write_text(f'{{"@context":{{"a":"urn:a:{"x" * 20_000}"}},"@graph":[{nodes}]}}')
    assert len(parse(path)) == 9
    limits = parse_file.limits_for(0)._replace(output_bytes=100_000)
    monkeypatch.setattr(parse_file, "limits_for", lambda size: limits)
    with pytest.raises(FileFormatError, match=r"its quads take more than 0\.0 GB as N-Quads"):
        parse(path)


GOOD = [
    ("a.ttl", '@prefix e: <urn:e:> . e:a e:b [ e:c "<<" ] , << e:a e:b e:c >> , <<( e:a e:b e:c )>> .'),
    ("a.nt", triple_terms(100)),
    ("a.nq", '<urn:a:s> <urn:a:p> "x"@en--ltr <urn:a:g> .\n'),
    ("a.trig", "<urn:a:g> { <urn:a:s> <urn:a:p> 1.50 } <urn:a:s> <urn:a:p> _:b ."),
    ("a.rdf", RDF_XML.format("<a:N><a:p>text</a:p></a:N>" * 2)),
    ("deep.rdf", nested_elements(120)),
    ("entities.rdf", entities(3)),
    ("a.jsonld", '{"@context":{"b":"urn:a:b"},"@id":"urn:a:a","b":[1,{"@list":[2.5,"x"]}]}'),
    ("deep.jsonld", nested_json(120)),
    ("chain.jsonld", chain_of_terms(1000)),
]


@pytest.mark.parametrize(("name", "text"), GOOD, ids=[name for name, _ in GOOD])
@pytest.mark.parametrize("small_bytes", [parse_file.SMALL_BYTES, -1])
def test_a_good_file_is_parsed_the_same_way_here_and_in_a_child(
    tmp_path: Path, name: str, text: str, small_bytes: int
) -> None:
    path = tmp_path / name
    path.write_text(text)
    rdf_format = ox.RdfFormat.from_extension(path.suffix[1:])
    assert rdf_format is not None
    parsed = ParsedFile(path, rdf_format, small_bytes=small_bytes)
    actual, expected = ox.Dataset(parsed), ox.Dataset(ox.parse(path=str(path), format=rdf_format))
    for dataset in (actual, expected):
        dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    assert actual == expected
    if name == "a.ttl":
        assert parsed.prefixes == {"e": "urn:e:"}
    assert ox.Dataset(ParsedFile(path, rdf_format, data=text.encode(), rename_blank_nodes=True)) is not None


def test_a_small_file_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: pytest.fail("a process was started"))
    for name, text in GOOD:
        if name.startswith("a."):
            (tmp_path / name).write_text(text)
            assert parse(tmp_path / name)
    large = tmp_path / "large.nt"
    large.write_text(TRIPLE.format('"x"') * 10_000)
    assert len(parse(large)) == 10_000


def test_the_line_of_a_syntax_error_is_that_of_the_file(tmp_path: Path) -> None:
    for name, text, line in (
        ("a.ttl", "<urn:a:s> <urn:a:p> 1 .\n<urn:a:s> nope .\n", 2),
        ("a.nt", triple_terms(90) * 2 + "nope\n", 3),
        ("a.rdf", "<r:RDF>" + "\n" * 20_000 + "<", None),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(FileFormatError) as caught:
            parse(tmp_path / name)
        assert caught.value.line == line
    with pytest.raises(FileFormatError, match="no such file"):
        parse(tmp_path / "missing.ttl")
    (tmp_path / "folder.ttl").mkdir()
    with pytest.raises(FileFormatError, match="is a directory"):
        parse(tmp_path / "folder.ttl")


def test_an_empty_file_has_no_quads(tmp_path: Path) -> None:
    for extension in ("ttl", "nt", "nq", "trig"):
        (tmp_path / f"a.{extension}").write_bytes(b"")
        assert parse(tmp_path / f"a.{extension}") == []


def test_a_statement_of_the_largest_size_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_text(TRIPLE.format(f'"{"x" * (MAX_STATEMENT_BYTES - 100)}"'))
    assert len(parse(path)) == 1


def test_a_prov_document_with_entities_is_refused_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "document.xml"
    document = '<prov:document xmlns:prov="http://www.w3.org/ns/prov#"><prov:entity prov:id="a"/></prov:document>'
    path.write_text(f'<!DOCTYPE p [<!ENTITY x SYSTEM "file:///etc/passwd">]>{document}')
    with pytest.raises(FileFormatError) as caught:
        list(read_quads(path))
    assert caught.value.reason == "it defines entities of XML"
