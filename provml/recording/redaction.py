"""Redact secrets in command lines, addresses, parameters and texts, by name and by the shape of keys."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import lru_cache
from numbers import Number
from typing import Any

REDACTED = "***"
MAX_ARGUMENTS = 1000
"""Number of arguments of a command line that are recorded: a shell may expand a pattern to 20,000 files."""
MAX_ARGUMENT_CHARS = 2000

_ALLOWED = re.compile(
    r"tokeni[sz](?:er|ed|e|ation|ing)"
    r"|(?<![a-z])(?:max|min|num|n)(?:[-_.]?new)?[-_.]?tokens|(?<![a-z])(?:pad|eos|bos|unk|sep|cls|mask)[-_]?token"
    r"|(?<![a-z])(?:special|start|end|stop|image)[-_]?tokens?(?![a-z])|(?<![a-z])tokens[-_]per"
    r"|(?<![a-z])token[-_](?:pattern|dim|size|count|ids?|type|len|length|index|dropout|level|mixing|embedding)(?![a-z])"
    r"|(?<![a-z])key(?:points?|words?|frames?|board)|(?<![a-z])key[-_](?:dim|shape|padding|value[-_]heads)"
    r"|(?<![a-z])(?:key|token|auth)error"
    r"|(?<![a-z])authors?(?![a-z])|(?<![a-z])monkey"
)
"""Parts of hyperparameter names that look like secrets; removed from a name before it is checked."""
_SECRET = re.compile(
    r"token|passw|passphrase|pwd|secret|key|credential|creds|auth|signature"
    r"|(?<![a-z])(?:pass|pat|sig|sas|otp|jwt|bearer|cookie)(?![a-z])"
)
_SECRET_NUMBER = re.compile(r"passw|passphrase|pwd|secret|cred|auth|(?:api|access)[-_.]?(?:key|token)")
"""Names under which even a number is a secret; a number under another name, such as `tokens`, counts something."""
_ASSIGNED = re.compile(r"""(?<![\w.\-])([\w.\-]+)["'\]\\]*(?:\s*([=:]|%3[AaDd])|[\s,]+)""")
_OPTION = re.compile(r"--?[A-Za-z][\w.\-]*")
_NEXT_OPTION = re.compile(r"--(?:[A-Za-z].*)?|-[A-Za-z]", re.S)
_USER = re.compile(r"([A-Za-z][\w+.\-]*://)(?:[^\s/:@]*:(?!\d{1,5}(?:[/\s]|$)).*@|[^\s/@]+@)")
_URL = re.compile(r"[A-Za-z][\w+.\-]+:|[^\s/:@=]+:[^\s/]+@")
_BARE_USER = re.compile(r"(?<![\w/.@\-])[^\s/:@=]+:(?!//|\d{1,5}/)\S+@(?!sha256:)(?=[\w\[])")
_QUERY = re.compile(r"""([?&]([\w.\-]+)=)[^&#\s"'<>]+""")
_LOGIN = re.compile(r"(?<![\w\-])(-u|--?(?:user|userpwd|login))([\s=]+)([^\s:/=]+:)(?!\d{1,5}(?:\s|$))\S+")
"""The user and password of programs such as curl."""
_REPORTED = re.compile(r"(?i)(\b(?:api[ _\-]?key|access[ _\-]?key|password|passphrase|secret)\b[\w ]{1,20}:\s*)\S.*")
"""A secret in a sentence of an error: "Incorrect API key provided: …"."""
_SHAPE = re.compile(
    r"-----BEGIN .*|(?<=hooks\.slack\.com/services/)\S+|(?<=discord\.com/api/webhooks/)\S+|(?i:bearer)\s+\S+"
    r"|(?<![A-Za-z0-9])(?:(?:hf_|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|AIza|ya29\."
    r"|npm_|pypi-|nvapi-|dop_v1_|eyJ)[\w.\-]{12,}|sk-[\w\-]{20,}|A[KS]IA[A-Z0-9]{12,})", re.S,
)  # fmt: skip
"""Keys of well-known services."""


def command_line(arguments: Iterable[str]) -> str:
    """Return a command as a user types it, with secrets redacted.

    After an option with the name of a secret, everything up to the next option is redacted, because the option may take
    several values. So is the program text of `python -c`.
    """
    argv = list(arguments)
    secrets = _environment_secrets()
    words: list[str] = []
    is_secret_value = False
    program = _program_index(argv)
    for index, argument in enumerate(argv[:MAX_ARGUMENTS]):
        if index == program or (is_secret_value and not _NEXT_OPTION.fullmatch(argument)):
            words.append(REDACTED)
            continue
        is_secret_value = _is_secret_option(argument)
        login = _LOGIN.fullmatch(f"{argv[index - 1]} {argument}") if index else None
        words.append(login[3] + REDACTED if login is not None else _redact_text(argument, secrets))
    more = f" … and {len(argv) - MAX_ARGUMENTS} more" if len(argv) > MAX_ARGUMENTS else ""
    return " ".join(map(_quote, words)) + more


