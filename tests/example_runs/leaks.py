"""Runs with evaluation data in their trainings, and runs that only look like it."""

from __future__ import annotations

from pathlib import Path

from example_runs.journal import JournalBuilder

JUNE = 1_780_272_000.0


def write(home: Path) -> None:
    """Write the journals: `clean` and `folds` have no leak, the others have one each."""
    for journal in (_clean(), *_folds(), _same(), _augmented(), _whole(), *_pretrained()):
        journal.write(home)


def _learn(journal: JournalBuilder, learned: list[str], tested: str, *, start: str = "") -> str:
    training = journal.begin("training", using=learned, learning_rate=0.1)
    if start:
        journal.used(training, start, "model")
    journal.epoch(training, 1, 1.0, loss=0.5)
    model = journal.produced(training, journal.data(f"net of {journal.run}", kind="model"))
    journal.end(training)
    test = journal.begin("evaluation", using=[tested])
    journal.used(test, model, "model")
    journal.measured(test, accuracy=0.9)
    journal.end(test, 1.0)
    journal.finish()
    return model


def _split(journal: JournalBuilder, source: str, *parts: str) -> list[str]:
    split = journal.begin("split", "split", using=[source])
    outputs = [journal.produced(split, journal.data(part)) for part in parts]
    journal.end(split, 1.0)
    return outputs


def _clean() -> JournalBuilder:
    journal = JournalBuilder("clean", "leaks", JUNE, model="net")
    train, test = _split(journal, journal.data("all.csv"), "train.csv", "test.csv")
    _learn(journal, [train], test)
    return journal


def _folds() -> list[JournalBuilder]:
    """Each fold is the test data of one training and training data of the other, which is no leak."""
    journals = []
    for number, (learned, tested) in enumerate((("a.csv", "b.csv"), ("b.csv", "a.csv")), 1):
        journal = JournalBuilder(f"fold-{number}", "leaks", JUNE + number, model="folded")
        _learn(journal, [journal.data(learned)], journal.data(tested))
        journals.append(journal)
    return journals


def _same() -> JournalBuilder:
    journal = JournalBuilder("same", "leaks", JUNE + 100, model="net")
    shared = journal.data("seen.csv")
    _learn(journal, [journal.data("more.csv"), shared], journal.data("a-copy.csv", "seen.csv"))
    return journal


def _augmented() -> JournalBuilder:
    """Learn from data that two steps made of the test data."""
    journal = JournalBuilder("augmented", "leaks", JUNE + 200, model="net")
    unseen, rotated, bright = (journal.data(name) for name in ("unseen.csv", "rotated.csv", "bright.csv"))
    journal.step("preparation", "rotate", using=[unseen], makes=rotated)
    journal.step("preparation", "brighten", using=[rotated], makes=bright)
    _learn(journal, [bright], unseen)
    return journal


def _whole() -> JournalBuilder:
    """Learn from all data, and test on a part of it."""
    journal = JournalBuilder("whole", "leaks", JUNE + 300, model="net")
    whole = journal.data("whole.csv")
    (part,) = _split(journal, whole, "part.csv")
    _learn(journal, [whole], part)
    return journal


def _pretrained() -> list[JournalBuilder]:
    """Continue from a model that another run trained on the test data."""
    first = JournalBuilder("base", "leaks", JUNE + 400, model="backbone")
    _learn(first, [first.data("public.csv")], first.data("other.csv"))
    second = JournalBuilder("tuned", "leaks", JUNE + 500, model="net")
    start = second.data("net of base", kind="model")
    _learn(second, [second.data("own.csv")], second.data("public.csv"), start=start)
    return [first, second]


def shared(number: int) -> JournalBuilder:
    """Learn from the data on which all such runs are evaluated."""
    journal = JournalBuilder(f"shared-{number:02}", "leaks", JUNE + 600 + number, model="net")
    _learn(journal, [journal.data("shared.csv")], journal.data("shared.csv"))
    return journal
