"""The types of configuration values, each with a description of what is accepted.

`models.py` says which key is of which type.
"""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import ada_url
from pydantic import AfterValidator, BaseModel, ConfigDict

from leeward.security.url import (
    Url,
    domain_pattern,
    is_address,
    parse_destination,
    parse_url,
    reach_rule,
)

__all__ = [
    "SERVER_NAME",
    "AuthHeader",
    "Expected",
    "Factory",
    "FallbackName",
    "FieldValue",
    "Gathered",
    "HeaderName",
    "HeaderValue",
    "HostPattern",
    "KnownPlace",
    "Level",
    "ListedHost",
    "ModelGlob",
    "ModelId",
    "ModelName",
    "Network",
    "PathText",
    "PluginName",
    "Private",
    "ProviderName",
    "ProxyUrl",
    "QueryName",
    "ReachRule",
    "RequestField",
    "SecretName",
    "Section",
    "ServerName",
    "ServerUrl",
    "ToolGlob",
    "ToolName",
    "TrustName",
    "VariableName",
    "zero_means",
]


class Expected:
    """Metadata of a key: what a good value is, for the sentence "found …, expected …"."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: str = text


class Private:
    """Metadata of a key whose value may hold a secret: it is never quoted."""

    __slots__ = ()


class Gathered:
    """Metadata of a list: the entries of all layers hold together, none replaces another's."""

    __slots__ = ()


class Section(BaseModel):
    """A table of the configuration: frozen, strict about types, without unknown keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


def _is_path(text: str) -> str:
    """Return an absolute path, the home put in for `~`; "" stays, and means that there is none."""
    if text and (not text.startswith(("/", "~/")) or not text.isprintable()):
        raise ValueError("")
    try:
        return str(Path(text).expanduser()) if text else ""
    except RuntimeError:
        raise ValueError("the home folder is not known") from None


def _is_network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        try:
            meant = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError("") from None
        raise ValueError(f"did you mean {meant}?") from None
    return text


def _is_named_host(text: str) -> str:
    pattern = domain_pattern(text)
    if is_address(pattern):
        raise ValueError("addresses are refused while there is a list of hosts")
    return pattern


def _is_known_place(text: str) -> str:
    """Accept what the ledger can know: a URL, a mail address, a repository."""
    if not isinstance(parse_url(text), Url) and parse_destination(text) is None:
        raise ValueError("")
    return text


def _is_address_of_server(text: str) -> str:
    """Accept an http(s) URL without user, query and fragment; a password belongs into no configuration."""
    url = _parsed(text)
    if url.username or url.password:
        raise ValueError("remove the user name and password")
    if url.search or url.hash:
        raise ValueError("remove the query and fragment")
    return text


def _is_proxy(text: str) -> str:
    if text and (_parsed(text).pathname not in {"", "/"}):
        raise ValueError("remove the path")
    return text


def _is_base(text: str) -> str:
    return _is_address_of_server(text) if text else text


def _is_json(value: object) -> object:
    """Accept what JSON can say: TOML has dates and numbers that it has not."""
    try:
        json.dumps(value, allow_nan=False)
    except TypeError:
        raise ValueError("") from None
    return value


def zero_means(number: int) -> AfterValidator:
    """Return the metadata of a whole number whose 0 means another."""
    return AfterValidator(lambda value: value or number)


def _parsed(text: str) -> ada_url.URL:
    try:
        url = ada_url.URL(text)
    except ValueError:
        raise ValueError("") from None
    if url.protocol not in {"http:", "https:"} or not text.isprintable() or text != text.strip():
        raise ValueError("")
    return url


def _matches(pattern: str, expected: str, *, least: int = 1) -> tuple[AfterValidator, Expected]:
    """Return the metadata of a text of one form; an empty text passes where `least` is 0."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if (text or least) and compiled.fullmatch(text) is None:
            raise ValueError("")
        return text

    return AfterValidator(check), Expected(expected)


