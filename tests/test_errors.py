"""The error tree: drawn as it is, catchable as a builtin, picklable, each with advice and an exit code."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest
from click.testing import CliRunner

from provml import errors
from provml.cli import main
from provml.errors import ProvmlError

ALL = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, ProvmlError)]
EXAMPLES = [
    errors.InvalidIRI("a b"),
    errors.InvalidValue("Model", "sha256", "x", "text", "Do this."),
    errors.WrongType("Model", "sha256", 3, "text", "Do this."),
    errors.WrongValue("Model", "sha256", "x", "text", "Do this."),
    errors.MissingField("Model", "was_derived_from_attribute", "an attribute"),
    errors.HomeNotFound("runs", "it is a file"),
    errors.ServiceError("http://host:8420", "this needs the write token", status=403),
    errors.ServiceUnreachable("http://host:8420", "no answer (connection refused)"),
    errors.NodeNotFound("http://example.org/x"),
    errors.GraphNotFound("http://example.org/g", ("http://example.org/h",)),
    errors.ProtectedGraph("the update would remove a recorded triple"),
    errors.RunNotFound("x", ("a", "b"), ambiguous=True),
    errors.ColumnNotFound("rat", "Columns: rate."),
    errors.FilterError("no column 'rat'", "Did you mean rate.", "rat > 1", 0, 3),
    errors.QueryError("line 3"),
    errors.ServiceNotAllowed(),
    errors.QueryTimeout(5.0),
    errors.PlotError("b1 is no curve", "Plot one of q3, h1."),
    errors.QueryNotFound("q99", ("q9",)),
    errors.TagNotFound("set", "otrain", "transformation 'Train'", ("iTrain",), "Correct the tag."),
    errors.ArtifactNotFound("x", "No artifact 'x' in this home", "Available: y.", ("y",)),
    errors.InvalidAnnotation("tag", "a,b", "contains a comma", "Pass several tags as separate arguments."),
    errors.InvalidParameter("q1", "epoch", "ten", "a whole number", "Give epoch as a whole number."),
    errors.ForkedStore(),
    errors.LakeNotFound("lake", "no such folder"),
    errors.LakeUnreachable("s3://lab/lake", "Connection refused"),
    errors.LakeChanged("lake"),
    errors.IndexDamaged("block checksum mismatch"),
    errors.OntologyError("is broken", "Correct it.", file="a.ttl", line=3),
    errors.StaleFiles(("a.py",), "provml compile"),
    errors.FileFormatError("is broken", "Correct it.", file="a.ttl", line=3),
    errors.ValidationFailed(("An epoch has an index.",)),
    errors.CannotRepeat("monday", "data/train.csv has another content now", "Restore it, or use --force."),
    errors.ReasonerFailed("it was ended after 900 s, its time limit"),
    errors.MissingDependency("pyshacl", "shacl"),
]


def test_every_error_has_an_example_here():
    assert {type(error) for error in EXAMPLES} | {ProvmlError} == set(ALL)


def test_the_tree_at_the_top_of_the_file_is_the_tree():
    drawn = re.findall(r"── (\w+)\s+(?:\((\w+)\))?", inspect.getdoc(errors) or "")
    assert {name for name, _ in drawn} == {cls.__name__ for cls in ALL if cls is not ProvmlError}
    for name, builtin in drawn:
        if builtin:
            assert issubclass(getattr(errors, name), eval(builtin))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_an_error_says_what_to_do_next_and_survives_a_pickle(error: ProvmlError):
    assert str(error).rstrip().endswith((".", "`."))
    assert error.exit_code in ((3,) if isinstance(error, errors.CannotRepeat) else (1, 2))
    assert 400 <= error.http_status < 600
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_counts_have_a_noun_in_the_right_number():
    texts = [errors.plural(count, "run") for count in (0, 1, 2, 12_000)]
    assert texts == ["0 runs", "1 run", "2 runs", "12,000 runs"]


def test_an_unknown_tag_is_reported_with_at_most_three_declared_tags_the_most_similar_first():
    declared = ("LoadData", "SplitData", "Adaptation", "TrainingModel", "TestingModel")
    error = errors.TagNotFound("transformation", "TrainModel", "The dataflow 'x'", declared, "Correct the tag.")
    listed = "Declared: TrainingModel, TestingModel, LoadData, …"
    assert str(error) == f"The dataflow 'x' declares no transformation 'TrainModel'. {listed} Correct the tag."
    assert error.declared == declared


def test_a_command_ends_with_the_message_and_code_of_the_error_and_no_traceback(tmp_path):
    done = CliRunner().invoke(main, ["compile", str(tmp_path / "none.ttl"), "-o", str(tmp_path / "out.py")])
    assert done.exit_code == 2
    assert done.output.startswith("provml: ")
    assert "Traceback" not in done.output
    assert not (tmp_path / "out.py").exists()
