"""URLs: the one parser, the hosts that may be reached, and the ledger of known URLs."""

from .destination import Destination, DestinationKind, destinations_given, destinations_in, parse_destination
from .extract import is_host_like, suspects_in, urls_given, urls_hinted, urls_in
from .fingerprints import Fingerprints, fingerprints_in, percent_decoded
from .hosts import (
    covers_domain,
    domain_pattern,
    host_facts,
    host_warning,
    in_domains,
    is_address,
    judge_address,
    judge_host,
    listed_problem,
)
from .ledger import Grounding, Known, Ledger, Provenance, parse_place
from .parse import MAX_BYTES, Url, join_url, parse_url, same_site
from .pattern import url_pattern, url_problem
from .reach import is_reached, reach_of_url, reach_rule

__all__ = [
    "MAX_BYTES",
    "Destination",
    "DestinationKind",
    "Fingerprints",
    "Grounding",
    "Known",
    "Ledger",
    "Provenance",
    "Url",
    "covers_domain",
    "destinations_given",
    "destinations_in",
    "domain_pattern",
    "fingerprints_in",
    "host_facts",
    "host_warning",
    "in_domains",
    "is_address",
    "is_host_like",
    "is_reached",
    "join_url",
    "judge_address",
    "judge_host",
    "listed_problem",
    "parse_destination",
    "parse_place",
    "parse_url",
    "percent_decoded",
    "reach_of_url",
    "reach_rule",
    "same_site",
    "suspects_in",
    "url_pattern",
    "url_problem",
    "urls_given",
    "urls_hinted",
    "urls_in",
]
