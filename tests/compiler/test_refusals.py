"""What cannot be compiled is refused with file, line and advice; the command ends with 2 and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from provml.cli import main
from provml.compiler import user_files, write
from provml.errors import OntologyError

from .workshop import PREFIXES

LINES = PREFIXES.count("\n")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compile", *map(str, arguments)])


def tree(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("turtle", "line", "words"),
    [
        ("ex:A a owl:Class\nex:B a owl:Class .", 2, "Mend the syntax"),
        ("\n\nno:A a owl:Class .", 3, "prefix no: has not been declared"),
        ("ex:A a owl:Class .\n<#B> a owl:Class .", 2, "relative IRI"),
        ("", None, "defines no class"),
        ("ex:p a owl:ObjectProperty .", None, "defines no class"),
        ("ex:p a owl:DatatypeProperty ; rdfs:domain prov:Entity .", None, "defines no class"),
        ("<urn:a> a owl:Ontology .\n<urn:b> a owl:Ontology .\nex:A a owl:Class .", 2, "declares 2 ontologies"),
        ("ex:A a owl:Class ;\n  rdfs:subClassOf ex:Gone .", 2, "zoo#Gone"),
        ("ex:A a owl:Class ;\n  owl:equivalentClass ex:Gone .", 2, "Gone> is used as a class"),
        ("ex:A a owl:Class ;\n  owl:disjointWith ex:Gone .", 2, "Gone> is used as a class"),
        ("ex:A a owl:Class .\nex:Undeclared rdfs:subClassOf ex:A .", 2, "Undeclared> is used as a class"),
        ("ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:range ex:Gone .", 2, "Gone> is used as a class"),
        ("ex:A a owl:Class .\nex:p a rdf:Property ; rdfs:range ex:Gone .", 2, "Gone> is used as a class"),
        ("ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:domain ex:Gone .", 2, "Gone> is used as a class"),
        ("ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:range\n [ owl:unionOf ( ex:A ex:Gone ) ] .", 3, "Gone>"),
        (
            "ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:subPropertyOf ex:gone .",
            2,
            "gone> is used as a property",
        ),
        ("ex:A a owl:Class .\nex:p rdfs:domain ex:A .", 2, "p> is used as a property"),
        (
            "ex:A a owl:Class ; rdfs:subClassOf\n [ owl:onProperty ex:gone ; owl:minCardinality 1 ] .",
            2,
            "gone> is used as a property",
        ),
        (
            "ex:p a rdf:Property . ex:A a owl:Class .\n[] owl:onProperty ex:p ; owl:allValuesFrom ex:Gone .",
            2,
            "Gone>",
        ),
        ("ex:A a owl:Class ; rdfs:subClassOf\n prov:Entty .", 2, "prov#Entty> is used as a class but defined nowhere"),
        (
            "ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:range xsd:string .",
            2,
            "its range is a datatype (string)",
        ),
        ("ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:range rdfs:Literal .", 2, "its range is a datatype"),
        ("ex:A a owl:Class .\nex:p a owl:DatatypeProperty ; rdfs:range ex:A .", 2, "its range is a class (A)"),
        ("<urn:my> a owl:Ontology ;\n  owl:imports <urn:gone> . ex:A a owl:Class .", 2, "--import FILE"),
        ("ex:A a owl:Class .\nex:B a owl:Class ;\n rdfs:subClasOf ex:A .", 3, "Did you mean rdfs:subClassOf?"),
        ("ex:A a owl:Class ;\n rdfs:lable 'a' .", 2, "rdfs:lable is no term of RDF Schema. Did you mean rdfs:label?"),
        ("ex:A a owl:Class .\nex:p a rdfs:Property .", 2, "Did you mean rdf:Property?"),
        ("ex:A a owl:class .", 1, "Did you mean owl:Class?"),
        ("ex:A a owl:Class ; owl:subClassOf\n prov:Entity .", 1, "Did you mean rdfs:subClassOf?"),
        (
            "ex:A a owl:Class .\nex:p a owl:DatatypeProperty ; rdfs:range\n xsd:intger .",
            3,
            "xsd:intger is no term of XML Schema. Did you mean xsd:integer?",
        ),
        ("ex:A a owl:Class ;\n rdfs:comment '5'^^xsd:strin .", 2, "Did you mean xsd:string?"),
        (
            "ex:D a rdfs:Datatype ; owl:equivalentClass\n [ owl:withRestrictions\n ( [ xsd:minIn 1 ] ) ] .",
            3,
            "xsd:minIn is no term of XML Schema",
        ),
        ("ex:A a owl:Class ;\n owl:frobnicate ex:A .", 2, "owl:frobnicate is no term of OWL 2. Check the spelling"),
        ("ex:p a owl:ObjectProperty .\nex:A a owl:Class ;\n rdfs:subClassOf ex:p .", 3, "is a property, not a class"),
        ("ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:domain\n ex:p .", 3, "rdfs:domain takes a class"),
        ("ex:A a owl:Class .\nex:p a rdf:Property ; rdfs:subPropertyOf ex:A .", 2, "A> is a class, not a property"),
        ("ex:A a owl:Class .\nex:A rdfs:range ex:A .", 1, "A> is a class, not a property"),
        (
            "ex:n a owl:AnnotationProperty . ex:A a owl:Class .\nex:B a owl:Class ; rdfs:subClassOf ex:n .",
            2,
            "n> is an annotation property, not a class",
        ),
        (
            "ex:D a rdfs:Datatype . ex:A a owl:Class .\nex:p a rdf:Property ; rdfs:subPropertyOf ex:D .",
            2,
            "D> is a datatype, not a property",
        ),
        (
            "ex:A a owl:Class . ex:i a owl:NamedIndividual , ex:A .\nex:B a owl:Class ; rdfs:subClassOf ex:i .",
            2,
            "i> is an individual, not a class",
        ),
        (
            "ex:Zebra a owl:Class .\nex:B a owl:Class ; rdfs:subClassOf ex:Zerba .",
            2,
            "Did you mean Zebra? Otherwise declare it",
        ),
    ],
)
def test_broken_ontologies_are_refused_at_their_line(tmp_path, turtle, line, words):
    path = tmp_path / "my.ttl"
    path.write_text(PREFIXES + turtle, encoding="utf-8")
    before = tree(tmp_path)
    result = run(path, "-o", tmp_path / "vocab.py", "--docs", tmp_path / "docs", "--shapes", tmp_path / "s.ttl")
    assert result.exit_code == 2, result.output
    place = f"{path}: " if line is None else f"{path}:{LINES + line}: "
    assert result.stderr.startswith(f"provml: {place}")
    assert words in result.stderr
    assert result.stderr.rstrip().endswith(".")
    assert tree(tmp_path) == before


def test_every_term_of_the_four_languages_is_known(make):
    terms = {
        "rdf": "type Property Statement List nil first rest langString XMLLiteral HTML JSON PlainLiteral _1 _12 value",
        "rdfs": "Class Datatype Literal Resource Container member seeAlso isDefinedBy subClassOf range",
        "owl": "Class Axiom hasKey propertyChainAxiom NegativePropertyAssertion real topDataProperty DataRange",
        "xsd": "string dateTimeStamp gYearMonth NMTOKENS unsignedShort dayTimeDuration fractionDigits anyURI",
    }
    used = " , ".join(f"{prefix}:{name}" for prefix, names in terms.items() for name in names.split())
    assert make(f"ex:A a owl:Class ; rdfs:seeAlso {used} , <http://www.w3.org/2002/07/owl#> .").A


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gone.ttl", None, "no such file"),
        ("latin.ttl", '<urn:a> a "é" .'.encode("latin-1"), "latin.ttl:1: Invalid UTF-8"),
        ("utf16.ttl", "<urn:a> a <urn:b> .".encode("utf-16"), "Invalid UTF-8"),
        ("my.txt", b"", "'.txt'"),
        ("my", b"", "''"),
        ("empty.ttl", b"", "defines no class"),
        ("empty.rdf", b"", "defines no class"),
        ("turtle.owl", b"@prefix a: <urn:a> .\na:b a a:c .", "read as RDF/XML"),
        ("bad.jsonld", b"{", "read as JSON-LD"),
        ("bad.nt", b"<urn:a> <urn:b> .", "bad.nt:1: "),
        ("logic.n3", b"{ ?x a <urn:d> } => { ?x a <urn:e> } .", "logic.n3: "),
    ],
)
def test_files_that_are_no_ontology_are_refused(tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    result = run(path, "-o", tmp_path / "vocab.py")
    assert result.exit_code == 2, result.output
    assert str(path) in result.stderr
    assert words in result.stderr
    assert not (tmp_path / "vocab.py").exists()


def test_a_folder_is_no_ontology(tmp_path):
    (tmp_path / "folder.ttl").mkdir()
    result = run(tmp_path / "folder.ttl", "-o", tmp_path / "vocab.py")
    assert result.exit_code == 2
    assert "is a directory" in result.stderr


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "my.ttl"
    path.write_text(PREFIXES + "ex:A a owl:Class .", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "name", ["my-vocab.py", "class.py", "3d.py", "vocab.txt", "vocab", "provml.py", "typing.py", ".py"]
)
def test_a_name_that_python_cannot_import_or_would_trip_over_is_refused(tmp_path, good, name):
    result = run(good, "-o", tmp_path / name)
    assert result.exit_code == 2
    assert name in result.stderr
    assert "my_vocab.py" in result.stderr
    assert list(tree(tmp_path)) == ["my.ttl"]


@pytest.mark.parametrize("option", ["-o", "--shapes", "--context"])
def test_a_folder_that_is_not_there_is_named(tmp_path, good, option):
    places = {"-o": tmp_path / "vocab.py", option: tmp_path / "gone" / "file.py"}
    result = run(good, *[part for pair in places.items() for part in pair])
    assert result.exit_code == 2
    assert "a folder that is not there" in result.stderr
    assert list(tree(tmp_path)) == ["my.ttl"]


def test_the_folder_of_the_pages_is_made(tmp_path, good):
    assert run(good, "-o", tmp_path / "vocab.py", "--docs", tmp_path / "docs").exit_code == 0
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {"my.md", "my.svg"}


def test_the_ontology_itself_is_never_overwritten(tmp_path, good):
    before = tree(tmp_path)
    result = run(good, "-o", tmp_path / "vocab.py", "--shapes", good)
    assert result.exit_code == 2
    assert "one of the ontologies to compile" in result.stderr
    assert tree(tmp_path) == before


def test_two_outputs_do_not_share_a_place(tmp_path, good):
    result = run(good, "-o", tmp_path / "vocab.py", "--shapes", tmp_path / "x.ttl", "--context", tmp_path / "x.ttl")
    assert result.exit_code == 2
    assert "written twice" in result.stderr


def test_pages_of_two_files_of_one_name_do_not_overwrite_each_other(tmp_path, good):
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "my.ttl"
    other.write_text(PREFIXES + "ey:B a owl:Class .", encoding="utf-8")
    result = run(good, other, "-o", tmp_path / "vocab.py", "--docs", tmp_path / "docs")
    assert result.exit_code == 2
    assert "written twice" in result.stderr


def test_what_cannot_be_written_is_an_error_and_leaves_nothing_behind(tmp_path, good):
    (tmp_path / "taken.py").mkdir()
    files, _ = user_files([good], tmp_path / "vocab.py", shapes=tmp_path / "taken.py")
    before = tree(tmp_path)
    with pytest.raises(OntologyError, match=r"taken\.py: cannot be written \(is a directory\)"):
        write(files)
    assert tree(tmp_path) == before


def test_pages_cannot_go_into_a_file(tmp_path, good):
    (tmp_path / "docs").write_text("x")
    before = tree(tmp_path)
    result = run(good, "-o", tmp_path / "vocab.py", "--docs", tmp_path / "docs")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert tree(tmp_path) == before


def test_a_full_disk_loses_nothing(tmp_path, good, monkeypatch):
    (tmp_path / "vocab.py").write_text("precious")
    files, _ = user_files([good], tmp_path / "vocab.py", shapes=tmp_path / "s.ttl")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OntologyError, match="no space left"):
        write(files)
    assert sorted(tree(tmp_path)) == ["my.ttl", "vocab.py"]
    assert (tmp_path / "vocab.py").read_text() == "precious"


def test_check_says_what_is_missing_or_stale_and_writes_nothing(tmp_path, good):
    module, shapes = tmp_path / "vocab.py", tmp_path / "s.ttl"
    result = run(good, "-o", module, "--shapes", shapes, "--check")
    assert result.exit_code == 1
    assert module.as_posix() in result.stderr
    assert shapes.as_posix() in result.stderr
    assert not module.exists()
    assert run(good, "-o", module, "--shapes", shapes).exit_code == 0
    assert run(good, "-o", module, "--shapes", shapes, "--check").exit_code == 0
    shapes.write_text("# old")
    result = run(good, "-o", module, "--shapes", shapes, "--check")
    assert result.exit_code == 1
    assert module.as_posix() not in result.stderr.split("Run `")[0]
    assert f"--shapes {shapes}" in result.stderr.split("Run `")[1]
    assert shapes.read_text() == "# old"


def test_line_ends_of_another_system_are_not_stale(tmp_path, good):
    module = tmp_path / "vocab.py"
    run(good, "-o", module)
    module.write_bytes(module.read_bytes().replace(b"\n", b"\r\n"))
    assert run(good, "-o", module, "--check").exit_code == 0


def test_notes_reach_the_user_unless_told_not_to(tmp_path):
    path = tmp_path / "my.ttl"
    path.write_text(PREFIXES + "ex:A a owl:Class ; rdfs:subClassOf [ owl:complementOf ex:A ] .", encoding="utf-8")
    loud = run(path, "-o", tmp_path / "vocab.py")
    assert (loud.exit_code, "note: my.ttl:" in loud.stderr) == (0, True)
    assert run(path, "-o", tmp_path / "vocab.py", "-q").output == ""


def test_imports_and_all_outputs_are_reached_from_the_command_line(tmp_path, good):
    mine = tmp_path / "mine.ttl"
    mine.write_text(PREFIXES + "ey:B a owl:Class ; rdfs:subClassOf ex:A .", encoding="utf-8")
    outputs = ["-o", tmp_path / "v.py", "--shapes", tmp_path / "s.ttl", "--context", tmp_path / "c.jsonld"]
    result = run(mine, "--import", good, *outputs, "--docs", tmp_path / "docs")
    assert result.exit_code == 0, result.output
    made = {"v.py", "s.ttl", "c.jsonld", "my.md", "my.svg", "mine.md", "mine.svg"}
    assert set(tree(tmp_path)) == made | {"my.ttl", "mine.ttl"}
    assert "class B(A):" in (tmp_path / "v.py").read_text()


def test_a_file_given_twice_is_used_once(tmp_path, good):
    (tmp_path / "linked.ttl").symlink_to(good)
    again = tmp_path / "sub" / ".." / "my.ttl"
    (tmp_path / "sub").mkdir()
    outputs = ["-o", tmp_path / "v.py", "--docs", tmp_path / "docs"]
    result = run(good, good, again, tmp_path / "linked.ttl", "--import", good, *outputs)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "v.py").read_text().count("class A(") == 1
    once = run(good, "-o", tmp_path / "w.py")
    assert once.exit_code == 0
    assert (tmp_path / "w.py").read_text().split("\n", 1)[1] == (tmp_path / "v.py").read_text().split("\n", 1)[1]
