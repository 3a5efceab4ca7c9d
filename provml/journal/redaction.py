"""Redact secrets in everything that is recorded: parameters, texts, command lines, addresses and events.

`secret_rules` says what a secret is; this module applies the rules. `not_secret` marks a value that is recorded as it
is. PROVML_REDACT=0 switches redaction off.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any, TypeVar, cast

from provml.journal import events
from provml.journal.secret_rules import (
    MAX_OPAQUE_CHARS,
    Strength,
    is_opaque,
    is_secret_pair,
    may_be_key,
    redact_shapes,
    strength_of,
)

REDACTED = "***"
MAX_ARGUMENTS = 1000
"""Number of arguments of a command line that are recorded: a shell may expand a pattern to 20,000 files."""
MAX_ARGUMENT_CHARS = 2000
MAX_CONTEXT_WORDS, MAX_CONTEXT_CHARS = 8, 200
"""Number of arguments before an argument, and of the characters of each, that may say what it is."""
MAX_COMMAND_WORDS = 100
"""A longer list of texts in a parameter is not searched as a command line: it may have the names of 1,000 classes."""
MAX_DEPTH = 100
"""Levels of lists and mappings of a parameter; what is deeper is recorded as its type."""

_NAME = r"(?:[A-Za-z]{2,20} )?-{0,2}[+~]?[^\W\d][\w.\-]{0,99}(?:\[[\w.\"'\-]{1,60}\])?"
_PAIR = re.compile(rf"(?<![\w.\-])({_NAME})(\\*[\"'\]]*\s{{0,20}}(?::=|=>|==?|:(?!//|:)|%3[AaDd])\s{{0,20}})")
"""A name, and what separates it from its value."""
_OPTION_PAIR = re.compile(r"""(?<![\w\-])(--?[A-Za-z][\w.\-]{0,99})(["'\\]*[\s,]{1,20})(?=[^\s\-]|-[^\s\-])""")
"""An option before its value, also in the text of a list."""
_SET_PAIR = re.compile(
    r"(?<![\w\-])((?:ENV|ARG|setenv|SET|set|config|modify(?:\s+--[\w\-]+)*\s+[\w.\-]{1,60})\s+(?:--?[\w\-]+\s+){0,3})"
    r"([A-Za-z_][\w.\-]{0,99})(\s+)(?![=\s])"
)
"""A name and its value as arguments: of a shell, a Dockerfile, `git config`, `dvc remote modify`."""
_QUOTED = re.compile(r"""(\\*)(\"{3}|'{3}|["'])(.*?)(?<!\\)\1\2""", re.S)
_NEXT_PAIR = re.compile(
    r"""[;,&\s]\s{0,20}["']?(?:[A-Za-z]{2,20} )?[A-Za-z_][\w.\-]{0,99}["']?\s{0,3}[=:](?!=?[,;)\]}]|=?\s*$)"""
    r"""|[;&,]?\s+--?[A-Za-z]|[)}\]>]+\s*$"""
)
"""The start of the next name, the next option, or the end of what contains the value."""
_STAND_IN = re.compile(r"\$\{[^{}\s]{1,200}\}|<[\w |/\-]{1,40}>|\{\{[^{}]{1,200}\}\}")
_SCHEME = re.compile(r"(?i)(?:basic|bearer|token|digest|apikey|negotiate|ntlm)\s+")
_TOKEN_END = re.compile(r"""[\s&;,"'<>)\]}]|%26""")
_ELEMENT = re.compile(r"<([\w:.\-]{1,100})(?:\s[^<>]{0,200})?>([^<>]{1,2000})</\1>")
_OPTION = re.compile(r"--?[A-Za-z][\w.\-]*")
_NEXT_OPTION = re.compile(r"--(?:[A-Za-z].*)?|-[A-Za-z]", re.S)
_USER = re.compile(
    r"""([A-Za-z][\w+.\-]{0,40}://)(?:[^\s/:@"'<>]{0,200}:(?!\d{1,5}(?:[/\s]|$))[^\s"'<>]{0,500}@|[^\s/@"'<>]{1,500}@)"""
)
_SSH_USER = re.compile(r"(?:[\w+.\-]*ssh|sftp|scp|rsync)://[^\s/:@]+@")
_URL = re.compile(r"[A-Za-z][\w+.\-]+:|[^\s/:@=]+:[^\s/]+@")
_BARE_USER = re.compile(
    r"(?<![\w/.@\-:])(?!(?:e-?mail|mailto|mail|acct|sip|xmpp|from|to|cc|author|contact|owner|user|by):)"
    r"[^\s/:@=\"'<>()]{1,64}:(?!/|\d{1,5}/)[^\s\"'<>]{1,256}@(?!sha256:)"
    r"(?=tcp\(|unix\(|\[|localhost|[\w\-]+(?:\.[\w\-]+)+|[\w\-]+:\d{2,5})"
)
_QUERY = re.compile(r"""([?&;]([\w.\-%]{1,100})=)([^&#\s"'<>;]+)""")
_LOGIN = re.compile(r"(?<![\w\-])(-u|--?(?:user|userpwd|login|proxy-user))([\s=]+)([^\s:/=]+:)(?!\d{1,5}(?:\s|$))\S+")
"""The user and password of programs such as curl."""
_REPORTED = re.compile(
    r"(?i)(\b(?:api[ _\-]?key|access[ _\-]?key|access[ _\-]?token|password|passphrase|secret)\b[\w ]{1,20}:\s*)\S.*"
)
"""A secret in a sentence of an error: "Incorrect API key provided: …"."""
_IN_SENTENCE = re.compile(
    r"(?i)(\b(password|passwd|passphrase|token|secret|api[ _\-]?key|access[ _\-]?key)\s{1,8}"
    r"(?:is\s|was\s|of\s)?\s{0,8})"
    r"""(\\*["'][^"'\s]{1,500}\\*["']|[^\s"']{1,500})"""
)
"""A secret in a sentence without a colon: "the password '…' is wrong"."""
_NETRC = re.compile(r"(\blogin\s{1,8}\S{1,200}\s{1,8}password\s{1,8})\S+")
_NAMED_VALUE = re.compile(
    r"""(\bname["']?\s{0,3}[:=]\s{0,3}["']?([\w.\-]{1,100})["']?,?\s{1,40}["']?value["']?\s{0,3}[:=]\s{0,3}["']?)"""
    r"""([^\s"',}<>]{1,2000})"""
)
"""A name and its value beside each other, as in the manifests of Kubernetes."""
_BLOCK = re.compile(
    r"""^([ \t]{0,40})((?:- )?["']?([\w.\-]{1,100})["']?:[ \t]{1,10}[|>][+\-\d]{0,2}[ \t]{0,10}\r?\n)"""
    r"""((?:\1[ \t]+\S[^\n]*(?:\n|\Z)|[ \t]*\r?\n)+)""",
    re.M,
)
"""A name in YAML whose value are the lines below it that are indented."""
_BLOCK_START = re.compile(r":[ \t]{1,10}[|>][+\-\d]{0,2}[ \t]{0,10}\r?\n")
_KAGGLE = re.compile(r"""(["']username["']:\s?["'][^"']{1,100}["'],\s?["']key["']:\s?["'])[0-9a-f]{32}(?=["'])""")
_LOGIN_KEY = re.compile(r"(\b(?:wandb login|authtoken)\s+(?:--?\S{1,100}\s+){0,4})(?!-)[\w\-]{20,}")
"""Programs whose argument is a key."""
_ORACLE = re.compile(r"(?i)(jdbc:oracle:\w+:[\w$#]{1,60}/|\bsqlplus\s+(?:-\w+\s+)*[\w$#]{1,60}/)[^@\s]{1,200}(?=@)")
_SHORT_OPTION = re.compile(
    r"(?<![\w\-])((?:(?:mysql\w*|mariadb\S*|sshpass|(?:docker|podman|helm registry|az|oc|skopeo) login|twine upload"
    r"|redis-cli|mongo(?:sh|dump)?|ldap\w+|htpasswd)\b[^\n|&;]{0,300}?\s)-(?:p|a|w|P)\s?)(?!\d{2,5}\b)([^\s\-][^\s]*)"
)
"""Programs whose short option is a password."""
_PROGRAMS = (
    r"(?:un)?zip\b{rest}-P ?|(?:sqlcmd|bcp)\b{rest}-P ?|(?:snowsql|7z[ar]?)\b{rest}-p ?|ssh-keygen\b{rest}-[NP] ?"
    r"|openssl\b{rest}-k |smbclient\b{rest}-U ?[^\s%]{{1,60}}%|curl\b{rest}-u[^\s:]{{1,60}}:"
    r"|htpasswd (?:-\w+ ){{0,3}}-\w*b\w* (?:-\w+ ){{0,3}}\S{{1,200}} \S{{1,200}} "
)
_PROGRAM_OPTION = re.compile(rf"(?<![\w\-])({_PROGRAMS.format(rest='[^|&;]{0,300}? ')})(?![\s\-*])\S+")
"""More of them, each with options of its own."""

HINTS = (
    "pass", "pw", "secret", "token", "key", "auth", "cred", "sig", "sas", "cookie", "@", "jwt", "otp", "hmac", "pat",
    "kennwort", "senha", "contrase", "login", "-u ", "--user", "-user", "mysql", "maria", "mongo", "ldap", "redis-cli",
    "twine", "curl", "zip ", "7z", "sqlcmd", "bcp ", "snowsql", "openssl", "smbclient", "code=", "ticket=", "oracle",
    "sqlplus", "bearer",
)  # fmt: skip
"""Parts of what `_redact_line` looks for, one of which a line has to have."""

T = TypeVar("T")


class _NotSecret(str):
    """A text that is recorded as it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


class _NotSecretInt(int):
    """An integer that is recorded as it is."""


def not_secret(value: T) -> T:
    """Return a value that is recorded as it is, although its name or shape is that of a secret.

    A text stays a text, and an integer an integer. In lists and mappings it applies to each item.
    """
    if isinstance(value, str):
        return cast("T", _NotSecret(value))
    if type(value) is int:
        return cast("T", _NotSecretInt(cast("int", value)))
    if isinstance(value, dict):
        return cast("T", {key: not_secret(item) for key, item in value.items()})
    if type(value) in (list, tuple, set, frozenset):
        items = cast("Any", value)
        return cast("T", type(items)(not_secret(item) for item in items))
    return value


def is_marked(value: Any) -> bool:
    """Return whether `not_secret` returned this value, or all items of it."""
    if isinstance(value, dict):
        return bool(value) and all(map(is_marked, value.values()))
    if type(value) in (list, tuple, set, frozenset):
        return bool(value) and all(map(is_marked, value))
    return isinstance(value, (_NotSecret, _NotSecretInt))


def is_enabled() -> bool:
    """Return whether secrets are redacted: unless PROVML_REDACT is 0, false, no or off."""
    return os.environ.get("PROVML_REDACT", "").lower() not in ("0", "false", "no", "off")


def is_secret(name: str) -> bool:
    """Return whether any text with this name is a secret."""
    return is_enabled() and strength_of(name) in ("token", "phrase")


def is_secret_number(name: str) -> bool:
    """Return whether even a number with this name is a secret. Under other names, such as `tokens`, it is a count."""
    return is_enabled() and strength_of(name) == "phrase"


# ---- texts


def redact_text(text: str) -> str:
    """Return a text of any length in which secrets are replaced; every other character stays."""
    if isinstance(text, _NotSecret):
        return "".join(text)
    if not text or not is_enabled():
        return text
    for secret in _environment_secrets():
        text = text.replace(secret, REDACTED)
    text = redact_shapes(text, REDACTED)
    if os.environ.get("PROVML_SECRET_NAMES"):
        return "".join(_redact_line(line) for line in text.splitlines(keepends=True))
    if not _may_have_names(text):
        return text
    text = _redact_across_lines(text)
    return "".join(_redact_line(line) if _may_have_names(line) else line for line in text.splitlines(keepends=True))


def _redact_across_lines(text: str) -> str:
    """Redact values that may be on another line than their names."""
    if "login" in text:
        text = _NETRC.sub(rf"\1{REDACTED}", text)
    if "value" in text:
        text = _NAMED_VALUE.sub(
            lambda match: match[1] + (REDACTED if is_secret_pair(*match.group(2, 3)) else match[3]), text
        )
    if _BLOCK_START.search(text):
        text = _BLOCK.sub(_redact_block, text)
    return _KAGGLE.sub(rf"\1{REDACTED}", text) if "username" in text else text


def _redact_block(match: re.Match[str]) -> str:
    if not is_secret_pair(match[3], match[4].strip()):
        return match[0]
    return match[1] + match[2] + re.sub(r"\S.*", REDACTED, match[4])


def _may_have_names(text: str) -> bool:
    """Return whether a text may have the name of a secret: quick, since most lines of a log have none."""
    lower = text.lower()
    return any(hint in lower for hint in HINTS)


def redact_url(source: str) -> str:
    """Return a URL with user, password, and secrets in the query redacted. A path of the file system is unchanged."""
    return redact_text(source) if isinstance(source, _NotSecret) or _URL.match(source) else source


def _redact_line(line: str) -> str:
    text = line.rstrip("\r\n")
    end = line[len(text) :]
    text = _redact_users(text)
    if "=" in text and ("?" in text or "&" in text or ";" in text):
        text = _QUERY.sub(_redact_query, text)
    if "/" in text and "@" in text:
        text = _ORACLE.sub(rf"\1{REDACTED}", text)
    if "-" in text:
        text = _LOGIN.sub(rf"\1\2\3{REDACTED}", text)
        text = _SHORT_OPTION.sub(rf"\1{REDACTED}", text)
        text = _PROGRAM_OPTION.sub(rf"\1{REDACTED}", text)
        text = _redact_pairs(text, _OPTION_PAIR, 1)
    text = _redact_pairs(text, _PAIR, 1)
    text = _redact_words(text)
    return text + end


def _redact_words(text: str) -> str:
    """Redact values that follow their names without a separator, and those of XML elements."""
    text = _LOGIN_KEY.sub(rf"\1{REDACTED}", text)
    text = _REPORTED.sub(rf"\1{REDACTED}", text)
    text = _IN_SENTENCE.sub(_redact_in_sentence, text)
    if "</" in text:
        text = _ELEMENT.sub(_redact_element, text)
    return (
        _redact_pairs(text, _SET_PAIR, 2) if re.search(r"\b(?:ENV|ARG|setenv|SET|set|config|modify)\s", text) else text
    )


def _redact_query(match: re.Match[str]) -> str:
    return match[1] + (REDACTED if is_secret_pair(match[2], match[3], in_query=True) else match[3])


def _redact_element(match: re.Match[str]) -> str:
    if not is_secret_pair(match[1], match[2].strip()):
        return match[0]
    start = match.start(2) - match.start()
    return match[0][:start] + REDACTED + match[0][start + len(match[2]) :]


def _redact_in_sentence(match: re.Match[str]) -> str:
    value = match[3].strip("\\\"'").rstrip(".,;:!?)")
    is_quoted = match[3][0] in "\"'\\" and match[2].lower().startswith("pass")
    if not value or REDACTED in value or not (is_opaque(value) or (is_quoted and is_secret_pair("password", value))):
        return match[0]
    return match[1] + match[3].replace(value, REDACTED)


def _redact_pairs(text: str, pattern: re.Pattern[str], group: int) -> str:
    """Redact the values of pairs whose name, or name and value, are those of a secret."""
    parts: list[str] = []
    position = 0
    for match in pattern.finditer(text):
        if match.start() < position:  # inside of a value that was redacted
            continue
        name = match[group]
        strength = strength_of(name)
        if not strength:
            continue
        start, end = _value_span(text, match.end(), strength)
        value = text[start:end]
        if _is_secret_in_text(name, value) and (text[match.start() - 1 : match.start()] != "/" or is_opaque(value)):
            parts += [text[position:start], REDACTED]
            position = end
    return "".join([*parts, text[position:]]) if parts else text


def _is_secret_in_text(name: str, value: str) -> bool:
    if not value or REDACTED in value or not is_secret_pair(name.lstrip("-+~"), value):
        return False
    return strength_of(name) == "phrase" or not _is_count(value)


def _is_count(value: str) -> bool:
    """Return whether a text is a number as measures and settings have it."""
    return re.fullmatch(r"[-+]?[\d_,]{1,12}(?:\.\d*)?(?:[eE][-+]?\d+)?%?[.kKMGB]?", value) is not None


def _value_span(text: str, start: int, strength: Strength) -> tuple[int, int]:
    """Return where the value after a name begins and ends.

    A value in quotes ends with them. Others end with the word or, if they may have spaces, where another name begins.
    """
    if quoted := _QUOTED.match(text, start):
        return quoted.start(3), quoted.end(3)
    if stand_in := _STAND_IN.match(text, start):
        return stand_in.span()
    scheme = _SCHEME.match(text, start)
    if strength != "phrase":
        limit = len(text) if strength == "token" else start + MAX_OPAQUE_CHARS + 1
        ends = _TOKEN_END.search(text, scheme.end() if scheme else start, limit)
        return start, ends.start() if ends else min(limit, len(text))
    following = _NEXT_PAIR.search(text, scheme.end() if scheme else start)
    return start, following.start() if following else len(text)


def _redact_users(text: str) -> str:
    if "@" not in text:
        return text
    text = _USER.sub(lambda match: match[0] if _SSH_USER.fullmatch(match[0]) else f"{match[1]}{REDACTED}@", text)
    return _BARE_USER.sub(f"{REDACTED}@", text)


# ---- parameters


def mask(name: str, value: Any) -> Any:
    """Return the value of a parameter: redacted if it is a secret by name or shape, else with redacted texts in it."""
    return _mask(name, value, 0) if is_enabled() else value


def _mask(name: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (_NotSecret, _NotSecretInt)):
        return "".join(value) if isinstance(value, _NotSecret) else int(value)
    if isinstance(value, Number):
        return REDACTED if is_secret_number(name) else value
    if depth > MAX_DEPTH:
        return f"{type(value).__name__} in more than {MAX_DEPTH} levels"
    if isinstance(value, str):
        return _mask_text(name, value)
    if isinstance(value, Mapping):
        return _mask_mapping(name, value, depth)
    if type(value) in (list, tuple, set, frozenset):
        return _mask_sequence(name, value, depth)
    return REDACTED if is_secret(name) else value


def _mask_text(name: str, value: str) -> str:
    if is_secret_pair(name, value):
        return REDACTED
    text = redact_text(value)
    return value if str.__eq__(value, text) else text  # a subclass may compare a language, too


def _mask_mapping(name: str, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    items = value.items()
    if is_secret(name):  # each value in it is a part of the secret
        return {key: _mask(name if is_secret_number(name) else "secret", item, depth + 1) for key, item in items}
    pair = _mask_named_pair(value, depth)
    if pair is not None:
        return pair
    owner = "api" if "username" in value else name
    return {key: _mask(_full_name(owner, key, item), item, depth + 1) for key, item in items}


def _full_name(owner: str, name: Any, value: Any) -> str:
    """Return the name of a value, with that of its mapping if only both say that it is a key: `wandb: {key: …}`."""
    if name == "key" and isinstance(value, str) and strength_of(f"{owner} key") and may_be_key(value):
        return f"{owner} key"
    return str(name)


def _mask_named_pair(value: Mapping[Any, Any], depth: int) -> dict[Any, Any] | None:
    """Mask a mapping that is a pair, such as {"name": "HF_TOKEN", "value": …}; None if it is none."""
    for field in ("name", "key", "Name", "Key"):
        content = "value" if field.islower() else "Value"
        label = value.get(field)
        if isinstance(label, str) and content in value:
            return {
                key: _mask(label if key == content else "" if key == field else str(key), item, depth + 1)
                for key, item in value.items()
            }
    return None


def _mask_sequence(name: str, value: Any, depth: int) -> Any:
    items = list(value)
    is_marked = any(isinstance(item, (_NotSecret, _NotSecretInt)) for item in items)
    if is_secret(name) and items and not is_marked:
        is_plain = all(item is None or isinstance(item, (bool, int, float)) for item in items)
        return value if is_plain and not is_secret_number(name) else REDACTED
    if len(items) == 2 and isinstance(items[0], str) and is_secret_number(items[0]):
        return type(value)([items[0], _mask(items[0], items[1], depth + 1)])
    is_command = 2 < len(items) <= MAX_COMMAND_WORDS and all(isinstance(item, str) for item in items)
    masked: list[Any] = []
    for index, (item, previous) in enumerate(zip(items, [None, *items], strict=False)):
        is_value = _is_secret_option(previous) and not _NEXT_OPTION.fullmatch(str(item))
        masked_item = REDACTED if is_value else _mask(name, item, depth + 1)
        is_same = is_command and masked_item == item and not isinstance(item, _NotSecret)
        masked.append(_redact_in_context(items[:index], item) if is_same else masked_item)
    return type(value)(masked)


def _is_secret_option(argument: Any) -> bool:
    return isinstance(argument, str) and _OPTION.fullmatch(argument) is not None and is_secret(argument)


def redact_urls(value: Any) -> Any:
    """Return plain data with the URLs in it redacted. Names do not matter: a workflow has no values of parameters."""
    if isinstance(value, dict):
        return {name: redact_urls(item) for name, item in value.items()}
    if isinstance(value, list):
        return [redact_urls(item) for item in value]
    return redact_url(value) if isinstance(value, str) else value


def redact(value: Any) -> Any:
    """Return a value without items that have the name of a secret, also in mappings and lists inside it."""
    if isinstance(value, Mapping):
        return {name: redact(item) for name, item in value.items() if is_marked(item) or not is_secret(str(name))}
    if type(value) in (list, tuple):
        return type(value)(redact(item) for item in value)
    return value


# ---- events

TEXT_FIELDS: dict[type[events.Event], tuple[str, ...]] = {
    events.Header: ("name", "model", "by", "study", "task", "run_name"),
    events.Begin: ("name", "by"),
    events.Data: ("name", "path", "store"),
    events.Artifact: ("name", "path"),
    events.Adapted: ("technique", "why", "by"),
    events.Implementation: ("name", "algorithm", "software", "source"),
    events.ExecutionDetails: ("name", "directory", "resource", "output", "errors"),
    events.Imported: ("source", "tool"),
}
"""Texts of events that people and programs write. Events of batches and measures have none, and cost nothing here."""
REDACTED_EVENTS = frozenset({*TEXT_FIELDS, events.Layers})
_VALUE_FIELDS = ("values", "parameters", "texts")
_PATHS = frozenset({"path", "directory", "source", "store"})


def redact_event(event: events.Event) -> events.Event:
    """Redact the texts of an event; return the event. Its values were redacted when they were encoded."""
    fields = TEXT_FIELDS.get(event.__class__)
    if fields is not None:
        for field in fields:
            text = getattr(event, field)
            if text:
                setattr(event, field, redact_url(text) if field in _PATHS else redact_text(text))
    elif isinstance(event, events.Layers):
        event.layers = [mask("", layer) for layer in event.layers]
    return event


def redact_foreign_event(event: events.Event) -> events.Event:
    """Redact the texts and values of an event that was imported or received; return the event."""
    redact_event(event)
    if isinstance(event, (events.Measured, events.Batches)):
        if not has_numbers_only(event.values):
            event.values = {name: _mask_measures(name, value) for name, value in event.values.items()}
    else:
        for field in _VALUE_FIELDS:
            if values := getattr(event, field, None):
                setattr(event, field, {name: mask(name, value) for name, value in values.items()})
    if isinstance(event, events.Environment):
        event.process = mask("", event.process)
        event.machine = mask("", event.machine)
    elif isinstance(event, events.Workflow):
        event.spec = redact_urls(event.spec)
    elif isinstance(event, events.CaptureErrors):
        event.first = redact_text(event.first)
        event.messages = {redact_text(message): count for message, count in event.messages.items()}
    elif isinstance(event, (events.Done, events.End)) and event.error:
        event.error = [redact_text(text) for text in event.error]
    return event


_NUMBERS = frozenset((int, float, bool, type(None)))


def has_numbers_only(values: Mapping[str, Any]) -> bool:
    """Return whether all measures are numbers, or columns of numbers; under any name, a number is no secret then."""
    return all(
        value.__class__ in _NUMBERS or (value.__class__ is list and _NUMBERS.issuperset(map(type, value)))
        for value in values.values()
    )


def _mask_measures(name: str, value: Any) -> Any:
    """Redact the texts of a measure, or of a column of measures."""
    if isinstance(value, list):
        return [_mask_measures(name, item) for item in value]
    return value if value.__class__ in _NUMBERS else mask(name, value)


# ---- command lines and addresses


def command_line(arguments: Iterable[str]) -> str:
    """Return a command as a user types it, with secrets redacted.

    After an option with the name of a secret, everything up to the next option is redacted, because the option may take
    several values. So is the program text of `python -c`.
    """
    argv = list(arguments)
    words: list[str] = []
    option = ""
    program = _program_index(argv)
    for index, argument in enumerate(argv[:MAX_ARGUMENTS]):
        is_value = bool(option) and not _NEXT_OPTION.fullmatch(argument)
        if index == program or (is_value and _is_secret_value(option, argument)):
            words.append(REDACTED)
            continue
        if not is_value:
            option = argument if _OPTION.fullmatch(argument) else ""
        words.append(_redact_argument(argv[:index], argument))
    more = f" … and {len(argv) - MAX_ARGUMENTS} more" if len(argv) > MAX_ARGUMENTS else ""
    return " ".join(map(_quote, words)) + more


def _is_secret_value(option: str, argument: str) -> bool:
    """Return whether the value of an option is a secret."""
    if not is_enabled():
        return False
    is_weak = option in ("-p", "-P", "-w") or strength_of(option) == "weak"
    return is_secret(option) or (is_weak and is_opaque(argument))


def _redact_argument(before: list[str], argument: str) -> str:
    if not is_enabled():
        return argument
    for secret in _environment_secrets():
        argument = argument.replace(secret, REDACTED)
    if len(argument) > MAX_ARGUMENT_CHARS:
        argument = argument[:MAX_ARGUMENT_CHARS] + "…"
    return _redact_in_context(before, argument)


def _redact_in_context(before: list[str], argument: str) -> str:
    """Redact an argument, with the ones before it, which may say what it is: `sshpass -p …`, `wandb login …`."""
    context = " ".join(word[:MAX_CONTEXT_CHARS] for word in before[-MAX_CONTEXT_WORDS:])
    if context and _may_have_names(f"{context} "):
        start = f"{redact_text(context)} "
        text = redact_text(f"{context} {argument}")
        if text.startswith(start):
            return text[len(start) :]
    return redact_text(argument)


def address(url: str) -> str:
    """Return an address without user, password and query. The user of an ssh address is not a secret and stays."""
    url = url.partition("?")[0]
    if not re.match(r"(?:ssh|git\+ssh)://[^\s/:@]+@", url):
        url = _BARE_USER.sub("", _USER.sub(r"\1", url))
    for secret in _environment_secrets():
        url = url.replace(secret, REDACTED)
    return redact_shapes(url, REDACTED)


def _environment_secrets() -> list[str]:
    """Return the values of environment variables with the name of a secret, longest first, in order to redact them."""
    global _known_secrets
    if not is_enabled():
        return []
    variables = getattr(os.environ, "_data", None)  # `os.environ` decodes each variable whenever one looks at it
    previous, secrets = _known_secrets
    if variables is None or variables != previous:
        secrets = _read_environment_secrets()
        _known_secrets = dict(variables or {}), secrets
    return secrets


_known_secrets: tuple[dict[Any, Any] | None, list[str]] = None, []
"""The environment at the last look, and the secrets in it: every text that is recorded is compared with them."""


def _read_environment_secrets() -> list[str]:
    secrets = {os.environ[name] for name in os.environ if strength_of(name) in ("token", "phrase")}
    secrets -= {os.environ.get("PWD", ""), os.environ.get("OLDPWD", "")}
    return sorted((secret for secret in secrets if len(secret) >= 8 and secret[0] != "/"), key=len, reverse=True)


def _program_index(argv: list[str]) -> int | None:
    """Return the index of the program text of `python -c`; None if there is none."""
    index = 1
    while index < len(argv) and re.match(r"-[^-]|--check", argv[index]):
        option = argv[index]
        if match := re.match(r"-[bBdEiIOPqRsSuvx]*c(.?)", option, re.S):
            return index if match[1] else index + 1
        index += 2 if option in ("-W", "-X", "--check-hash-based-pycs") else 1
    return None


def _quote(argument: str) -> str:
    return argument if REDACTED in argument and re.fullmatch(r"[\w@%+=:,./*\-]+", argument) else shlex.quote(argument)
