"""The table of engines and questions in `docs/reference/engines.md`: `python tests/engine_table.py` writes it.

The table says what the dialects state; `tests/catalog/test_endpoint.py` checks that against the golden answers.
"""

from __future__ import annotations

import re
from pathlib import Path

from provml.catalog import Catalog
from provml.store.dialects import DIALECTS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "engines.md"
BEGIN, END = "<!-- questions: made by tests/engine_table.py -->", "<!-- end of questions -->"


def table() -> str:
    """Return the table as Markdown."""
    tested = [dialect for dialect in DIALECTS.values() if dialect.is_tested]
    questions = sorted(Catalog().values(), key=lambda question: question.name)
    lines = [
        "| question | " + " | ".join(dialect.title for dialect in tested) + " |",
        "|---|" + "---|" * len(tested),
    ]
    for question in questions:
        cells = ["no" if question.name in dialect.unanswered else "yes" for dialect in tested]
        lines.append(f"| `{question.name}` | {' | '.join(cells)} |")
    counts = [f"**{sum(question.name not in dialect.unanswered for question in questions)}**" for dialect in tested]
    lines.append(f"| **of {len(questions)} questions** | {' | '.join(counts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", text), encoding="utf-8")
