"""An invalid ontology is refused with file, line and advice; the exit code is 2 and nothing is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from provml.cli import main
from provml.compiler import user_files, write
from provml.errors import OntologyError

from .helpers import PREFIXES

LINES = PREFIXES.count("\n")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compile", *map(str, arguments)])


def tree(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


INVALID = [
    ("ex:A a owl:Class\nex:B a owl:Class .", 2, "Fix the syntax"),
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
    ("ex:A a owl:Class ; rdfs:subClassOf\n prov:Entty .", 2, "prov#Entty> is used as a class but not defined"),
    (
        "ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:range xsd:string .",
        2,
        "its range is a datatype (string)",
    ),
    ("ex:A a owl:Class .\nex:p a owl:ObjectProperty ; rdfs:range rdfs:Literal .", 2, "its range is a datatype"),
    ("ex:A a owl:Class .\nex:p a owl:DatatypeProperty ; rdfs:range ex:A .", 2, "its range is a class (A)"),
    ("<urn:my> a owl:Ontology ;\n  owl:imports <urn:gone> . ex:A a owl:Class .", 2, "--import FILE"),
    ("ex:A a owl:Class .\nex:B a owl:Class ;\n rdfs:subClasOf ex:A .", 3, "Did you mean rdfs:subClassOf?"),
    (
        "ex:A a owl:Class ;\n rdfs:lable 'a' .",
        2,
        "rdfs:lable is not a term of RDF Schema. Did you mean rdfs:label?",
    ),
    ("ex:A a owl:Class .\nex:p a rdfs:Property .", 2, "Did you mean rdf:Property?"),
    ("ex:A a owl:class .", 1, "Did you mean owl:Class?"),
    ("ex:A a owl:Class ; owl:subClassOf\n prov:Entity .", 1, "Did you mean rdfs:subClassOf?"),
    (
        "ex:A a owl:Class .\nex:p a owl:DatatypeProperty ; rdfs:range\n xsd:intger .",
        3,
        "xsd:intger is not a term of XML Schema. Did you mean xsd:integer?",
    ),
    ("ex:A a owl:Class ;\n rdfs:comment '5'^^xsd:strin .", 2, "Did you mean xsd:string?"),
    (
        "ex:D a rdfs:Datatype ; owl:equivalentClass\n [ owl:withRestrictions\n ( [ xsd:minIn 1 ] ) ] .",
        3,
        "xsd:minIn is not a term of XML Schema",
    ),
    ("ex:A a owl:Class ;\n owl:frobnicate ex:A .", 2, "owl:frobnicate is not a term of OWL 2. Check the spelling"),
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
]
"""Turtle, the line of the problem (after the prefixes), and a part of the message."""


@pytest.mark.parametrize(("turtle", "line", "words"), INVALID)
def test_invalid_ontology_is_refused_with_its_line(tmp_path, turtle, line, words):
    path = tmp_path / "my.ttl"
    path.write_text(PREFIXES + turtle, encoding="utf-8")
    before = tree(tmp_path)
    outputs = ("-o", tmp_path / "vocab.py", "--docs", tmp_path / "docs", "--shapes", tmp_path / "s.ttl")
    result = run(path, *outputs, "--strict")
    assert result.exit_code == 2, result.output
    place = f"{path}: " if line is None else f"{path}:{LINES + line}: "
    assert result.stderr.startswith(f"provml: {place}")
    assert words in result.stderr
    assert result.stderr.rstrip().endswith((".", "?"))
    assert tree(tmp_path) == before


REFUSED = ("Fix the syntax", "prefix no: has not been declared", "defines no class")


@pytest.mark.parametrize(("turtle", "line", "words"), [case for case in INVALID if case[2] not in REFUSED])
def test_without_strict_a_problem_is_a_note_that_says_what_is_assumed(compile_turtle, turtle, line, words):
    compiled = compile_turtle(f"{turtle}\nex:Used a owl:Class .")
    assert compiled.Used("urn:used")
    assert compiled.has_note(f"my.ttl:{LINES + line}: ", "; assumed: ")


def test_all_problems_are_reported_at_once(tmp_path):
    path = tmp_path / "my.ttl"
    turtle = "ex:A a owl:Class ;\n rdfs:subClassOf ex:Gone ;\n rdfs:lable 'a' .\nex:p rdfs:domain ex:A ."
    path.write_text(PREFIXES + turtle, encoding="utf-8")
    result = run(path, "-o", tmp_path / "vocab.py", "--strict")
    assert result.exit_code == 2
    lines = [line.removeprefix("provml: ").removeprefix(str(path)) for line in result.stderr.splitlines()]
    assert [line.split(":")[1] for line in lines] == [str(LINES + number) for number in (2, 3, 4)]
    assert not (tmp_path / "vocab.py").exists()


def test_every_term_of_rdf_rdfs_owl_and_xsd_is_accepted(compile_turtle):
    terms = {
        "rdf": "type Property Statement List nil first rest langString XMLLiteral HTML JSON PlainLiteral _1 _12 value",
        "rdfs": "Class Datatype Literal Resource Container member seeAlso isDefinedBy subClassOf range",
        "owl": "Class Axiom hasKey propertyChainAxiom NegativePropertyAssertion real topDataProperty DataRange",
        "xsd": "string dateTimeStamp gYearMonth NMTOKENS unsignedShort dayTimeDuration fractionDigits anyURI",
    }
    used = " , ".join(f"{prefix}:{name}" for prefix, names in terms.items() for name in names.split())
    assert compile_turtle(f"ex:A a owl:Class ; rdfs:seeAlso {used} , <http://www.w3.org/2002/07/owl#> .").A


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
        ("text.owl", b"Dear reader", "selects the format RDF/XML"),
        ("turtle.owl", b"@prefix a: <urn:a> .\na:b a a:c .", "defines no class"),
        ("bad.ofn", b"Ontology(", "bad.ofn: cannot be read"),
        ("bad.omn", b"Class: A SubClassOf:", "bad.omn: cannot be read"),
        ("bad.owx", b"<Ontology", "bad.owx: "),
        ("bad.jsonld", b"{", "selects the format JSON-LD"),
        ("bad.nt", b"<urn:a> <urn:b> .", "bad.nt:1: "),
        ("logic.n3", b"{ ?x a <urn:d> } => { ?x a <urn:e> } .", "logic.n3: "),
    ],
)
def test_unreadable_file_is_refused(tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    result = run(path, "-o", tmp_path / "vocab.py")
    assert result.exit_code == 2, result.output
    assert str(path) in result.stderr
    assert words in result.stderr
    assert not (tmp_path / "vocab.py").exists()


def test_a_lower_limit_of_the_system_stays(tmp_path):
    path, target = tmp_path / "small.ofn", tmp_path / "vocab.py"
    path.write_text("Prefix(:=<urn:a#>)\nOntology(<urn:a>\nDeclaration(Class(:Flower))\n)")
    work = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
        "from provml.cli import main; main()"
    )
    arguments = [sys.executable, "-c", work, "compile", str(path), "-o", str(target)]
    process = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (process.returncode, "Flower" in target.read_text()) == (0, True), process.stderr


def test_directory_is_refused(tmp_path):
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
def test_module_name_that_python_cannot_import_is_refused(tmp_path, good, name):
    result = run(good, "-o", tmp_path / name)
    assert result.exit_code == 2
    assert name in result.stderr
    assert "my_vocab.py" in result.stderr
    assert list(tree(tmp_path)) == ["my.ttl"]


@pytest.mark.parametrize("option", ["-o", "--shapes", "--context"])
def test_missing_output_directory_is_named(tmp_path, good, option):
    places = {"-o": tmp_path / "vocab.py", option: tmp_path / "gone" / "file.py"}
    result = run(good, *[part for pair in places.items() for part in pair])
    assert result.exit_code == 2
    assert "a folder that does not exist" in result.stderr
    assert list(tree(tmp_path)) == ["my.ttl"]


def test_directory_of_the_pages_is_created(tmp_path, good):
    assert run(good, "-o", tmp_path / "vocab.py", "--docs", tmp_path / "docs").exit_code == 0
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {"my.md", "my.svg"}


def test_ontology_is_never_overwritten(tmp_path, good):
    before = tree(tmp_path)
    result = run(good, "-o", tmp_path / "vocab.py", "--shapes", good)
    assert result.exit_code == 2
    assert "one of the ontologies to compile" in result.stderr
    assert tree(tmp_path) == before


def test_two_outputs_cannot_have_one_path(tmp_path, good):
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


def test_failed_write_leaves_no_files(tmp_path, good):
    (tmp_path / "taken.py").mkdir()
    files, _ = user_files([good], tmp_path / "vocab.py", shapes=tmp_path / "taken.py")
    before = tree(tmp_path)
    with pytest.raises(OntologyError, match=r"taken\.py: cannot be written \(is a directory\)"):
        write(files)
    assert tree(tmp_path) == before


def test_pages_cannot_be_written_into_a_file(tmp_path, good):
    (tmp_path / "docs").write_text("x")
    before = tree(tmp_path)
    result = run(good, "-o", tmp_path / "vocab.py", "--docs", tmp_path / "docs")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert tree(tmp_path) == before


def test_full_disk_loses_no_files(tmp_path, good, monkeypatch):
    (tmp_path / "vocab.py").write_text("precious")
    files, _ = user_files([good], tmp_path / "vocab.py", shapes=tmp_path / "s.ttl")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OntologyError, match="no space left"):
        write(files)
    assert sorted(tree(tmp_path)) == ["my.ttl", "vocab.py"]
    assert (tmp_path / "vocab.py").read_text() == "precious"


def test_check_lists_missing_and_stale_files_and_writes_nothing(tmp_path, good):
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


def test_other_line_endings_are_not_stale(tmp_path, good):
    module = tmp_path / "vocab.py"
    run(good, "-o", module)
    module.write_bytes(module.read_bytes().replace(b"\n", b"\r\n"))
    assert run(good, "-o", module, "--check").exit_code == 0


def test_notes_are_printed_unless_quiet(tmp_path):
    path = tmp_path / "my.ttl"
    path.write_text(PREFIXES + "ex:A a owl:Class ; rdfs:subClassOf [ owl:complementOf ex:A ] .", encoding="utf-8")
    loud = run(path, "-o", tmp_path / "vocab.py")
    assert (loud.exit_code, "note: my.ttl:" in loud.stderr) == (0, True)
    assert run(path, "-o", tmp_path / "vocab.py", "-q").output == ""


def test_command_line_has_imports_and_all_outputs(tmp_path, good):
    mine = tmp_path / "mine.ttl"
    mine.write_text(PREFIXES + "ey:B a owl:Class ; rdfs:subClassOf ex:A .", encoding="utf-8")
    outputs = ["-o", tmp_path / "v.py", "--shapes", tmp_path / "s.ttl", "--context", tmp_path / "c.jsonld"]
    result = run(mine, "--import", good, *outputs, "--docs", tmp_path / "docs")
    assert result.exit_code == 0, result.output
    vocab = {"v.py", "v.pyi", "s.ttl", "c.jsonld", "my.md", "my.svg", "mine.md", "mine.svg"}
    assert set(tree(tmp_path)) == vocab | {"my.ttl", "mine.ttl"}
    assert "class B(A):" in (tmp_path / "v.pyi").read_text()


def test_repeated_file_is_compiled_once(tmp_path, good):
    (tmp_path / "linked.ttl").symlink_to(good)
    again = tmp_path / "sub" / ".." / "my.ttl"
    (tmp_path / "sub").mkdir()
    outputs = ["-o", tmp_path / "v.py", "--docs", tmp_path / "docs"]
    result = run(good, good, again, tmp_path / "linked.ttl", "--import", good, *outputs)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "v.pyi").read_text().count("class A(") == 1
    once = run(good, "-o", tmp_path / "w.py")
    assert once.exit_code == 0
    assert (tmp_path / "w.py").read_text().split("\n", 1)[1] == (tmp_path / "v.py").read_text().split("\n", 1)[1]


def test_a_hostile_ontology_is_refused(tmp_path: Path):
    path = tmp_path / "a.jsonld"
    path.write_text('{"urn:a:b":' * 4000 + "1" + "}" * 4000)
    result = run(path, "-o", tmp_path / "zoo.py")
    assert result.exit_code == 2
    assert f"{path}: it is nested in more than 500 levels." in result.output
    assert not list(tmp_path.glob("zoo*"))


def test_an_ontology_in_rdf_xml_with_entities_is_compiled(tmp_path: Path):
    path = tmp_path / "a.owl"
    path.write_text(
        """<!DOCTYPE rdf:RDF [<!ENTITY owl "http://www.w3.org/2002/07/owl#"><!ENTITY ex "http://example.org/zoo#">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="&owl;">
  <owl:Class rdf:about="&ex;Lion"/>
</rdf:RDF>"""
    )
    result = run(path, "-o", tmp_path / "zoo.py")
    assert result.exit_code == 0, result.output
    assert "class Lion" in (tmp_path / "zoo.pyi").read_text()
