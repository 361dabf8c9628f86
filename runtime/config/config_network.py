"""The keys that say which URLs may be opened, and how pages are fetched: a part of `config_models.py`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from leeward.security.filters import HARD_BOUND

from .narrowing import LOWER, MORE, NARROWER_HOSTS, STAYS_ON
from .types import HostPattern, KnownPlace, ListedHost, Network, PathText, Section, ToolName, zero_means

__all__ = ["Fetch", "UrlGrounding"]

_BODY_DEFAULT = 100 * 1024


class UrlGrounding(Section):
    """Only URLs you gave are opened."""

    enabled: Annotated[
        bool, Field(description="Refuse URLs that you did not give. Off is said in every record."), STAYS_ON
    ] = True
    guarded_tools: Annotated[
        tuple[ToolName, ...],
        Field(
            strict=False,
            description="Tools whose texts are all read as URLs, beside those whose names end in _fetch.",
        ),
        MORE,
    ] = ("fetch", "web_scrape")
    urls: Annotated[
        tuple[KnownPlace, ...],
        Field(strict=False, description="URLs and mail addresses that count as given by you, always."),
    ] = ()
    search_tools: Annotated[
        tuple[ToolName, ...],
        Field(strict=False, description="Tools whose results may be opened, each exactly as found."),
    ] = ()


class Fetch(Section):
    """Pages."""

    timeout: Annotated[float, Field(gt=0, le=3600, description="Seconds a page may take."), LOWER] = 20.0
    max_body_bytes: Annotated[
        int,
        Field(
            ge=0,
            le=HARD_BOUND,
            description=f"Bytes kept of a page; 0 is the default, {_BODY_DEFAULT}.",
        ),
        zero_means(_BODY_DEFAULT),
        LOWER,
    ] = _BODY_DEFAULT
    allow_networks: Annotated[
        tuple[Network, ...],
        Field(strict=False, description="Networks that may be reached although they are not public."),
    ] = ()
    domain_allowlist: Annotated[
        tuple[ListedHost, ...],
        Field(strict=False, description="The only hosts that may be reached; without any, all public ones."),
        NARROWER_HOSTS,
    ] = ()
    domain_denylist: Annotated[
        tuple[HostPattern, ...],
        Field(strict=False, description="Hosts that may not be reached, whatever else allows them."),
        MORE,
    ] = ()
    allow_http: Annotated[
        tuple[HostPattern, ...],
        Field(strict=False, description="Hosts that may be spoken to without TLS."),
    ] = ()
    ca_file: Annotated[
        PathText, Field(description="Certificates (PEM) to trust for pages, beside the system's.")
    ] = ""
