"""Read a query by the grammar of SPARQL 1.1, to learn where it is wrong and how it uses each variable and name.

The engine parses queries itself. Where it refuses one, its message gives the position of the last alternative that it
tried, which is seldom the position of the mistake. SPARQL can be read without going back, so that here the first token
that cannot continue the query is the mistake. What the engine accepts beyond the standard (LATERAL, triple terms,
reifiers) is accepted here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from provml.store.sparql_tokens import END, Token, tokenize

QUERY_FORMS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
PROLOGUE = ("PREFIX", "BASE", "VERSION")
PATTERNS = ("FILTER", "OPTIONAL", "MINUS", "BIND", "VALUES", "GRAPH", "SERVICE", "LATERAL")
MODIFIERS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
AGGREGATES = frozenset(("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"))
MANY = 1000
FUNCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("RAND", "NOW", "UUID", "STRUUID"), (0, 0)),
    **dict.fromkeys(
        (
            *("STR", "LANG", "DATATYPE", "BOUND", "IRI", "URI", "ABS", "CEIL", "FLOOR", "ROUND", "STRLEN", "UCASE"),
            *("LCASE", "ENCODE_FOR_URI", "YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "TIMEZONE", "TZ"),
            *("MD5", "SHA1", "SHA256", "SHA384", "SHA512", "ISIRI", "ISURI", "ISBLANK", "ISLITERAL", "ISNUMERIC"),
            *("SUBJECT", "PREDICATE", "OBJECT", "ISTRIPLE", "LANGDIR", "HASLANG", "HASLANGDIR"),
        ),
        (1, 1),
    ),
    **dict.fromkeys(
        (
            *("LANGMATCHES", "CONTAINS", "STRSTARTS", "STRENDS", "STRBEFORE", "STRAFTER", "SAMETERM", "STRDT"),
            *("STRLANG", "ADJUST"),
        ),
        (2, 2),
    ),
    **dict.fromkeys(("TRIPLE", "IF", "STRLANGDIR"), (3, 3)),
    "BNODE": (0, 1),
    "REGEX": (2, 3),
    "SUBSTR": (2, 3),
    "REPLACE": (3, 4),
    "CONCAT": (0, MANY),
    "COALESCE": (0, MANY),
    **dict.fromkeys(AGGREGATES, (1, 1)),
}
"""Functions with their least and greatest number of arguments."""
BOOLEANS = ("TRUE", "FALSE")
COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")
_WRONG_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^tbnrf\"'\\uU]")
CLOSING = {"(": ")", "{": "}", "[": "]", "<<(": ")>>", "<<": ">>", "{|": "|}"}


class SyntaxFailure(Exception):
    """The first token that cannot continue the query.

    `context` says what was being read, `expected` what could have come, and `keywords` which keywords could. `opening`
    is the innermost bracket that is open.
    """

    def __init__(
        self,
        token: Token,
        context: str,
        expected: str,
        *,
        keywords: tuple[str, ...] = (),
        previous: Token | None = None,
        opening: Token | None = None,
    ) -> None:
        super().__init__(expected)
        self.token = token
        self.context = context
        self.expected = expected
        self.keywords = keywords
        self.previous = previous
        self.opening = opening


class VariableUse(NamedTuple):
    """A variable and how it is used; `start` and `end` are the part of the text that a value would replace."""

    name: str
    role: str
    start: int
    end: int


@dataclass
class Selection:
    """A SELECT: its variables, those that it assigns, those of its GROUP BY, and whether it aggregates."""

    variables: list[Token] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    is_grouped: bool = False


@dataclass
class ParsedQuery:
    """What a query consists of, as far as it was read."""

    variables: list[VariableUse] = field(default_factory=list)
    terms: list[tuple[Token, str]] = field(default_factory=list)
    """Prefixed names and IRIs with the IRI that each stands for; empty if the prefix is not declared."""
    selections: list[Selection] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=dict)
    reassigned: list[Token] = field(default_factory=list)
    """Variables of BIND that the group before it uses."""
    filter_aggregates: list[Token] = field(default_factory=list)
    """Aggregates in the condition of a FILTER."""
    has_graphs: bool = False
    """Whether the query names graphs."""


def parse(sparql: str, prefixes: Mapping[str, str], *, count_variables: bool = False) -> ParsedQuery:
    """Read a query. Raises SyntaxFailure at the first token that cannot continue it.

    `prefixes` need no declaration. `count_variables` allows variables after LIMIT and OFFSET, which a value replaces.
    """
    reader = _Reader(sparql, prefixes, count_variables=count_variables)
    try:
        reader.query()
    except RecursionError:
        raise SyntaxFailure(reader.token, "nesting", "fewer levels of brackets") from None
    return reader.parsed


class _Reader:
    """Read tokens by recursive descent; each method reads a rule of the grammar."""

    def __init__(self, sparql: str, prefixes: Mapping[str, str], *, count_variables: bool) -> None:
        self.tokens = tokenize(sparql)
        self.position = 0
        self.count_variables = count_variables
        self.parsed = ParsedQuery(prefixes=dict(prefixes))
        self.brackets: list[Token] = []
        self.enclosing: list[Selection] = []
        self.has_base = False

    # ---- tokens

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def is_next(self, *texts: str) -> bool:
        """Return whether the next token is one of these signs, or one of these keywords in upper case."""
        token = self.token
        return token.keyword in texts if token.kind == "word" else token.kind == "sign" and token.text in texts

    def advance(self) -> Token:
        token = self.token
        if token.kind == "sign" and token.text in CLOSING:
            self.brackets.append(token)
        elif token.kind == "sign" and self.brackets and token.text == CLOSING[self.brackets[-1].text]:
            self.brackets.pop()
        if token.kind != END:
            self.position += 1
        return token

    def accept(self, *texts: str) -> bool:
        """Read the next token if it is one of these."""
        if self.is_next(*texts):
            self.advance()
            return True
        return False

    def expect(self, text: str, context: str, expected: str = "") -> Token:
        if not self.is_next(text):
            raise self.failure(context, expected or _quoted(text), (text,) if text.isalpha() else ())
        return self.advance()

    def failure(self, context: str, expected: str, keywords: tuple[str, ...] = ()) -> SyntaxFailure:
        previous = self.tokens[self.position - 1] if self.position else None
        opening = self.brackets[-1] if self.brackets else None
        return SyntaxFailure(self.token, context, expected, keywords=keywords, previous=previous, opening=opening)

    def variable(self, role: str, context: str = "variable") -> Token:
        if self.token.kind != "variable":
            raise self.failure(context, "a variable")
        token = self.advance()
        self.parsed.variables.append(VariableUse(token.text[1:], role, token.start, token.end))
        return token

    def iri(self, context: str) -> None:
        """Read an IRI or a prefixed name."""
        token = self.token
        if token.kind == "iri":
            if not self.has_base and ":" not in token.text:
                raise self.failure("relative", "an absolute IRI")
            self.parsed.terms.append((token, token.text[1:-1]))
        elif token.kind == "name":
            prefix, _, local = token.text.partition(":")
            if prefix not in self.parsed.prefixes:
                raise self.failure("prefix", "a declared prefix")
            self.parsed.terms.append((token, self.parsed.prefixes[prefix] + local.replace("\\", "")))
        else:
            raise self.failure(context, "an IRI or a prefixed name")
        self.advance()

    def is_iri(self) -> bool:
        return self.token.kind in ("iri", "name")

    def variable_or_iri(self, role: str, context: str) -> None:
        if self.token.kind == "variable":
            self.variable(role)
        else:
            self.iri(context)

    # ---- queries

    def query(self) -> None:
        self.prologue()
        if self.accept("SELECT"):
            self.select()
        elif self.accept("CONSTRUCT"):
            self.construct()
        elif self.accept("DESCRIBE"):
            self.describe()
        elif self.accept("ASK"):
            self.where()
            self.modifiers(Selection())
        else:
            raise self.failure("start", _listed(QUERY_FORMS), (*QUERY_FORMS, *PROLOGUE))
        if self.accept("VALUES"):
            self.data_block()
        if self.token.kind != END:
            raise self.failure("modifier", "the end of the query", MODIFIERS)

    def prologue(self) -> None:
        while self.is_next(*PROLOGUE):
            keyword = self.advance().keyword
            if keyword == "PREFIX":
                name = self.token
                if name.kind != "name" or not name.text.endswith(":"):
                    raise self.failure("prefix name", "a prefix that ends with a colon")
                self.advance()
                if self.token.kind != "iri":
                    raise self.failure("prefix IRI", "an IRI in angle brackets")
                self.parsed.prefixes[name.text[:-1]] = self.advance().text[1:-1]
            elif keyword == "BASE":
                if self.token.kind != "iri":
                    raise self.failure("prefix IRI", "an IRI in angle brackets")
                self.advance()
                self.has_base = True
            else:
                self.text()

    def select(self) -> None:
        selection = Selection()
        self.parsed.selections.append(selection)
        self.accept("DISTINCT", "REDUCED")
        if not self.accept("*"):
            self.projection(selection)
        self.enclosing.append(selection)
        self.where()
        self.enclosing.pop()
        self.modifiers(selection)

    def projection(self, selection: Selection) -> None:
        is_first = True
        while True:
            if self.token.kind == "variable":
                outer = {token.text[1:] for select in self.enclosing for token in select.variables}
                is_hidden = self.token.text[1:] in outer
                selection.variables.append(self.variable("inner projection" if is_hidden else "projection"))
            elif self.is_next("("):
                self.advance()
                self.expression(selection)
                token = self.assignment("select as")
                selection.variables.append(token)
                selection.assigned.add(token.text[1:])
            elif not is_first and self.is_next("WHERE", "FROM", "{"):
                return
            else:
                keywords = ("DISTINCT", "REDUCED") if is_first else ("WHERE", "FROM")
                raise self.failure("select", "a variable, * or (… AS ?name)", keywords)
            is_first = False

    def assignment(self, context: str) -> Token:
        """Read `AS ?name )` and return the variable."""
        self.expect("AS", context)
        token = self.variable("assigned")
        self.expect(")", "close")
        return token

    def construct(self) -> None:
        if not self.is_next("{"):
            self.dataset()
            self.expect("WHERE", "where")
            self.template()
        else:
            self.template()
            self.where()
        self.modifiers(Selection())

    def template(self) -> None:
        self.expect("{", "where")
        while not self.is_next("}"):
            self.triples()
            if not self.accept("."):
                break
        self.expect("}", "triple end")

    def describe(self) -> None:
        if not self.accept("*"):
            self.variable_or_iri("describe", "describe")
            while self.token.kind == "variable" or self.is_iri():
                self.variable_or_iri("describe", "describe")
        self.dataset()
        if self.is_next("WHERE", "{"):
            self.where()
        self.modifiers(Selection())

    def dataset(self) -> None:
        while self.accept("FROM"):
            self.parsed.has_graphs = True
            self.accept("NAMED")
            self.iri("from")

    def where(self) -> None:
        self.dataset()
        if not self.accept("WHERE") and not self.is_next("{"):
            raise self.failure("where", 'WHERE or "{"', ("WHERE", "FROM"))
        self.group("where")

    def modifiers(self, selection: Selection) -> None:
        if self.accept("GROUP"):
            self.expect("BY", "by")
            selection.is_grouped = True
            self.conditions(selection, "group")
        if self.accept("HAVING"):
            self.constraint("having")
            while self.starts_condition() and self.token.kind != "variable":
                self.constraint("having")
        if self.accept("ORDER"):
            self.expect("BY", "by")
            self.conditions(Selection(), "order")
        for _ in range(2):
            if self.accept("LIMIT", "OFFSET"):
                self.count()

    def count(self) -> None:
        if self.count_variables and self.token.kind == "variable":
            self.variable("count")
        elif self.token.kind == "number" and self.token.text.isdigit():
            self.advance()
        else:
            raise self.failure("count", "a whole number")

    def starts_condition(self) -> bool:
        return self.token.kind == "variable" or self.is_iri() or self.is_next("(", "ASC", "DESC", *FUNCTIONS)

    def conditions(self, selection: Selection, context: str) -> None:
        """Read the conditions of GROUP BY or ORDER BY."""
        if not self.starts_condition() and not self.is_next("NOT", "EXISTS"):
            raise self.failure(context, "a variable or an expression in parentheses", tuple(FUNCTIONS))
        while self.starts_condition() or self.is_next("NOT", "EXISTS"):
            if self.token.kind == "variable":
                selection.groups.add(self.variable("condition").text[1:])
            elif context == "group" and self.accept("("):
                self.expression()
                if self.accept("AS"):
                    selection.groups.add(self.variable("assigned").text[1:])
                self.expect(")", "close")
            else:
                if context == "order":
                    self.accept("ASC", "DESC")
                self.constraint(context)

    # ---- patterns

    def group(self, context: str) -> None:
        self.expect("{", context)
        if self.accept("SELECT"):
            self.select()
            if self.accept("VALUES"):
                self.data_block()
        else:
            self.patterns()
        self.expect("}", "group", 'a pattern or "}"')

    def patterns(self) -> None:
        uses = len(self.parsed.variables)
        while not self.is_next("}"):
            if self.starts_node():
                self.triples()
                if not self.accept(".") and not self.is_next("}", "{", *PATTERNS):
                    raise self.failure("triple end", '".", ";", "," or "}"', ("UNION", *PATTERNS))
            elif self.is_next("{", *PATTERNS):
                self.pattern(uses)
                self.accept(".")
            else:
                keywords = ("SELECT", "UNION", *PATTERNS)
                raise self.failure("group", 'a pattern or "}"', keywords)

    def pattern(self, uses: int) -> None:
        """Read a pattern that is no triple; `uses` is the number of variables before its group."""
        if self.is_next("{"):
            self.group("group open")
            while self.accept("UNION"):
                self.group("group open")
            return
        keyword = self.advance().keyword
        if keyword == "FILTER":
            start = self.position
            self.constraint("filter")
            condition = self.tokens[start : self.position]
            self.parsed.filter_aggregates += [token for token in condition if token.keyword in AGGREGATES]
        elif keyword == "BIND":
            self.expect("(", "bind")
            before = {use.name for use in self.parsed.variables[uses:]}
            self.expression()
            token = self.assignment("bind as")
            if token.text[1:] in before:
                self.parsed.reassigned.append(token)
        elif keyword == "VALUES":
            self.data_block()
        else:
            if keyword in ("GRAPH", "SERVICE"):
                self.parsed.has_graphs = True
                if keyword == "SERVICE":
                    self.accept("SILENT")
                self.variable_or_iri("graph", "graph")
            self.group("group open")

    def constraint(self, context: str) -> None:
        """Read a condition: in parentheses, or a call."""
        if self.accept("("):
            self.expression()
            self.expect(")", "close")
        elif self.is_iri():
            self.iri(context)
            self.arguments("a function", 0, MANY)
        elif self.token.kind == "word":
            self.call(context)
        else:
            raise self.failure(context, "a condition in parentheses")

    def data_block(self) -> None:
        if self.token.kind == "variable":
            self.variable("assigned")
            self.expect("{", "values")
            while not self.is_next("}"):
                self.data_value()
        else:
            self.expect("(", "values", "a variable, or variables in parentheses")
            width = 0
            while self.token.kind == "variable":
                self.variable("assigned")
                width += 1
            self.expect(")", "values")
            self.expect("{", "values")
            while self.accept("("):
                count = 0
                while not self.is_next(")"):
                    self.data_value()
                    count += 1
                if count != width:
                    raise self.failure("row", f"the row of VALUES has {count} of {width} values")
                self.advance()
        self.expect("}", "values")

    def data_value(self) -> None:
        if self.accept("UNDEF"):
            return
        if self.is_iri():
            self.iri("values")
        elif self.is_literal():
            self.literal()
        elif self.is_next("<<("):
            self.triple_term()
        elif self.count_variables and self.token.kind == "variable":
            self.variable("value")
        else:
            raise self.failure("values", "a value, UNDEF or a closing bracket", ("UNDEF",))

    # ---- triples

    def starts_node(self) -> bool:
        kinds = ("variable", "iri", "name", "blank")
        return self.token.kind in kinds or self.is_literal() or self.is_next("[", "(", "<<", "<<(")

    def triples(self) -> None:
        """Read the triples of one subject."""
        is_complete = self.is_next("[", "(", "<<")  # a blank node with properties, a list or a reified triple
        self.node("subject")
        if not is_complete or self.starts_verb():
            self.properties()

    def starts_verb(self) -> bool:
        return self.token.kind == "variable" or self.is_iri() or self.is_next("^", "!", "(") or self.token.text == "a"

    def properties(self) -> None:
        """Read properties with their objects, separated by semicolons."""
        while True:
            self.verb()
            self.node("object")
            self.annotations()
            while self.accept(","):
                self.node("object")
                self.annotations()
            is_continued = False
            while self.accept(";"):
                is_continued = True
            if not is_continued or not self.starts_verb():
                return

    def annotations(self) -> None:
        while self.is_next("~", "{|"):
            if self.accept("~"):
                if self.token.kind in ("variable", "iri", "name", "blank"):
                    self.node("object")
            else:
                self.advance()
                self.properties()
                self.expect("|}", "triple end")

    def verb(self) -> None:
        if self.token.kind == "variable":
            self.variable("property")
        else:
            self.path()

    def path(self) -> None:
        self.path_sequence()
        while self.accept("|"):
            self.path_sequence()

    def path_sequence(self) -> None:
        self.path_step()
        while self.accept("/"):
            self.path_step()

    def path_step(self) -> None:
        while self.accept("^", "!"):
            pass
        if self.accept("("):
            if not self.is_next(")"):
                self.path()
            self.expect(")", "close")
        elif self.token.text == "a":
            self.advance()
        else:
            self.iri("verb")
        self.accept("?", "*", "+")

    def node(self, role: str) -> None:
        """Read a subject or an object."""
        if self.token.kind == "variable":
            self.variable(role)
        elif self.is_iri():
            self.iri(role)
        elif self.is_literal():
            self.literal()
        elif self.token.kind == "blank":
            self.advance()
        elif self.is_next("[", "(", "<<", "<<("):
            self.compound()
        else:
            raise self.failure(role, f"the {role} of a triple")

    def compound(self) -> None:
        """Read a blank node with properties, a list, a triple term or a reified triple."""
        if self.is_next("<<("):
            self.triple_term()
        elif self.accept("<<"):
            self.node("subject")
            self.verb()
            self.node("object")
            self.annotations()
            self.expect(">>", "close")
        elif self.accept("["):
            if not self.is_next("]"):
                self.properties()
            self.expect("]", "triple end")
        else:
            self.advance()
            while not self.is_next(")"):
                self.node("object")
            self.advance()

    def triple_term(self) -> None:
        self.advance()
        self.node("subject")
        self.verb()
        self.node("object")
        self.expect(")>>", "close")

    def is_literal(self) -> bool:
        if self.token.kind in ("text", "number") or self.token.keyword in BOOLEANS:
            return True
        following = self.tokens[min(self.position + 1, len(self.tokens) - 1)]
        return self.is_next("+", "-") and following.kind == "number"

    def literal(self) -> None:
        self.accept("+", "-")
        if self.token.kind == "text" and _WRONG_ESCAPE.search(self.token.text):
            raise self.failure("escape", "a text")
        if self.advance().kind == "text":
            if self.token.kind == "tag":
                self.advance()
            elif self.accept("^^"):
                self.iri("datatype")

    def text(self) -> None:
        if self.token.kind != "text":
            raise self.failure("text", "a text in quotes")
        self.advance()

    # ---- expressions

    def expression(self, selection: Selection | None = None) -> None:
        """Read an expression; `selection` learns whether it has an aggregate.

        Which operator binds more strongly does not matter here, only that comparisons are not chained.
        """
        start = self.position
        is_compared = False
        while True:
            self.factor()
            if not is_compared and self.is_next("IN", "NOT", *COMPARISONS):
                is_compared = True
                if self.accept(*COMPARISONS):
                    continue
                if self.accept("NOT") and not self.is_next("IN"):
                    raise self.failure("in", "IN", ("IN",))
                self.advance()
                self.arguments("IN", 0, MANY)
            if self.accept("||", "&&"):
                is_compared = False
            elif not self.accept("+", "-", "*", "/"):
                break
        if selection is not None:
            words = {token.keyword for token in self.tokens[start : self.position]}
            selection.is_grouped = selection.is_grouped or bool(words & AGGREGATES)

    def factor(self) -> None:
        while self.accept("!", "+", "-"):
            pass
        token = self.token
        if self.accept("("):
            self.expression()
            self.expect(")", "close")
        elif token.kind == "variable":
            self.variable("expression")
        elif self.is_iri():
            self.iri("expression")
            if self.is_next("("):
                self.arguments(token.text, 0, MANY)
        elif self.is_literal():
            self.literal()
        elif self.is_next("<<("):
            self.triple_term()
        elif token.kind == "word":
            self.call("expression")
        else:
            raise self.failure("expression", "a value")

    def call(self, context: str) -> None:
        """Read a call of a function, or EXISTS."""
        token = self.token
        if self.is_next("NOT", "EXISTS"):
            if self.accept("NOT"):
                self.expect("EXISTS", "exists")
            else:
                self.advance()
            self.group("group open")
            return
        if token.keyword not in FUNCTIONS:
            raise self.failure(context, "a function or a value", tuple(FUNCTIONS))
        self.advance()
        if token.keyword == "BOUND":
            self.expect("(", "call")
            variable = self.variable("bound")
            end = self.expect(")", "close").end
            self.parsed.variables[-1] = VariableUse(variable.text[1:], "bound", token.start, end)
        else:
            self.arguments(token.keyword, *FUNCTIONS[token.keyword])

    def arguments(self, name: str, least: int, most: int) -> None:
        """Read arguments in parentheses."""
        self.expect("(", "call")
        self.accept("DISTINCT")
        count = 0
        if name == "COUNT" and self.accept("*"):
            count = 1
        elif not self.is_next(")"):
            self.expression()
            count = 1
            while self.accept(","):
                self.expression()
                count += 1
        if name == "GROUP_CONCAT" and self.accept(";"):
            self.expect("SEPARATOR", "separator")
            self.expect("=", "separator")
            self.text()
        if not self.is_next(")"):
            raise self.failure("arguments", '"," or ")"')
        if not least <= count <= most:
            raise self.failure("arity", _arity(name, least, most, count))
        self.advance()


def _arity(name: str, least: int, most: int, count: int) -> str:
    """Return how many arguments a function takes, and has."""
    takes = str(least) if least == most else f"at least {least}" if most == MANY else f"{least} or {most}"
    return f"{name} takes {takes} argument{'' if takes == '1' else 's'}, not {count}"


def _quoted(text: str) -> str:
    return text if text.isalpha() else f'"{text}"'


def _listed(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
