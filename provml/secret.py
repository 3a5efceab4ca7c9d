"""What may be secret: told by its name or its shape, and hidden in command lines, addresses and parameters."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "***"
LONGEST = 2000
MOST = 1000
"""Of a command line so many arguments are kept, and of each so many characters: a shell may spread 20,000 files."""

_HARMLESS = re.compile(
    r"tokeni[sz](?:er|ed|e|ation|ing)"
    r"|(?<![a-z])(?:max|min|num|n)(?:[-_.]?new)?[-_.]?tokens|(?<![a-z])(?:pad|eos|bos|unk|sep|cls|mask)[-_]?token"
    r"|(?<![a-z])token[-_](?:pattern|dim|size|count)"
    r"|(?<![a-z])key(?:points?|words?|frames?|board)|(?<![a-z])key[-_](?:dim|value[-_]heads)"
    r"|(?<![a-z])authors?(?![a-z])|(?<![a-z])monkey"
)
"""What sounds like a secret and is a hyperparameter; taken out of a name before it is judged."""
_SECRET = re.compile(
    r"token|passw|passphrase|pwd|secret|key|credential|creds|auth|signature"
    r"|(?<![a-z])(?:pass|pat|sig|jwt|bearer|cookie)(?![a-z])"
)
_ASSIGNED = re.compile(r"""(?<![\w.\-])([\w.\-]+)["'\]\\]*(?:\s*([=:]|%3[AaDd])|[\s,]+)""")
_OPTION = re.compile(r"--?[A-Za-z][\w.\-]*")
_NEXT_OPTION = re.compile(r"--(?:[A-Za-z].*)?|-[A-Za-z]", re.S)
_USER = re.compile(r"([A-Za-z][\w+.\-]*://)(?:[^\s/:@]*:(?!\d{1,5}(?:[/\s]|$)).*@|[^\s/@]+@)")
_BARE_USER = re.compile(r"(?<![\w/.@\-])[^\s/:@=]+:(?!//|\d{1,5}/)\S+@(?!sha256:)(?=[\w\[])")
_SHAPE = re.compile(
    r"-----BEGIN .*|(?i:bearer)\s+\S+|(?<![A-Za-z0-9])(?:(?:hf_|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|AIza|ya29\."
    r"|npm_|pypi-|nvapi-|dop_v1_|eyJ)[\w.\-]{12,}|sk-[\w\-]{20,}|A[KS]IA[A-Z0-9]{12,})", re.S,
)  # fmt: skip
"""What the keys of well-known services look like."""


def command_line(arguments: Iterable[str]) -> str:
    """A command as one would type it, with what may be secret hidden.

    After an option of a telling name all is hidden up to the next option, since it may take several values; so is the
    program text of `python -c`.
    """
    given = list(arguments)
    ours = _secrets()
    shown: list[str] = []
    hiding = False
    program = _program(given)
    for number, argument in enumerate(given[:MOST]):
        if number == program or (hiding and not _NEXT_OPTION.fullmatch(argument)):
            shown.append(HIDDEN)
            continue
        hiding = _OPTION.fullmatch(argument) is not None and is_secret(argument)
        shown.append(_hide(argument, ours))
    more = f" … and {len(given) - MOST} more" if len(given) > MOST else ""
    return " ".join(map(_quote, shown)) + more


def address(url: str) -> str:
    """An address without user, password and query; the bare user of an ssh address is no secret and stays."""
    url = url.partition("?")[0]
    if not re.match(r"(?:ssh|git\+ssh)://[^\s/:@]+@", url):
        url = _BARE_USER.sub("", _USER.sub(r"\1", url))
    for secret in _secrets():
        url = url.replace(secret, HIDDEN)
    return _SHAPE.sub(HIDDEN, url)


def is_secret(name: str) -> bool:
    """Whether what goes by a name may be secret."""
    return _SECRET.search(_HARMLESS.sub("", name.lower())) is not None


def without_secrets(said: Any) -> Any:
    """The same without what goes by the name of a secret, in mappings and lists inside it as well."""
    if isinstance(said, Mapping):
        return {name: without_secrets(value) for name, value in said.items() if not is_secret(str(name))}
    if type(said) in (list, tuple):
        return type(said)(without_secrets(one) for one in said)
    return said


def _secrets() -> list[str]:
    """Values that the environment holds under a telling name, the longest first: read so as to be hidden."""
    telling = [name for name in os.environ if is_secret(name) and name not in ("PWD", "OLDPWD")]
    return sorted((os.environ[name] for name in telling if len(os.environ[name]) >= 8), key=len, reverse=True)


def _hide(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    if len(text) > LONGEST:
        text = text[:LONGEST] + "…"
    for found in _ASSIGNED.finditer(text):
        if is_secret(found[1]) and (found[2] or found[1].startswith("-")) and found.end() < len(text):
            text = text[: found.end()] + HIDDEN  # to the end, for who knows where the value ends
            break
    text = _BARE_USER.sub(f"{HIDDEN}@", _USER.sub(rf"\1{HIDDEN}@", text))
    return _SHAPE.sub(HIDDEN, text)


def _program(arguments: list[str]) -> int | None:
    """Where the text of `python -c` is, if there is one."""
    number = 1
    while number < len(arguments) and re.match(r"-[^-]|--check", arguments[number]):
        option = arguments[number]
        if found := re.match(r"-[bBdEiIOPqRsSuvx]*c(.?)", option, re.S):
            return number if found[1] else number + 1
        number += 2 if option in ("-W", "-X", "--check-hash-based-pycs") else 1
    return None


def _quote(argument: str) -> str:
    return argument if HIDDEN in argument and re.fullmatch(r"[\w@%+=:,./*\-]+", argument) else shlex.quote(argument)
