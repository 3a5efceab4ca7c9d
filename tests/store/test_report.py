"""Reports about runs: what they contain, what they say is not known, and hostile text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import provml
from provml.drawing.document import Facts, Findings, Picture, Section, Table
from provml.errors import RunNotFound, WrongValue
from provml.recording.run import Run
from provml.store import Store
from provml.store.run_report import RunReport, report_of_run

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>"


def write(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def record_complete(home: Path, folder: Path) -> None:
    """Record a run with everything that a report shows."""
    with provml.record(
        "flowers",
        model="net",
        home=home,
        run="complete",
        by="alice",
        study="Spring",
        task="classification",
        strict=True,
    ) as run:
        raw = run.dataset(write(folder / "raw.csv", "raw"), role="raw")
        with run.split(using=[raw], fraction=0.2) as split:
            train = split.produced(write(folder / "train.csv", "train"))
            test = split.produced(write(folder / "test.csv", "test"))
        with run.training(using=[train], learning_rate=0.1) as training:
            for epoch in training.epochs(3):
                epoch.measured(loss=1.0 / epoch.index)
                epoch.validation().measured(loss=2.0 / epoch.index)
                if epoch.index == 2:
                    training.adapted(learning_rate=0.05, technique="decay", by="bob")
            model = training.produced(write(folder / "net.pt", "weights"))
        with run.evaluation(of=model, using=[test]) as evaluation:
            evaluation.measured(accuracy=0.75)


def record_bare(home: Path) -> None:
    """Record a run about which nothing is known."""
    with provml.record("bare", home=home, run="bare", capture_environment=False, strict=True) as run:
        run.training().done()


def record_leaking(home: Path) -> None:
    """Record a run that trains and tests on the same data."""
    with provml.record("leaking", home=home, run="leaking", strict=True) as run:
        data = run.dataset(b"all", name="everything.csv", role="test")
        with run.training(using=[data]) as training:
            model = training.produced(b"weights", name="net")
        run.evaluation(of=model, using=[data]).done()


def record_hostile(home: Path) -> None:
    """Record a failed run with markup in every text."""
    about = dict.fromkeys(("model", "by", "study", "task"), HOSTILE)
    run = provml.record(HOSTILE, home=home, run="hostile", **about)
    training = run.training(using=[run.dataset(None, name=HOSTILE, role=HOSTILE)], **{HOSTILE: HOSTILE})
    for epoch in training.epochs(2):
        epoch.measured(**{HOSTILE: 1.0})
        training.adapted(**{HOSTILE: "x"}, technique=HOSTILE, reason=HOSTILE, by=HOSTILE)
    training.done(error=ValueError(HOSTILE))
    run.finish(error=ValueError(HOSTILE))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("report")
    record_complete(folder / "home", folder)
    record_bare(folder / "home")
    record_leaking(folder / "home")
    record_hostile(folder / "home")
    with provml.open_store(folder / "home") as store:
        yield store


@pytest.fixture(scope="module")
def complete(store: Store) -> RunReport:
    return store.report("complete")


def section(report: RunReport, title: str) -> Section:
    return next(section for section in report.document.sections if section.title == title)


def table(report: RunReport, title: str) -> Table:
    return next(block for block in section(report, title).blocks if isinstance(block, Table))


def findings(report: RunReport, title: str = "Summary") -> list[tuple[str, str]]:
    return [item for block in section(report, title).blocks if isinstance(block, Findings) for item in block.items]


def test_a_report_has_its_sections_in_order(complete: RunReport):
    assert [section.title for section in complete.document.sections] == [
        "Summary",
        "What is not known",
        "Data",
        "Settings",
        "Adaptations",
        "Curves",
        "Evaluation",
        "Models",
        "Lineage",
        "Code and environment",
        "People",
        "Stages",
        "Validation",
        "The record",
    ]


def test_the_summary_says_what_was_trained_and_how_good_it_is(complete: RunReport):
    assert findings(complete)[:4] == [
        ("good", "net was trained in 3 epochs on train.csv."),
        ("good", "Evaluation: accuracy 0.75."),
        ("good", "No evaluation data was used in training, as far as the record shows."),
        ("good", "Validation: the graph conforms to all shapes."),
    ]
    (facts,) = (block for block in section(complete, "Summary").blocks if isinstance(block, Facts))
    pairs = dict(facts.pairs)
    assert (pairs["study"], pairs["task"], pairs["people"]) == ("Spring", "classification", "alice, bob")
    assert complete.document.status == "FINISHED"


def test_data_is_listed_with_full_digests_roles_and_steps(complete: RunReport):
    rows = {
        row[0]: dict(zip(table(complete, "Data").columns, row, strict=True)) for row in table(complete, "Data").rows
    }
    assert rows.keys() == {"raw.csv", "train.csv", "test.csv"}
    assert rows["train.csv"]["made by"] == "split"
    assert rows["train.csv"]["used by"] == "training"
    assert (rows["raw.csv"]["role"], rows["test.csv"]["role"]) == ("raw", "test")
    assert all(re.fullmatch("[0-9a-f]{64}", row["sha256"]) for row in rows.values())


def test_settings_adaptations_measures_models_and_people_are_listed(complete: RunReport):
    assert ("training", "learning_rate", "0.1") in table(complete, "Settings").rows
    assert table(complete, "Adaptations").rows == (("training 2", "learning_rate", "0.1", "0.05", "decay", "bob"),)
    curves = table(complete, "Curves")
    assert curves.columns == ("measure", "in", "first", "last", "best", "at")
    assert curves.rows == (
        ("loss", "training", "1", "0.333333", "0.333333", "3"),
        ("loss", "validation", "2", "0.666667", "0.666667", "3"),
    )
    assert table(complete, "Evaluation").rows == (("evaluation", "accuracy", "0.75"),)
    assert table(complete, "Models").rows[0][:2] == ("net", "training")
    assert table(complete, "People").rows == (
        ("alice", "evaluation, split, training, validation, the run"),
        ("bob", "adaptations"),
    )


def test_pictures_are_inside_the_page(complete: RunReport):
    pictures = [b for s in complete.document.sections for b in s.blocks if isinstance(b, Picture)]
    assert [picture.language for picture in pictures] == ["text", "mermaid"]
    html = complete.to_html()
    assert html.count("<svg") == 2
    assert "<script" not in html
    assert not re.search(r"(src|href)=\"(?!#)", html)
    assert "300" not in html[:50]


def test_the_record_has_the_digests_of_the_journals(complete: RunReport, store: Store):
    import hashlib

    (journal,) = (store.home / "runs" / "complete").glob("*.jsonl")
    digest = hashlib.sha256(journal.read_bytes()).hexdigest()
    assert [row[2] for row in table(complete, "The record").rows] == [digest]


def test_what_is_not_known_is_said(store: Store, complete: RunReport):
    assert store.report("bare", validate=False).unknown == (
        "The settings of the training: no hyperparameters are recorded.",
        "The trained model: no model is recorded as produced.",
        "How good the model is on unseen data: no evaluation is recorded.",
        "The data: none is recorded.",
        "The machine and the software: no environment is recorded.",
        "The version of the code: no git commit is recorded.",
        "Random seeds: none is recorded, so the run may not be repeatable exactly.",
        "Who ran it: no person is recorded.",
    )
    assert not any("evaluation" in text or "data" in text for text in complete.unknown)


def test_the_seed_of_a_stage_is_a_known_seed(tmp_path: Path):
    with provml.record("flowers", home=tmp_path, model="net", strict=True) as run:
        with run.split("split", using=run.dataset(b"all", name="all.csv"), seed=42) as split:
            train = split.produced(b"train", name="train.csv")
        with run.training(using=train, learning_rate=0.1, dropout_random_state=7):
            pass
    with provml.open(tmp_path) as store:
        report = store.report("latest", validate=False)
    assert not any("seeds" in text for text in report.unknown)
    assert "seed 42" in report.to_markdown()


def test_name_tags_notes_parent_and_artifacts_are_in_the_report(tmp_path: Path):
    with (
        provml.record("sweep", home=tmp_path, model="net", by="alice", run="all", strict=True) as run,
        run.child("fold", run="part") as part,
    ):
        part.rename("first fold")
        part.tag("baseline", "good")
        part.note("the loss stalls | after <b>5</b> epochs")
        part.text("hello", name="hello.txt")
        with part.training() as training:
            for epoch in training.epochs(2):
                epoch.measured(loss=float("nan"))
    with provml.open(tmp_path) as store:
        report, parent = store.report("part", validate=False), store.report("all", validate=False)
    (facts,) = [block for block in report.document.sections[0].blocks if isinstance(block, Facts)]
    shown = dict(facts.pairs)
    assert (shown["name"], shown["experiment"], shown["part of"]) == ("first fold", "sweep", "run all")
    assert shown["tags"] == "baseline, good"
    assert [row[1:] for row in table(report, "Notes").rows] == [("alice", "the loss stalls | after <b>5</b> epochs")]
    assert [row[:2] for row in table(report, "Artifacts").rows] == [("hello.txt", "5 B")]
    assert "No value of loss is a number." in report.to_markdown()
    assert "<b>5</b>" not in report.to_html()
    assert not {"Notes", "Artifacts"} & {section.title for section in parent.document.sections}


def test_a_report_without_validation_says_so(store: Store):
    report = store.report("bare", validate=False)
    assert ("unknown", "The record was not validated.") in findings(report)
    assert ("unknown", "Whether evaluation data was used in training was not checked.") in findings(report)


def test_evaluation_data_in_training_is_found(store: Store):
    report = store.report("leaking")
    assert ("bad", "Evaluation data was used in training: everything.csv.") in findings(report)
    assert any(
        level == "warning" and "reserved for the evaluation" in text for level, text in findings(report, "Validation")
    )
    assert "The result of the evaluation: it has no measures." in report.unknown


def test_a_check_that_needs_test_data_is_not_called_good(store: Store):
    text = "Whether evaluation data was used in training cannot be checked: no test data is recorded."
    assert ("unknown", text) in findings(store.report("bare"))


def test_hostile_text_is_escaped(store: Store):
    report = store.report("hostile", validate=False)
    html = report.to_html()
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html
    outside = re.sub(r"```\w*\n.*?```", "", report.to_markdown(), flags=re.S)
    assert "<script" not in re.sub(r"`[^`]*`", "", outside)
    assert report.document.status_level == "bad"
    assert (
        "bad",
        f"{HOSTILE} was trained in 2 epochs on {HOSTILE}. The training did not finish (FAILED).",
    ) in findings(report)


def test_markdown_has_the_same_sections(complete: RunReport):
    text = complete.to_markdown()
    titles = [section.title for section in complete.document.sections]
    assert re.findall(r"^## (.*)$", text, re.M) == titles
    assert "```mermaid\n---\ntitle:" in text
    assert "flowchart BT" in text


def test_the_same_run_gives_the_same_report(store: Store):
    info, moment = store.run("complete"), datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
    first, second = (report_of_run(store, info, None, written=moment) for _ in range(2))
    assert first.to_html() == second.to_html()
    assert "Written 2026-11-18 12:00 UTC by provml" in first.to_html()


def test_a_report_is_saved_by_the_extension(store: Store, tmp_path: Path):
    report = store.report("bare", validate=False)
    report.save(tmp_path / "a.html")
    report.save(tmp_path / "a.md")
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "a.md").read_text().startswith("# bare: run bare")
    with pytest.raises(WrongValue, match=r"RunReport.save takes a file with the extension \.html or \.md"):
        report.save(tmp_path / "a.pdf")


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(store: Store):
    html = store.report("bare", validate=False)._repr_html_()
    assert html.startswith("<iframe sandbox srcdoc=")
    assert "<script" not in html
    assert repr(store.report("bare", validate=False)) == "<RunReport bare FINISHED, 8 gaps>"


def test_an_unknown_run_is_an_error(store: Store):
    with pytest.raises(RunNotFound, match="complet-e"):
        store.report("complet-e")


# ---- other states of a run


def test_a_running_run_is_reported_as_such(tmp_path: Path):
    with provml.record("live", home=tmp_path / "home", run="live", strict=True) as run, run.training() as training:
        for epoch in training.epochs(1):
            epoch.measured(loss=1.0)
        with provml.open_store(tmp_path / "home") as store:
            report = store.report("live", validate=False)
    assert report.unknown[0] == "The run has not ended yet: this report shows its state when it was written."
    assert ("unknown", "live was trained in 1 epoch. The training is still running.") in findings(report)
    assert report.document.status_level == "unknown"


def test_capture_errors_and_damaged_journals_are_gaps(tmp_path: Path):
    with provml.record("faulty", home=tmp_path / "home", run="faulty") as run, run.training() as training:
        training.used("no data")  # type: ignore[arg-type]  # an error of the script
        training.measured(loss=1.0)
    journal = next((tmp_path / "home" / "runs" / "faulty").glob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:-2], b'{"e":"done","at":\n', *lines[-2:]]))
    with provml.open_store(tmp_path / "home") as store:
        gaps = store.report("faulty", validate=False).unknown
    assert any(text.startswith("Whatever was not recorded because of errors. Capture failed") for text in gaps)
    assert "The content of 1 damaged line of the journal, see `provml verify`." in gaps


def test_uncommitted_changes_are_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from provml.recording import environment

    monkeypatch.setattr(environment, "code", lambda *_, **__: {"git_commit": "a" * 40, "git_dirty": True})
    with provml.record("x", home=tmp_path / "home", run="x", strict=True) as run:
        run.training().done()
    with provml.open_store(tmp_path / "home") as store:
        report = store.report("x", validate=False)
    assert "The exact code: it had changes that were not committed." in report.unknown
    assert "git aaaaaaaaaaaa, with changes that were not committed" in report.to_html()


def test_an_evaluation_in_another_run_counts(tmp_path: Path):
    path, home = write(tmp_path / "m.pt", "weights"), tmp_path / "home"
    with provml.record("train", model="net", home=home, run="t", strict=True) as run, run.training() as training:
        training.produced(path)
    with provml.record("check", model="net", home=home, run="e", strict=True) as run:
        check(run, path)
    with provml.open_store(home) as store:
        report = store.report("t", validate=False)
    assert ("good", "Evaluated in 1 other run: e.") in findings(report)
    assert not any("no evaluation is recorded" in text for text in report.unknown)
    assert "1 other run used what it generated: e." in report.to_html()


def check(run: Run, path: Path) -> None:
    """Evaluate a model of another run, as captures do."""
    with run.evaluation(of=run._register_data("model", path, name="net")) as evaluation:
        evaluation.measured(accuracy=0.5)


def test_many_checkpoints_are_cut_with_a_note(tmp_path: Path):
    with provml.record("x", home=tmp_path / "home", run="x", strict=True) as run, run.training() as training:
        for epoch in training.epochs(30):
            epoch.produced(f"checkpoint {epoch.index}".encode(), name="net")
    with provml.open_store(tmp_path / "home") as store:
        report = store.report("x", validate=False)
    assert len(table(report, "Models").rows) == 20
    assert "The last 20 of 30 models." in report.to_html()
