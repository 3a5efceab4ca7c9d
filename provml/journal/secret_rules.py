"""Rules that recognize secrets: by the name of a value, by the shape of the value, and by both together.

docs/decisions/secret-rules.md says why these rules are part of provml.
"""

from __future__ import annotations

import base64
import os
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from typing import Literal

MAX_OPAQUE_CHARS = 512
"""A longer value under an ambiguous name is not a key."""
Strength = Literal["", "weak", "token", "phrase"]
"""What a name says about its value.

phrase   a secret, which may contain spaces and may be a number: a password
token    a secret without spaces; a number under this name counts something: `tokens=512`
weak     a secret only if the value looks like a key: `sort_key="date"` is none
"""

_WORD = re.compile(r"[^\W\d_]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_PHRASES = _words(
    """
    password passwd passphrase passcode passkey passwort kennwort senha contraseña contrasena passe pwd passwords secret
    secrets credential credentials creds cred auth authorization cookie cookies userpwd
    """
)
_PHRASE_ENDS = ("password", "passwd", "passphrase", "secret", "credentials", "pwd")
"""Ends of words that are written together: `dbpassword`."""
_NO_PASSWORDS = _words(
    """
    forward backward low high band first second single multi by all full one two n
    """
)
"""Words before `pass` that make it a pass over data."""
_TOKENS = _words(
    """
    token jwt bearer otp totp apikey accesskey secretkey privatekey authkey authtoken
    """
)
_TEXT_TOKENS = _words(
    """
    pad eos bos unk sep cls mask special start end stop begin image img audio video class register prompt
    prefix suffix context input output target source next prev previous first last new extra additional vocab
    word sub subword byte char patch visual text decoder encoder forced separator think reasoning tool system
    response instruction blank oov empty latent query memory mem global cached generated completion max min
    num n total avg mean label time
    """
)
"""Words before `token` that make it a part of a text."""
_KEY_OWNERS = _words(
    """
    api access secret private signing encryption decryption account shared storage ssh auth master service
    license subscription consumer webhook deploy hmac aes rsa ssl tls client admin root session security wandb
    openai anthropic claude hf huggingface comet neptune google gcp gemini azure aws github gitlab stripe
    sendgrid twilio datadog dd pinecone cohere mistral replicate groq deepseek together kaggle langsmith
    langchain tavily serp weaviate qdrant minio clearml dagshub sentry mailgun mapbox algolia notion airtable
    nvidia ngc databricks elevenlabs voyage app application
    """
)
"""Words before `key` that make it a secret."""
_WEAK = (
    _words(
        """
    token tokens key keys signature sig sas pat pass pw hmac jwt otp
    """
    )
    | _PHRASES
)
_HARMLESS_ENDS = _words(
    """
    count counts dim dims size sizes len length lengths ids type types kind rounds round dropout index level
    mixing embedding embeddings pattern shape shapes padding head heads layer layers proj projection bias prob
    field fields policy min max limit rate ratio loss accuracy weight weights name names enabled required
    expiry expires ttl lifetime timeout endpoint host port provider method scheme algorithm version number
    rotation strength error errors
    """
)
"""Last words of names that describe a secret, or count tokens."""
_QUERY_NAMES = frozenset(["sig", "signature", "sas", "hmac"])
"""Parameters of a signed URL."""
_DIRECTORIES = frozenset({"PWD", "OLDPWD", "pwd", "oldpwd", "INIT_CWD"})


def strength_of(name: str) -> Strength:
    """Return what a name says about its value. Variables of the environment add and remove names."""
    return _strength(name, os.environ.get("PROVML_SECRET_NAMES", ""), os.environ.get("PROVML_NOT_SECRET_NAMES", ""))


@lru_cache(8192)
def _strength(name: str, secret_names: str, other_names: str) -> Strength:
    if _matches(name, other_names):
        return ""
    if _matches(name, secret_names):
        return "phrase"
    words = [word.lower() for word in _WORD.findall(_CAMEL.sub("_", name[-200:]))]
    if not words:
        return ""
    *before, last = words
    pairs = {f"{first} {second}" for first, second in pairwise(words)}
    if pairs & {"access key", "secret access"} and last in ("id", "key"):
        return "token"
    if last in _HARMLESS_ENDS:
        return ""
    return _strength_of_last(last, before) or ("weak" if not _WEAK.isdisjoint(words) else "")


def _strength_of_last(last: str, before: list[str]) -> Strength:
    """Return what the last word of a name says, with the words before it."""
    owner = before[-1] if before else ""
    if last in _PHRASES or last.endswith(_PHRASE_ENDS):
        return "phrase"
    if last == "pass" and owner not in _NO_PASSWORDS:
        return "phrase" if owner else "token"  # `pass=2` is a pass over data
    if last in _TOKENS or (last.endswith("token") and len(last) <= 16):
        return "weak" if owner in _TEXT_TOKENS else "token"
    if last in ("key", "keys") and owner in _KEY_OWNERS:
        return "token"
    return "token" if last.endswith("apikey") else ""


