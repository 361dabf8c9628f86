"""`leeward models`: list the models that a service offers."""

from __future__ import annotations

from leeward.security.kinds import Json
from leeward.security.text import visible

from ..console import look, model_failure
from ..exits import CliError, Exit
from ..model import open_model
from ..options import Options
from ..printer import Printer
from ..providers.interface import ModelError, ModelInfo
from ..providers.offline import Offline
from ..providers.retry import models_of
from ..providers.settings import KINDS

__all__ = ["models"]


async def models(options: Options, printer: Printer) -> Exit:
    """List what a service offers, in its own order.

    Raises:
        CliError: no service was named, or it could not be asked.
    """
    config = look(options).loaded.config
    spec = options.name or config.llm.model
    if not spec:
        raise CliError(
            Exit.PRECONDITION,
            "MODEL_REQUIRED",
            "no service was named, and no model is configured",
            suggestion="leeward models PROVIDER, such as openai or a name of [[llm.providers]]",
        )
    services = {*KINDS, *(entry.name for entry in config.llm.providers)}
    # The configured model is not opened: another service may be asked although that one lacks its key.
    async with open_model(config, Offline()) as model:
        provider = model.choose(f"{spec}:any" if spec in services else spec)
        try:
            found = await models_of(provider)
        except ModelError as error:
            raise model_failure(error) from error
    service = provider.name.partition(":")[0]
    printer.answer("".join(f"{_line(service, info)}\n" for info in found))
    rows = [_json(service, info) for info in found]
    for one in rows:
        printer.event({"schema": 1, "type": "model", **one})
    return printer.finish(Exit.SUCCESS, {"models": rows})


def _line(service: str, info: ModelInfo) -> str:
    window = f"{info.context_tokens} tokens" if info.context_tokens else ""
    named = info.name if info.name != info.id else ""
    return visible("  ".join(filter(None, (f"{service}:{info.id}", window, named))))


def _json(service: str, info: ModelInfo) -> dict[str, Json]:
    return {
        "name": f"{service}:{info.id}",
        "id": info.id,
        "title": info.name or None,
        "context_tokens": info.context_tokens,
    }