PathText = Annotated[str, AfterValidator(_is_path), Expected("an absolute path or one that begins with ~/")]
HostPattern = Annotated[
    str, AfterValidator(domain_pattern), Expected("a host such as docs.example.com, or *.example.com")
]
ListedHost = Annotated[
    str, AfterValidator(_is_named_host), Expected("a host such as docs.example.com, or *.example.com")
]
ReachRule = Annotated[
    str,
    AfterValidator(reach_rule),
    Expected("a host such as pages.example.com or *.example.com, for other ports than 443 with :PORT"),
]
KnownPlace = Annotated[
    str, AfterValidator(_is_known_place), Expected("a URL such as https://docs.example.com or a mail address")
]
Network = Annotated[str, AfterValidator(_is_network), Expected("a network such as 10.0.0.0/8")]
ToolName = Annotated[str, *_matches(r"[a-z0-9_]{1,64}", "the name of a tool: a-z, 0-9 and _")]
ToolGlob = Annotated[
    str, *_matches(r"[a-z0-9_*?\[\]!-]{1,64}", "the name of a tool, or a pattern such as * or git_*")
]
TrustName = Annotated[
    str, *_matches(r"(?=.*\S)[ -~]{1,128}", 'the name of a tool, or a source such as "plug-in NAME"')
]
ProviderName = Annotated[str, *_matches(r"[a-z0-9][a-z0-9_-]{0,63}", "a name of a-z, 0-9, - and _")]
SERVER_NAME = r"(?=.{1,24}$)[a-z0-9]+(?:_[a-z0-9]+)*"
ServerName = Annotated[
    str, *_matches(SERVER_NAME, "a name of a-z and 0-9, with single _ between, at most 24 characters")
]
VariableName = Annotated[
    str,
    *_matches(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "the name of a variable, not its value", least=0),
    Private(),
]
SecretName = Annotated[str, *_matches(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "the name of a variable")]
Factory = Annotated[str, *_matches(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", '"package.module:factory"')]
PluginName = Annotated[
    str, *_matches(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", "the name of an installed plug-in")
]
ModelName = Annotated[
    str, *_matches(r"[a-z0-9][a-z0-9_-]*(:\S(.*\S)?)?", '"PROVIDER:NAME", "offline" or ""', least=0)
]
FallbackName = Annotated[str, *_matches(r"[a-z0-9][a-z0-9_-]*(:\S(.*\S)?)?", '"PROVIDER:NAME"')]
ModelGlob = Annotated[
    str, *_matches(r"[!-~](?:[ -~]*[!-~])?", "PROVIDER:NAME, or a pattern such as openai:* or *:NAME-*")
]
ModelId = Annotated[str, *_matches(r"\S(.*\S)?", "the name of a model", least=0)]
ServerUrl = Annotated[
    str,
    AfterValidator(_is_base),
    Expected("an http or https URL such as https://host/v1"),
    Private(),
]
ProxyUrl = Annotated[str, AfterValidator(_is_proxy), Expected("a URL such as http://host:3128"), Private()]
AuthHeader = Annotated[
    str, *_matches(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", "the name of a header, such as api-key", least=0)
]
HeaderName = Annotated[
    str,
    *_matches(
        r"(?i)(?!(?:(?:proxy-)?authorization|(?:x-)?(?:goog-)?api-key|cookie|host|connection"
        r"|(?:content|transfer|accept)-(?:length|type|encoding))$)[a-z0-9][a-z0-9-]{0,63}",
        "the name of a header, but of none that carries a key or says how a body is sent",
    ),
]
HeaderValue = Annotated[str, *_matches(r"[ -~]{1,1024}", "printable ASCII text"), Private()]
QueryName = Annotated[
    str,
    *_matches(
        r"(?i)(?!(?:\w+[_-])?(?:api[_-]?)?(?:key|token|secret|password|passwd)$)[a-z0-9][a-z0-9_.-]{0,63}",
        "the name of a parameter, but of none that carries a key",
    ),
]
RequestField = Annotated[
    str,
    *_matches(
        r"(?!(?:model|messages|system|tools|stream|stream_options)$)[a-z][A-Za-z0-9_]{0,63}",
        "the name of a field that Leeward does not fill in itself",
    ),
]
FieldValue = Annotated[Any, AfterValidator(_is_json), Expected("any value that JSON has, too")]
Level = Literal["trusted", "verified", "quarantined", "blocked"]