def _matches(name: str, patterns: str) -> bool:
    return bool(patterns) and any(
        fnmatchcase(name.lower(), pattern.strip().lower()) for pattern in patterns.split(",") if pattern.strip()
    )


def is_secret_pair(name: str, value: str, *, in_query: bool = False) -> bool:
    """Return whether a text with this name is a secret. In the query of a URL, signatures are secrets, too."""
    if _PLACEHOLDER.fullmatch(value):
        return False
    strength = strength_of(name)
    if name in _DIRECTORIES and value[:1] in ("/", "~"):
        return False
    if strength == "weak":
        if in_query:
            words = [word.lower() for word in _WORD.findall(_CAMEL.sub("_", name))]
            return words[-1] in _QUERY_NAMES or is_opaque(value) or len(value) >= 32
        return is_opaque(value)
    return bool(strength) or (in_query and name.lower() in ("code", "ticket") and is_opaque(value))


_PLACEHOLDER = re.compile(
    r"(?i)|\*+|none|null|nil|true|false|yes|no|auto|unset|required|optional|missing|invalid|incorrect|empty|hidden"
    r"|<[\w |/\-]{1,40}>|\[[A-Za-z]{1,12}\]"
    r"|\$\{[^{}]{1,200}\}|(?-i:\$[A-Z_][A-Z0-9_]*)"
    r"|%[A-Z_]+%|\{\{.{1,200}\}\}|\{[a-z_]*\}|[|>][+\-\d]{0,2}"
)
"""Values that stand for a secret, or for none."""
_WORDLIKE = re.compile(r"[^\W\d_]*\d{0,4}|\d+[^\W\d_]{0,3}|(?:v|V|x|X)?\d+(?:[a-zA-Z]\d+)*")
_SEPARATORS = re.compile(r"[-_/.:,+=@~ ]+")
_CODE = re.compile(r"[()\[\]{}<>]")
"""Characters of a program text, such as `key=jax.random.key(42)`, that keys do not have."""
_SHORT_HASH = re.compile("[0-9a-f]{6,16}")
_HASH = re.compile(r"(?i)(?:[a-z0-9\-]{2,10}[:\-])?(?:[0-9a-f]{32,128}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def is_opaque(value: str) -> bool:
    """Return whether a text looks like a key: not like words, numbers, a path, a hash or a UUID."""
    if not 8 <= len(value) <= MAX_OPAQUE_CHARS or any(char.isspace() for char in value) or _HASH.fullmatch(value):
        return False
    if value.startswith(("/", "./", "../", "~/")) or "://" in value or _CODE.search(value):
        return False
    segments = _SEPARATORS.split(value)
    if any(len(segment) > 2 and segment.isalpha() for segment in segments):  # a name with a short digest
        segments = [segment for segment in segments if not _SHORT_HASH.fullmatch(segment)]
    return any(map(_is_opaque_segment, segments))


def may_be_key(value: str) -> bool:
    """Return whether a text looks like a key; some keys look like a digest."""
    return is_opaque(value) or _HASH.fullmatch(value) is not None


def _is_opaque_segment(segment: str) -> bool:
    if len(segment) < 6:
        return False
    if _WORDLIKE.fullmatch(segment):
        changes = sum(a.islower() and b.isupper() for a, b in pairwise(segment))
        return len(segment) >= 20 and changes >= 4
    return True


SHAPES = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|(?s:PuTTY-User-Key-File-\d:.*?(?:Private-MAC: \S+|\Z))"
    r"|(?<=hooks\.slack\.com/services/)\S+|(?<=hooks\.slack\.com/workflows/)\S+"
    r"|(?<=discord\.com/api/webhooks/)\S+|(?<=discordapp\.com/api/webhooks/)\S+"
    r"|(?<=webhook\.office\.com/)\S+|(?<=hooks\.zapier\.com/hooks/catch/)\S+|(?<=api\.telegram\.org/bot)[\w:\-]+"
    r"|(?i:(?<![\w\-])bearer\s+(?!tokens?\b|auth\w*\b|of\b|is\b|format\b|scheme\b|header\b)[\w.~+/=\-]{6,})"
    r"|(?<![A-Za-z0-9_])(?:"
    r"hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{20,}"
    r"|gh[opsur]_[A-Za-z0-9]{12,}|github_pat_\w{12,}|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt)-[\w\-]{12,}"
    r"|xox[abceoprs](?:\.[\w\-]+)?-[\w\-]{10,}|xapp-\d-[\w\-]{10,}"
    r"|A(?:KI|SI|BI|CC)A[A-Z0-9]{12,}|AIza[\w\-]{30,}|ya29\.[\w\-]{12,}|GOCSPX-[\w\-]{16,}|1//0[\w\-]{20,}"
    r"|sk-(?:proj|svcacct|admin|ant|or|lf|None)-[\w\-]{16,}|sk-[A-Za-z0-9]{20,}"
    r"|npm_[A-Za-z0-9]{24,}|pypi-(?:Ag[\w\-]{12,}|[A-Za-z0-9_]{24,})|nvapi-[\w\-]{20,}|do[opr]_v1_[a-f0-9]{20,}"
    r"|eyJ[\w\-]{4,}\.[\w\-]{4,}(?:\.[\w\-+/=]*){1,3}|eyJ(?:hdXRo|hcGlf|rIjoi)[A-Za-z0-9+/=_\-]{8,}"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{12,}|whsec_[A-Za-z0-9+/=]{16,}|SG\.[\w\-]{16,}\.[\w\-]{16,}"
    r"|SK[0-9a-f]{32}(?![0-9a-f])|key-[0-9a-f]{32}(?![0-9a-f])|[0-9a-f]{32}-us\d{1,2}(?!\w)"
    r"|\d{8,10}:AA[\w\-]{30,}"
    r"|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{20,}|dapi[0-9a-f]{32}(?:-\d)?|lin_api_[A-Za-z0-9]{20,}|ntn_[A-Za-z0-9]{20,}"
    r"|secret_[A-Za-z0-9]{40,}|dp\.(?:pt|st|ct|sa)\.[\w\-.]{20,}|hv[sbr]\.[\w\-]{20,}|[A-Za-z0-9]{14}\.atlasv1\.[\w\-]{20,}"
    r"|gl(?:sa|c)_[\w=+/]{20,}|NRAK-[A-Z0-9]{20,}|ph[cxs]_[A-Za-z0-9]{30,}|sntry[su]_[\w=+/\-]{20,}"
    r"|r8_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|tgp_v1_[\w\-]{16,}|pcsk_\w{20,}"
    r"|lsv2_(?:pt|sk)_\w{16,}|fw_[A-Za-z0-9]{20,}|KGAT_[A-Za-z0-9]{16,}|sbp_[a-f0-9]{20,}|wandb_v\d_\w{16,}"
    r"|pscale_(?:pw|tkn|oauth)_[\w.=\-]{16,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}|[\w~.]{3}\dQ~[\w~.\-]{31,34}"
    r"|AT(?:ATT|CTT|BB)[A-Za-z0-9][\w\-=]{16,}|figd_[\w\-]{20,}|HRKU-[\w\-]{20,}|rubygems_[a-f0-9]{20,}|dckr_[op]at_[\w\-]{16,}"
    r"|CCIPAT_\w{20,}|bkua_[a-z0-9]{20,}|nfp_[A-Za-z0-9]{20,}|FlyV1 fm\d_\S{16,}"
    r"|sl\.(?:u\.)?[\w\-]{80,}|ops_eyJ[\w\-]{40,}"
    r"|\$(?:2[abxy]|[156y]|apr1|argon2(?:id|i|d))\$[\w./$=,+\-]{20,}"
    r")", re.S,
)  # fmt: skip
"""Keys of well-known services, private keys, and addresses that are secrets themselves."""
_SHAPE_HINTS = _words(
    """
    PRIVATE PuTTY slack discord office zapier telegram earer EARER hf_ api_org_ ghp_ gho_ ghs_ ghu_ ghr_
    github_pat_ glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- xox xapp- AKIA ASIA ABIA
    ACCA AIza ya29. GOCSPX- 1//0 sk- npm_ pypi- nvapi- dop_v1_ doo_v1_ dor_v1_ eyJ sk_ rk_ whsec_ SG. SK key-
    -us :AA shp dapi lin_api_ ntn_ secret_ dp. hvs. hvb. hvr. atlasv1 glsa_ glc_ NRAK- phc_ phx_ phs_ sntry r8_
    gsk_ xai- pplx- tgp_v1_ pcsk_ lsv2_ fw_ KGAT_ sbp_ wandb_v pscale_ AGE- Q~ ATATT ATCTT ATBB figd_ HRKU-
    rubygems_ dckr_ CCIPAT_ bkua_ nfp_ FlyV1 sl. $2a$ $2b$ $2x$ $2y$ $1$ $5$ $6$ $y$ $apr1$ $argon2
    """
)
"""Parts of what `SHAPES` looks for, one of which a text has to have: this search is five times as fast."""
_DISCORD = re.compile(r"(?<![A-Za-z0-9_])[MNO][\w\-]{23,27}\.[\w\-]{6}\.[\w\-]{27,}")
_BASIC = re.compile(r"(?i)(?<![\w\-])(basic\s+)([A-Za-z0-9+/]{6,2000}={0,2})(?![A-Za-z0-9+/=])")


def redact_shapes(text: str, replacement: str) -> str:
    """Return a text in which whatever has the shape of a secret is replaced."""
    if "asic" in text or "ASIC" in text:
        text = _BASIC.sub(lambda match: match[1] + (replacement if _is_login(match[2]) else match[2]), text)
    if any(hint in text for hint in _SHAPE_HINTS):
        text = SHAPES.sub(replacement, text)
    return _DISCORD.sub(replacement, text) if text.count(".") >= 2 else text


def _is_login(encoded: str) -> bool:
    """Return whether a text is `user:password` in Base64, as in a header."""
    try:
        decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
    except ValueError:
        return False
    return ":" in decoded and decoded.isprintable()
