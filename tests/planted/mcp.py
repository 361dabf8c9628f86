"""Wrong: a claim of a server grants, a level is kept by a tool's name, a server's error is a text of ours."""

from dataclasses import replace
from types import SimpleNamespace

from leeward.security.kinds import Effect
from leeward.tools.mcp import specs_of


def believing(settings, listing, levels, refused):
    found = specs_of(settings, listing, levels, refused)
    claims = {tool.digest: tool.claims for tool in listing.tools.values()}
    reads = [one.definition for one in found if "readOnlyHint: true" in claims[one.definition]]
    return [replace(one, effects=Effect.READ) if one.definition in reads else one for one in found]


def levels_by_name(known):
    tools = known.listing.tools
    return {tools[name].digest: level for name, (_, level) in known.trusted.items() if name in tools}


def unfenced(text, _source):
    return SimpleNamespace(text=text, plain=text)
