"""`leeward config init`: find a model that answers, and write a first configuration that names it.

Asked are servers on this machine at the ports they usually have, and the services whose key is in the
environment; with `--url` that server alone. No key is written: it stays where it is. A file that is there
already is never touched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from leeward.memory.private_file import write_new
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.text import visible

from ..config import config_folder, toml_value
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer
from ..providers.interface import ModelError, ProviderSetupError
from ..providers.registry import open_models
from ..providers.retry import models_of
from ..providers.settings import KINDS, NetworkSettings, ProviderSettings

__all__ = ["Offer", "first_configuration", "init"]

_LOCAL: Mapping[str, tuple[str, int]] = {
    "ollama": ("Ollama", 11434),
    "llama": ("llama.cpp", 8080),
    "vllm": ("vLLM", 8000),
    "lmstudio": ("LM Studio", 1234),
}
_PATIENCE = 3.0
"""Seconds a service has to answer."""

_FILE = """\
# Leeward's configuration. `leeward config show` prints every key with its value and where that was set;
# a wrong key or value is an error that names its line.

[llm]
model = {model}
{provider}
[permissions]
# "readonly" changes nothing, "supervised" asks before what matters, "full" asks least.
autonomy = "supervised"

# What need not be asked about, one table for each rule:
# [[permissions.rules]]
# tool = "shell"
# match = "pytest *"
# action = "allow"
"""
_PROVIDER = """
[[llm.providers]]
name = {name}
base_url = {url}
"""


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that could answer: how it is written, who offers it, and the address of a server of one's own.

    `problem` is why a service could not be asked; it then offers no model.
    """

    model: str
    service: str
    url: str = ""
    problem: str = ""


def first_configuration(offer: Offer) -> str:
    """Return the text of a configuration in which the offered model answers."""
    name = offer.model.partition(":")[0]
    provider = _PROVIDER.format(name=toml_value(name), url=toml_value(offer.url)) if offer.url else ""
    return _FILE.format(model=toml_value(offer.model), provider=provider)


async def init(options: Options, printer: Printer) -> Exit:
    """Write the file, for the model that was named, found, or chosen.

    Raises:
        CliError: there is a file already, nothing was found, or somebody has to choose.
    """
    file = options.config or config_folder() / "config.toml"
    if await trio.Path(file).exists():
        why = f"{file} is there already"
        raise CliError(Exit.ARG_ERROR, "EXISTS", why, suggestion="change it, or move it away first")
    if options.model:
        offer = Offer(options.model, "named", options.url)
    else:
        offer = await _chosen(await _offers(options.url), options, printer)
    try:
        await trio.to_thread.run_sync(_written, file, first_configuration(offer))
    except OSError as error:
        why = f"{file} could not be written: {error.strerror}"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", why) from error
    printer.answer(visible(f"{file} was written: {offer.model} answers. Try it: leeward -p hello") + "\n")
    data: dict[str, Json] = {"file": str(file), "model": offer.model, "service": offer.service}
    printer.event({"schema": 1, "type": "config", **data})
    return printer.finish(Exit.SUCCESS, data)


def _written(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_new(file, text)


async def _offers(url: str) -> list[Offer]:
    """Ask every service that could be there at once, and return what they offer, in a fixed order."""
    services: list[tuple[str, str, str, ProviderSettings]] = []
    if url:
        services.append(("local", "openai", url, ProviderSettings(base_url=url)))
    else:
        for name, (title, port) in _LOCAL.items():
            settings = ProviderSettings(base_url=f"http://127.0.0.1:{port}/v1")
            services.append((name, "openai", f"{title} on this machine", settings))
        for kind, service in KINDS.items():
            if key := os.environ.get(service.key_env):
                settings = ProviderSettings(api_key=key)
                services.append((kind, kind, f"{service.key_env} in the environment", settings))
    found: list[list[Offer]] = [[] for _ in services]
    async with open_models(NetworkSettings(connect_timeout=1.0, stall_timeout=_PATIENCE)) as models:

        async def ask(place: int) -> None:
            name, kind, title, settings = services[place]
            problem = "no answer in time"
            with trio.move_on_after(_PATIENCE):
                try:
                    offered = await models_of(models.provider(f"{kind}:any", settings))
                    address = settings.base_url or ""
                    found[place] = [Offer(f"{name}:{one.id}", title, address) for one in offered]
                    problem = "it offers no model"
                except (ModelError, ProviderSetupError) as error:
                    problem = str(error)
            if not found[place] and (url or name in KINDS):
                found[place] = [Offer("", title, problem=problem)]

        async with trio.open_nursery() as nursery:
            for place in range(len(services)):
                nursery.start_soon(ask, place)
    return [offer for offers in found for offer in offers]


async def _chosen(asked: Sequence[Offer], options: Options, printer: Printer) -> Offer:
    """Return the only model there is, or the one that the person at the terminal chooses."""
    offers = [offer for offer in asked if offer.model]
    problems = [f"{offer.service}: {offer.problem}" for offer in asked if offer.problem]
    for problem in problems if offers else ():
        printer.warn(visible(problem))
    if not offers:
        raise CliError(
            Exit.PRECONDITION,
            "MODEL_REQUIRED",
            "\n".join(map(visible, ["no model was found", *problems])),
            suggestion="set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or start a server such as "
            "Ollama; or name one: leeward config init --model PROVIDER:NAME, or --url http://HOST:PORT/v1",
        )
    if len(offers) == 1:
        return offers[0]
    lines = [f"{place:>3}  {offer.model}  ({offer.service})" for place, offer in enumerate(offers, 1)]
    if options.output != "text" or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CliError(
            Exit.PRECONDITION,
            "INPUT_REQUIRED",
            "several models were found, and nobody is here to choose:\n" + "\n".join(map(visible, lines)),
            suggestion=f"leeward config init --model {offers[0].model}",
        )
    for line in lines:
        printer.note(visible(line))
    answer = await trio.to_thread.run_sync(_answered, len(offers), abandon_on_cancel=True)
    return offers[answer - 1]


def _answered(most: int) -> int:
    while True:
        sys.stderr.write(f"Which one shall answer? 1 to {most}, Enter for 1: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise CliError(Exit.PRECONDITION, "INPUT_REQUIRED", "nothing was chosen, and nothing written")
        text = line.strip() or "1"
        if text.isascii() and text.isdigit() and 1 <= int(text) <= most:
            return int(text)
