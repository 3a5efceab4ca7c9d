"""Explain why the engine refused a query: the place of the mistake, its likely cause, and what to write instead."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

from provml.errors import InvalidIRI, QueryError
from provml.model.values import IRI
from provml.rdf.namespaces import OTHER_PREFIXES, PREFIXES
from provml.store import ontology_terms
from provml.store.sparql_grammar import (
    CLOSING,
    FUNCTIONS,
    MODIFIERS,
    PATTERNS,
    PROLOGUE,
    QUERY_FORMS,
    ParsedQuery,
    Selection,
    SyntaxFailure,
    parse,
)
from provml.store.sparql_tokens import END, Token, tokenize

RESERVED = frozenset((*QUERY_FORMS, *PROLOGUE, *PATTERNS, *MODIFIERS, "WHERE", "FROM", "UNION", "AS", "BY"))
MAX_EXCERPT = 100
"""Characters of the line that an error shows at most."""
MIN_SIMILARITY = 0.7
"""Similarity from which a word is a misspelt keyword."""
_UPDATE = re.compile(
    r"(?:\s|#[^\n\r]*|(?:prefix\s+\S*|base)\s*<[^>]*>)*+"
    r"(insert|delete|load|clear|create|drop|copy|move|add)\b",
    re.IGNORECASE,
)
_QUOTES = {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "‚": "'", "`": "'"}
_OPERATORS = {
    "AND": "&&",
    "OR": "||",
    "NOT": "!",
    "&": "&&",
    "|": "||",
    "<>": "!=",
    "==": "=",
}
"""Operators of other languages, with those of SPARQL."""


class Cause(NamedTuple):
    """The likely cause of a mistake: a reason, advice, and the part of the query that is marked, where it is known."""

    reason: str
    advice: str
    token: Token | None


def diagnose(sparql: str, message: str) -> QueryError:
    """Return the error for a query that the engine refused with a message."""
    if _UPDATE.match(sparql):
        return QueryError("a query cannot change the data", "Use store.update, or `provml update`.")
    cause = find_cause(sparql, message)
    if cause is None:
        return QueryError(_shortened(message), "Correct the query.")
    if cause.token is None:
        return QueryError(cause.reason, cause.advice)
    line, column, excerpt = _locate(sparql, cause.token)
    return QueryError(cause.reason, cause.advice, line=line, column=column, excerpt=excerpt)


def diagnose_update(sparql: str, message: str) -> QueryError:
    """Return the error for an update that the engine refused with a message."""
    if not _UPDATE.match(sparql) and not re.search(r"\b(insert|delete)\b", sparql, re.IGNORECASE):
        return QueryError("this is no update", "Use store.query, or `provml query`, for SELECT, ASK and CONSTRUCT.")
    return QueryError(_shortened(message), "Correct the update.")


def find_cause(sparql: str, message: str = "") -> Cause | None:
    """Return the likely cause of a mistake; None if the query follows the grammar and the engine does not say why."""
    try:
        parsed = parse(sparql, PREFIXES)
    except SyntaxFailure as failure:
        return _Diagnosis(sparql, failure).cause()
    return _semantic_cause(parsed, message)


def _shortened(message: str) -> str:
    """Return a message of the engine in one line, without the list of all possible tokens."""
    message = " ".join(message.split())
    where, expected, _ = message.partition(": expected")
    if expected:
        return f"the engine cannot read it ({where})"
    return message if len(message) <= 300 else f"{message[:300]}…"


# ---- mistakes that the grammar does not show


def _semantic_cause(parsed: ParsedQuery, message: str) -> Cause | None:
    for selection in parsed.selections:
        cause = _selection_cause(selection, message)
        if cause is not None:
            return cause
    for token in parsed.filter_aggregates:
        advice = "Group the rows and write HAVING after the last brace."
        return Cause(f"{token.text} is an aggregate, which FILTER cannot use", advice, token)
    for token, iri in parsed.terms:
        if token.kind == "iri" and not is_iri(iri):
            return Cause(f"{token.text} is not a valid IRI", "Correct it.", token)
    for token in parsed.reassigned:
        reason = f"BIND assigns {token.text}, which the patterns before it use"
        return Cause(reason, "Choose another name, or compare with FILTER.", token)
    words = " ".join(message.split()).partition(": expected ")[2].removeprefix("one of ")
    reason = next((item for item in words.split(", ") if item[:1].isalpha() and len(item.split()) > 2), "")
    if reason[1:2].islower():
        reason = reason[0].lower() + reason[1:]
    return Cause(reason, "Correct the query.", None) if reason else None


def _selection_cause(selection: Selection, message: str) -> Cause | None:
    """Return the cause of a mistake in the variables of a SELECT."""
    names: set[str] = set()
    for token in selection.variables:
        name = token.text[1:]
        if name in names:
            return Cause(f"SELECT has {token.text} twice", "Remove one of them, or choose another name.", token)
        names.add(name)
        is_free = name not in selection.groups and name not in selection.assigned
        if selection.is_grouped and is_free and "unbound" in message:
            advice = f"Add GROUP BY {token.text}, or select an aggregate of it: (MAX({token.text}) AS ?max)."
            return Cause(f"{token.text} is neither in GROUP BY nor in an aggregate", advice, token)
    return None


# ---- mistakes of syntax


class _Diagnosis:
    """Find the likely cause of a mistake of syntax."""

    def __init__(self, sparql: str, failure: SyntaxFailure) -> None:
        self.sparql = sparql
        self.failure = failure
        self.token = failure.token
        self.text = failure.token.text

    def cause(self) -> Cause:
        """Return the cause: the first rule that applies, or else what was expected."""
        rules: tuple[Callable[[], Cause | None], ...] = (
            self.wrong_character,
            self.wrong_bracket,
            self.misspelt_keyword,
            self.in_context,
        )
        for rule in rules:
            cause = rule()
            if cause is not None:
                return cause
        place = "the end of the query" if self.token.kind == END else _quoted(self.text)
        return self.at(f"unexpected {place}", f"Write {self.failure.expected} here.")

    def at(self, reason: str, advice: str, token: Token | None = None) -> Cause:
        return Cause(reason, advice, token or self.token)

    def is_after(self, *kinds: str) -> bool:
        """Return whether the previous token is of one of these kinds, without a space before this one."""
        previous = self.failure.previous
        return previous is not None and previous.kind in kinds and previous.end == self.token.start

    # ---- rules for all contexts

    def wrong_character(self) -> Cause | None:
        if self.token.kind == "open_text":
            quote = self.text[0]
            if self.is_after("word") or self.is_after("text"):
                return self.inner_quote()
            advice = f"Add {quote} at its end; a text of several lines stands between {quote * 3}."
            return self.at("the text that begins here has no closing quote", advice, self.token._replace(text=quote))
        if self.token.kind == "word" and self.is_after("text"):
            return self.inner_quote()
        if self.text in _QUOTES:
            return self.at(f"{self.text} is not a quote of SPARQL", f"Write {_QUOTES[self.text]} instead.")
        if self.token.kind == "other" and self.text not in _OPERATORS:
            return self.at(f"unexpected character {self.text!r}", "Remove it, or put it in quotes.")
        return None

    def inner_quote(self) -> Cause:
        previous = self.failure.previous
        quote = previous.text[-1] if previous is not None and previous.kind == "text" else self.text[0]
        advice = f"Write \\{quote} for a quote inside a text, or use the other kind of quotes."
        return self.at("the text ends before this character", advice, self.token._replace(text=self.text[:1]))

    def wrong_bracket(self) -> Cause | None:
        opening = self.failure.opening
        if self.token.kind == END and opening is not None:
            closing = CLOSING[opening.text]
            return self.at(f'this "{opening.text}" is not closed', f'Add "{closing}".', opening)
        if self.token.kind != "sign" or self.text not in CLOSING.values():
            return None
        if opening is None:
            return self.at(f'this "{self.text}" closes nothing', "Remove it, or add the opening bracket.")
        closing = CLOSING[opening.text]
        if self.text != closing and self.text not in [CLOSING[token.text] for token in self.open_brackets()]:
            return self.at(f'this "{self.text}" closes nothing', f'Remove it: "{opening.text}" is the open bracket.')
        if self.text != closing:
            line, column, _ = _locate(self.sparql, opening)
            reason = f'"{closing}" is missing before "{self.text}"'
            return self.at(reason, f'Close the "{opening.text}" of line {line}, column {column}.')
        return None

    def open_brackets(self) -> list[Token]:
        brackets: list[Token] = []
        for token in tokenize(self.sparql):
            if token.start >= self.token.start:
                break
            if token.kind == "sign" and token.text in CLOSING:
                brackets.append(token)
            elif token.kind == "sign" and brackets and token.text == CLOSING[brackets[-1].text]:
                brackets.pop()
        return brackets

    def misspelt_keyword(self) -> Cause | None:
        word = self.token.keyword
        if not word or word in self.failure.keywords or word in _OPERATORS:
            return None
        similar = difflib.get_close_matches(word, self.failure.keywords, 1, MIN_SIMILARITY)
        if not similar:
            return None
        is_function = similar[0] in FUNCTIONS
        noun = "a function" if is_function else "a keyword"
        return self.at(f"{self.text} is not {noun}", f"Did you mean {similar[0]}?")

    # ---- rules by context

    def in_context(self) -> Cause | None:
        context = self.failure.context
        rules: dict[str, Callable[[], Cause | None]] = {
            "start": self.in_start,
            "prefix": self.in_prefix,
            "select": self.in_select,
            "triple end": self.in_triple_end,
            "close": self.in_expression,
            "expression": self.in_expression,
            "object": self.in_node,
            "subject": self.in_node,
            "verb": self.in_node,
            "group": self.in_node,
            "modifier": self.in_modifier,
            "order": self.in_order,
            "arguments": self.in_arguments,
        }
        return rules[context]() if context in rules else self.in_clause()

    def in_clause(self) -> Cause | None:
        """Explain what a clause takes, for clauses with one rule."""
        text = self.text or "nothing"
        previous = self.failure.previous.text.upper() if self.failure.previous is not None else ""
        clauses = {
            "prefix name": (f"{text} is not a prefix", f"Write a colon after it: PREFIX {text}: <…>."),
            "prefix IRI": ("a prefix stands for an IRI in angle brackets", "Write it as <http://example.org/>."),
            "relative": (f"{text} is not an absolute IRI", "Write it with a scheme, <http://…>, or use a prefix."),
            "where": ('"{" is missing', "Put the patterns in braces: WHERE { … }."),
            "group open": ('"{" is missing', f"Put the patterns in braces: {previous} {{ … }}."),
            "from": (
                "FROM takes the IRI of a graph",
                "Leave out FROM: the runs are in the default graph. The patterns stand in WHERE { … }.",
            ),
            "filter": ("the condition of FILTER is not in parentheses", "Write FILTER( … )."),
            "having": ("the condition of HAVING is not in parentheses", "Write HAVING( … )."),
            "bind": ("BIND takes an expression in parentheses", "Write BIND(… AS ?name)."),
            "bind as": ("BIND has no name for the value", "Write BIND(… AS ?name)."),
            "select as": ("the expression has no name", "Write (… AS ?name)."),
            "call": ("the arguments are not in parentheses", f"Write {previous}( … )."),
            "exists": ("NOT stands before EXISTS and IN only", "Write !( … ) for the opposite of a condition."),
            "in": ("NOT stands before EXISTS and IN only", "Write !( … ) for the opposite of a condition."),
            "by": (f"BY is missing after {previous}", f"Write {previous} BY."),
            "count": (f"{previous} takes a whole number, not {text}", f"Write {previous} 10."),
            "arity": (self.failure.expected, "Add or remove arguments."),
            "nesting": ("the query has too many levels of brackets", "Simplify it."),
            "row": (self.failure.expected, "Write UNDEF for a missing value."),
            "escape": ("the text has an unknown escape", r"Write \\ for a backslash."),
            "separator": ("the separator of GROUP_CONCAT is incomplete", "Write SEPARATOR=', '."),
        }
        if self.failure.context == "variable" and self.token.kind == "word":
            return self.at(f"{text} is not a variable", f"Write ?{text}.")
        if self.failure.context == "values" and self.text == ",":
            return self.at('unexpected ","', "Separate the values with spaces.")
        if self.failure.context not in clauses:
            return None
        return self.at(*clauses[self.failure.context])

    def in_start(self) -> Cause | None:
        if self.token.kind == "tag" and self.text.lower() in ("@prefix", "@base"):
            keyword = self.text[1:].upper()
            return self.at(f"{self.text} is Turtle", f"Write {keyword} without @ and without the full stop.")
        if self.text == "." and self.failure.previous is not None and self.failure.previous.kind == "iri":
            return self.at('unexpected "." after a prefix', "Remove it.")
        return self.at("this is not the start of a query", f"Write {self.failure.expected}.")

    def in_prefix(self) -> Cause:
        prefix, _, local = self.text.partition(":")
        if local.startswith("//") or self.sparql.startswith("//", self.token.end):
            return self.at("an IRI without angle brackets", "Write it as <http://…>.")
        reason = f"the prefix {prefix}: is not declared"
        if prefix.lower() in PREFIXES:
            advice = f"Did you mean {prefix.lower()}:?"
        elif prefix in OTHER_PREFIXES:
            advice = f"Begin the query with PREFIX {prefix}: <{OTHER_PREFIXES[prefix]}>"
        elif similar := difflib.get_close_matches(prefix, PREFIXES, 1, MIN_SIMILARITY):
            advice = f"Did you mean {similar[0]}:? Otherwise begin the query with PREFIX {prefix}: <…>"
        else:
            advice = f"Declare it: begin the query with PREFIX {prefix}: <…>"
        return self.at(reason, advice, self.token._replace(text=f"{prefix}:"))

    def in_select(self) -> Cause | None:
        if self.text == ",":
            return self.at('unexpected "," between the variables of SELECT', "Separate them with spaces: SELECT ?x ?y.")
        if self.text in ("?", "$"):
            return self.at(f'"{self.text}" without a name', "Write the name of a variable after it: ?x.")
        if self.token.keyword == "WHERE" or self.text == "{" or self.token.kind == END:
            return self.at("SELECT names no variable", "Write SELECT * for all variables.")
        if self.token.keyword == "AS" and self.failure.previous is not None:
            return self.at('"(" is missing', f"Write ({self.failure.previous.text} AS ?name).")
        if self.token.keyword in FUNCTIONS:
            call = self.call_text()
            advice = f"Write ({call} AS ?{self.text.lower()})."
            return self.at(f"{self.text} is not in parentheses with a name", advice)
        if self.token.kind == "word":
            return self.at(f"{self.text} is not a variable", f"Write ?{self.text}.")
        return None

    def call_text(self) -> str:
        """Return the call that begins at the token, with its arguments where they are simple."""
        match = re.match(r"\w+\s*\([^()]{1,40}\)", self.sparql[self.token.start :])
        return match[0] if match else f"{self.text}(…)"

    def in_triple_end(self) -> Cause | None:
        previous = self.failure.previous
        if self.text == "-" and self.is_after("variable") and previous is not None:
            tail = re.match(r"-\w*", self.sparql[self.token.start :])
            name = previous.text + (tail[0].replace("-", "_") if tail else "")
            return self.at("the name of a variable has no hyphen", f"Write {name}.")
        if self.token.keyword == "UNION":
            return self.at("UNION stands between groups", "Put the patterns before it in braces: { … } UNION { … }.")
        if self.starts_node():
            subject = self.repeated_subject()
            if subject is not None:
                advice = f'Leave out {subject.text}: after ";" comes another property of the same subject.'
                return self.at(f'{subject.text} is repeated after ";"', advice, subject)
            advice = 'End a pattern with ".", or continue it with ";" (same subject) or "," (same property).'
            return self.at(f'"." is missing before {self.text}', advice)
        return self.in_node()

    def starts_node(self) -> bool:
        return self.token.kind in ("variable", "iri", "name", "blank", "text", "number") or self.text in ("[", "(")

    def repeated_subject(self) -> Token | None:
        """Return the subject if it is written again after a semicolon, as in `?x a ?y ; ?x rdfs:label ?l`."""
        pattern: list[Token] = []
        for token in tokenize(self.sparql):
            if token.start >= self.token.start:
                break
            pattern = [] if token.text in (".", "{", "}") else [*pattern, token]
        if len(pattern) < 3 or pattern[-3].text != ";" or pattern[-2].text != pattern[0].text:
            return None
        return pattern[-2]

    def in_node(self) -> Cause | None:
        """Explain a word or an IRI where a subject, a property or an object is expected."""
        if self.text == "<":
            end = self.sparql.find(">", self.token.start, self.token.start + 200)
            if end > 0 and "\n" not in self.sparql[self.token.start : end]:
                text = self.sparql[self.token.start : end + 1]
                advice = "An IRI has no spaces, quotes or braces: write %20 for a space."
                return self.at(f"{text} is not an IRI", advice, self.token._replace(text=text))
        if self.token.kind == "word" and self.token.keyword not in RESERVED:
            return self.at(f"{self.text} is neither a variable nor a name with a prefix", self.name_advice())
        if self.failure.context == "object":
            return self.at("the triple has no object", "A pattern has a subject, a property and an object.")
        if self.failure.context == "verb" and self.token.kind == "variable":
            return self.at("a path of properties cannot have a variable", "Use a variable alone: ?x ?property ?y.")
        if self.failure.context == "verb":
            return self.at("the triple has no property", "A pattern has a subject, a property and an object.")
        return None

    def name_advice(self) -> str:
        if self.text in PREFIXES:
            return f"Write {self.text}: with a colon and a name."
        names = ontology_terms.similar(self.text)
        return f"Write ?{self.text}" + (f", or {' or '.join(names)}." if names else ", or put a text in quotes.")

    def in_expression(self) -> Cause | None:
        previous = self.failure.previous
        if self.text == "=" and previous is not None and previous.text == "=":
            return self.at('"==" is not an operator of SPARQL', 'Write "=".')
        operator = _OPERATORS.get(self.token.keyword or self.text)
        if operator is not None:
            return self.at(f"{self.text} is not an operator of SPARQL", f'Write "{operator}".')
        if self.token.keyword == "LIKE":
            return self.at("LIKE is not an operator of SPARQL", 'Write CONTAINS(?x, "text") or REGEX(?x, "^text").')
        if self.failure.context == "expression":
            if self.token.kind == "word" and self.sparql[self.token.end :].lstrip().startswith("("):
                return self.at(f"{self.text} is not a function", "See the functions of SPARQL 1.1, section 17.4.")
            if self.token.kind == "word":
                return self.at(f"{self.text} is not a value", f"Write ?{self.text}, or put a text in quotes.")
            return self.at("a value is missing", "Write a variable, a number, a text in quotes or a function.")
        if self.starts_node() or self.token.kind == "word":
            advice = 'Write an operator such as "=" or "&&" before it, or close the parenthesis.'
            return self.at(f"unexpected {_quoted(self.text)} after a value", advice)
        if self.text == ",":
            return self.at('unexpected "," in a condition', 'Write "&&" between two conditions.')
        return self.at(f'")" is missing before {_quoted(self.text)}', "Close the parenthesis.")

    def in_arguments(self) -> Cause | None:
        if self.starts_node():
            return self.at(f'"," is missing before {self.text}', "Separate the arguments with commas.")
        if self.token.keyword == "AS":
            return self.at('")" is missing before AS', "Close the parenthesis of the function.")
        return self.in_expression()

    def in_modifier(self) -> Cause | None:
        if self.token.keyword in MODIFIERS:
            order = "GROUP BY, HAVING, ORDER BY, then LIMIT and OFFSET, then VALUES"
            return self.at(f"{self.text} is at the wrong place", f"The order is {order}.")
        if self.token.keyword in ("FILTER", "OPTIONAL", "UNION", "MINUS", "BIND"):
            return self.at(f"{self.text} is outside the braces of WHERE", 'Move it before the last "}".')
        return self.at(f"unexpected {_quoted(self.text)} after the query", "Remove it, or move it into the braces.")

    def in_order(self) -> Cause | None:
        previous = self.failure.previous
        if previous is not None and previous.keyword in ("ASC", "DESC"):
            reason = f"{previous.text} has no expression in parentheses"
            return self.at(reason, f"Write ORDER BY {previous.text}(?x).", previous)
        return self.at("ORDER BY names nothing to sort by", "Write ORDER BY ?x or ORDER BY DESC(?x).")


# ---- text


def is_iri(text: str) -> bool:
    """Return whether a text is an absolute IRI."""
    try:
        IRI(text)
    except InvalidIRI:
        return False
    return True


def _quoted(text: str) -> str:
    return text if text[:1] in ('"', "'") or text.isalnum() else f'"{text}"'


def _locate(sparql: str, token: Token) -> tuple[int, int, str]:
    """Return the line and column of a token, from 1, and the line with a mark below the token."""
    start = sparql.rfind("\n", 0, token.start) + 1
    end = sparql.find("\n", token.start)
    line = sparql[start : end if end >= 0 else len(sparql)].rstrip("\r")
    offset = token.start - start
    number = sparql.count("\n", 0, token.start) + 1
    width = max(1, min(len(token.text), len(line) - offset))
    first = max(0, min(offset - MAX_EXCERPT // 2, len(line) - MAX_EXCERPT))
    shown = line[first : first + MAX_EXCERPT]
    before = ("…" if first else "") + _printable(line[first:offset])
    text = ("…" if first else "") + _printable(shown) + ("…" if first + MAX_EXCERPT < len(line) else "")
    mark = "^" * max(1, _columns(_printable(line[offset : min(offset + width, first + MAX_EXCERPT)])))
    return number, offset + 1, f"  {text}\n  {' ' * _columns(before)}{mark}"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _columns(text: Iterable[str]) -> int:
    """Return how many columns a text takes in a terminal."""
    wide = ("W", "F")
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in wide else 1
        for character in text
    )