def address(url: str) -> str:
    """Return an address without user, password and query. The user of an ssh address is not a secret and stays."""
    url = url.partition("?")[0]
    if not re.match(r"(?:ssh|git\+ssh)://[^\s/:@]+@", url):
        url = _BARE_USER.sub("", _USER.sub(r"\1", url))
    for secret in _environment_secrets():
        url = url.replace(secret, REDACTED)
    return _SHAPE.sub(REDACTED, url)


def redact_text(text: str) -> str:
    """Return a text of any length with secrets redacted: in a URL the value, elsewhere the rest of the line."""
    for secret in _environment_secrets():
        text = text.replace(secret, REDACTED)
    if any(mark in text for mark in ("=", ":", "@", "--", "%3")):
        text = "".join(_redact_line(line) for line in text.splitlines(keepends=True))
    return _SHAPE.sub(REDACTED, text)


def redact_url(source: str) -> str:
    """Return a URL with user, password, and secrets in the query redacted. A path of the file system is unchanged."""
    return redact_text(source) if _URL.match(source) else source


def mask(name: str, value: Any) -> Any:
    """Return the value of a parameter: redacted if its name is that of a secret, else with redacted texts in it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Number):
        return REDACTED if is_secret(name) and _SECRET_NUMBER.search(name.lower()) else value
    if isinstance(value, Mapping):
        return {key: mask(f"{name}.{key}" if is_secret(name) else str(key), item) for key, item in value.items()}
    if is_secret(name):
        return REDACTED
    if isinstance(value, str):
        text = redact_text(value)
        return value if str.__eq__(value, text) else text  # a subclass may compare a language, too
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(_mask_items(list(value)))
    return value


def _mask_items(items: list[Any]) -> list[Any]:
    """Mask the items of a list: also the value after an option, and the second of a name and a value."""
    if len(items) == 2 and isinstance(items[0], str) and _SECRET_NUMBER.search(items[0].lower()):
        return [items[0], mask(items[0], items[1])]
    masked: list[Any] = []
    for item, previous in zip(items, [None, *items], strict=False):
        is_value = _is_secret_option(previous) and not _NEXT_OPTION.fullmatch(str(item))
        masked.append(REDACTED if is_value else mask("", item))
    return masked


def _is_secret_option(argument: Any) -> bool:
    return isinstance(argument, str) and _OPTION.fullmatch(argument) is not None and is_secret(argument)


def redact_urls(value: Any) -> Any:
    """Return plain data with the URLs in it redacted. Names do not matter: a workflow has no values of parameters."""
    if isinstance(value, dict):
        return {name: redact_urls(item) for name, item in value.items()}
    if isinstance(value, list):
        return [redact_urls(item) for item in value]
    return redact_url(value) if isinstance(value, str) else value


@lru_cache(4096)
def is_secret(name: str) -> bool:
    """Return whether a value with this name may be a secret."""
    return _SECRET.search(_ALLOWED.sub("", name.lower())) is not None


def redact(value: Any) -> Any:
    """Return a value without items that have the name of a secret, also in mappings and lists inside it."""
    if isinstance(value, Mapping):
        return {name: redact(item) for name, item in value.items() if not is_secret(str(name))}
    if type(value) in (list, tuple):
        return type(value)(redact(item) for item in value)
    return value


def _environment_secrets() -> list[str]:
    """Return the values of environment variables with the name of a secret, longest first, in order to redact them."""
    names = [name for name in os.environ if is_secret(name) and name not in ("PWD", "OLDPWD")]
    return sorted((os.environ[name] for name in names if len(os.environ[name]) >= 8), key=len, reverse=True)


def _redact_text(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    if len(text) > MAX_ARGUMENT_CHARS:
        text = text[:MAX_ARGUMENT_CHARS] + "…"
    return _SHAPE.sub(REDACTED, _redact_users(_redact_assigned(_redact_logins(text))))


def _redact_line(line: str) -> str:
    content = line.rstrip("\r\n")
    text = _QUERY.sub(lambda match: match[1] + REDACTED if is_secret(match[2]) else match[0], content)
    text = _REPORTED.sub(rf"\1{REDACTED}", _redact_logins(text))
    text = _redact_assigned(text)
    if "@" in text:
        pieces = (text[start : start + MAX_ARGUMENT_CHARS] for start in range(0, len(text), MAX_ARGUMENT_CHARS))
        text = "".join(map(_redact_users, pieces))  # in pieces, because the search takes quadratic time
    return text + line[len(content) :]


def _redact_assigned(text: str) -> str:
    """Redact what follows the name of a secret to the end of the text, because the end of the value is unknown."""
    for match in _ASSIGNED.finditer(text):
        value = text[match.end() :]
        is_redacted = not value or value.lstrip(" \"'").startswith(REDACTED)
        if is_secret(match[1]) and (match[2] or match[1].startswith("-")) and not is_redacted:
            return text[: match.end()] + REDACTED
    return text


def _redact_logins(text: str) -> str:
    return _LOGIN.sub(rf"\1\2\3{REDACTED}", text)


def _redact_users(text: str) -> str:
    return _BARE_USER.sub(f"{REDACTED}@", _USER.sub(rf"\1{REDACTED}@", text))


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
