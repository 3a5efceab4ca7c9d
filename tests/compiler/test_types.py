"""`mypy --strict` accepts the compiled modules and correct uses of them, and refuses wrong ones."""

from __future__ import annotations

import re

import pytest

from .helpers import run_mypy
from .test_classes import UNORDERED
from .test_shapes import ZOO

MORE = """
ex:Top a owl:Class . ex:Left a owl:Class ; rdfs:subClassOf ex:Top , [ owl:onProperty ex:to ;
    owl:allValuesFrom ex:Left ] .
ex:Right a owl:Class ; rdfs:subClassOf ex:Top , [ owl:onProperty ex:to ; owl:allValuesFrom ex:Right ] .
ex:Both a owl:Class ; rdfs:subClassOf ex:Left , ex:Right .
ex:to a owl:ObjectProperty ; rdfs:domain ex:Top ; rdfs:range ex:Top .
ex:about a owl:ObjectProperty ; rdfs:domain ex:Top ; rdfs:range ex:Animal , ex:Plant .
ex:when a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:dateTime .
ex:date a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:date .
ex:datetime a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:dateTime .
ex:float a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:double .
ex:str a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:string .
ex:int a owl:DatatypeProperty , owl:FunctionalProperty ; rdfs:domain ex:Top ; rdfs:range xsd:integer .
ex:cost a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range [ a rdfs:Datatype ; owl:onDatatype xsd:decimal ;
    owl:withRestrictions ( [ xsd:minInclusive 0 ] ) ] .
ex:took a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:duration .
ex:page a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:anyURI .
ex:year a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range xsd:gYear .
ex:tag a owl:DatatypeProperty ; rdfs:domain ex:Top ; rdfs:range rdf:langString .
ex:list a owl:Class . ex:person a owl:Class . ey:person a owl:ObjectProperty ; rdfs:domain ex:Top ;
    rdfs:range ex:person , ex:list .
ex:anything a owl:DatatypeProperty ; rdfs:domain ex:Top . ex:Odd a owl:Class ; rdfs:subClassOf ex:Top ,
    [ owl:onProperty ex:anything ; owl:allValuesFrom xsd:integer ] .
ex:Car a owl:Class . ex:Auto a owl:Class ; owl:equivalentClass ex:Car . ex:mine a owl:NamedIndividual , ex:Auto .
ex:needy a owl:NamedIndividual , ex:Cat .
ex:Study a owl:Class ; rdfs:subClassOf provml:TrainingExecution , [ owl:onProperty prov:used ;
    owl:allValuesFrom ex:Data ] .
ex:Data a owl:Class ; rdfs:subClassOf prov:Entity , prov:Plan .
ex:value a owl:DatatypeProperty ; rdfs:domain ex:Data ; rdfs:range xsd:double .
"""

RIGHT = """
from datetime import datetime
from decimal import Decimal
from provml.model.values import IRI
import {module} as zoo

tom = zoo.Cat("urn:tom", name="Tom", age=3, coat="striped")
dot = zoo.Cat("urn:dot", name=["Dot", "Dottie"], friend=[tom, IRI("urn:cat")])
age: int | None = tom.age
names: tuple[str, ...] = dot.name
friends: tuple[zoo.Cat | IRI, ...] = dot.friend
top = zoo.Both("urn:b", to=zoo.Both("urn:c"), when=datetime.now(), float_=[1.0, 2], str_="x", int_=3, cost=Decimal(1))
number: int | None = top.int_
car: zoo.Auto = zoo.Car("urn:car")
where: zoo.Auto = zoo.MINE
who: IRI = zoo.NEEDY
data = zoo.Data("urn:d", value="x", ex_value=1.0)
both: zoo.B = zoo.Z("urn:z", a="text", b=4)
"""

WRONG = {
    'zoo.Cat("urn:c")': 'Missing named argument "name"',
    'zoo.Cat("urn:c", name=7)': 'Argument "name" to "Cat" has incompatible type "int"',
    'zoo.Cat("urn:c", name="x", freind=tom)': 'Unexpected keyword argument "freind"',
    'zoo.Cat("urn:c", name="x", friend=zoo.Dog("urn:d", name="Rex"))': 'Argument "friend" to "Cat"',
    'zoo.Cat("urn:c", name="x", age="three")': 'Argument "age" to "Cat"',
    'zoo.Cat("urn:c", name="x", coat="plain")': 'Argument "coat" to "Cat"',
    'zoo.Cat("urn:c", "x")': "Too many positional arguments",
    "tom.nmae": '"Cat" has no attribute "nmae"',
    "tom.age + 1": "Unsupported operand types",
    'zoo.Odd("urn:o", anything="x")': 'Argument "anything" to "Odd"',
    "zoo.Zebra": 'has no attribute "Zebra"',
}


@pytest.mark.xdist_group("mypy")  # run one after another, because they share the cache of mypy
def test_mypy_accepts_correct_uses_and_refuses_wrong_ones(compile_turtle):
    vocab = compile_turtle(ZOO + MORE + UNORDERED)
    name = vocab.module.__name__
    module = vocab.folder / f"{name}.pyi"
    right, wrong = vocab.folder / "right.py", vocab.folder / "wrong.py"
    right.write_text(RIGHT.format(module=name), encoding="utf-8")
    wrong.write_text(
        f"import {name} as zoo\ntom = zoo.Cat('urn:tom', name='Tom')\n" + "\n".join(WRONG) + "\n", encoding="utf-8"
    )
    output = run_mypy(vocab.folder, module, right, wrong)
    assert [line for line in output.splitlines() if not line.startswith("wrong.py")] == []
    for number, (use, words) in enumerate(WRONG.items(), start=3):
        lines = [line for line in output.splitlines() if re.match(rf"wrong\.py:{number}: error", line)]
        assert any(words in line for line in lines), (use, lines)
