"""Draw docs/pictures/architecture.svg: how data flows from a training script to an answer."""

from __future__ import annotations

from html import escape

WIDTH, HEIGHT = 980, 500
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
INK, MUTED, LINE = "#1d2733", "#5b6875", "#8794a1"
WRITE, TRUTH, READ, SOURCE = "#dbeafe", "#fde68a", "#d1fae5", "#ede9fe"


def architecture_svg() -> str:
    """Return the picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="{FONT}">',
        "<title>From a training script to an answer</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        f'<path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>',
        _band(16, 150, "Write side: in the training process; never waits for a lock"),
        _band(182, 150, "Read side: any process, during the training or years later"),
        _band(348, 136, "Sources: what can be", "asked, what must hold,", "what can be said"),
        _box((36, 56), (190, 86), WRITE, "training script", "Keras, PyTorch, XGBoost,", "scikit-learn, your own loop"),
        _box((276, 56), (190, 86), WRITE, "capture, recording", "callbacks and run methods", "turn steps into events"),
        _box((516, 56), (190, 86), WRITE, "event", "one small record", "per fact"),
        _box((756, 56), (190, 86), TRUTH, "journal", "append-only file, one per", "process; source of truth"),
        _box((756, 222), (190, 86), READ, "mapping", "events to typed nodes", "(W3C PROV, PROV-ML)"),
        _box((516, 222), (190, 86), READ, "index", "embedded Oxigraph;", "can be rebuilt at any time"),
        _box((276, 222), (190, 86), READ, "question, SPARQL", "asked by name in Python", "and on the command line"),
        _box((36, 222), (190, 86), READ, "answer", "rows, DataFrame, plot,", "CSV, JSON, Turtle"),
        _box((276, 376), (190, 86), SOURCE, "queries/", "question files", "with typed parameters"),
        _box((516, 376), (190, 86), SOURCE, "shapes/", "constraints: SHACL,", "PROV-CONSTRAINTS, OWL"),
        _box((756, 376), (190, 86), SOURCE, "ontologies/", "compiled to typed classes,", "shapes and pages"),
        _arrow((226, 99), (276, 99)),
        _arrow((466, 99), (516, 99)),
        _arrow((706, 99), (756, 99)),
        _arrow((851, 142), (851, 222)),
        _arrow((756, 265), (706, 265)),
        _arrow((516, 265), (466, 265)),
        _arrow((276, 265), (226, 265)),
        _arrow((371, 376), (371, 308)),
        _arrow((611, 376), (611, 308)),
        _arrow((851, 376), (851, 308)),
        _arrow((756, 419), (706, 419)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _band(y: int, height: int, *title: str) -> str:
    texts = [f'<rect x="16" y="{y}" width="{WIDTH - 32}" height="{height}" rx="8" fill="#f6f8fa"/>']
    for number, line in enumerate(title):
        texts.append(f'<text x="36" y="{y + 25 + 20 * number}" font-size="14" fill="{MUTED}">{escape(line)}</text>')
    return "".join(texts)


def _box(corner: tuple[int, int], size: tuple[int, int], fill: str, title: str, *lines: str) -> str:
    (x, y), (width, height) = corner, size
    middle = x + width / 2
    texts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{LINE}"/>',
        f'<text x="{middle:g}" y="{y + 28}" font-size="16" font-weight="600" fill="{INK}" text-anchor="middle">',
        f"{escape(title)}</text>",
    ]
    for number, line in enumerate(lines):
        texts.append(
            f'<text x="{middle:g}" y="{y + 50 + 18 * number}" font-size="12.5" fill="{INK}" text-anchor="middle">'
            f"{escape(line)}</text>"
        )
    return "".join(texts)


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    return (
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{LINE}" stroke-width="1.6" '
        'marker-end="url(#tip)"/>'
    )
