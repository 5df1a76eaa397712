"""Passing models on: to a folder with a card, to the Hugging Face hub, and back from either."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from diffor.estimators.folder import OF_THE_MACHINE, file_name_only
from diffor.estimators.model_card import model_card
from diffor.training.checkpoint import CheckpointError, new_folder, write_files


class HubError(OSError):
    """The hub cannot be used; the message says why and what to do."""


def save_pretrained(model: Any, folder: str | Path, overwrite: bool, card: dict[str, Any]) -> None:
    """Write a fitted estimator with its card to a folder."""
    carrier = _carrier_class()(model)
    with new_folder(Path(folder), overwrite) as fresh:
        carrier.save_pretrained(fresh, model_card_kwargs=card)


def push_to_hub(model: Any, repo_id: str, options: dict[str, Any], card: dict[str, Any]) -> str:
    """Upload a fitted estimator with its card; the address of the commit."""
    carrier = _carrier_class()(model)
    carrier.check_card(**card)
    with _hub_messages(f"push_to_hub({repo_id!r})", "log in with `hf auth login` or pass token="):
        return str(carrier.push_to_hub(repo_id, model_card_kwargs=card, **options))


def from_pretrained(kind: Any, place: str | Path, options: dict[str, Any], encoder: Any) -> Any:
    """Read an estimator of a class from a folder or from the hub."""
    if Path(place).is_dir():
        return kind.load(place, encoder)
    if not is_repository(str(place)):
        raise CheckpointError(f"{place} is neither a folder nor the name of a repository, as 'name/model' is")
    with _hub_messages(f"from_pretrained({str(place)!r})", "check the name, or pass a folder"):
        fetched = _carrier_class().from_pretrained(
            str(place), **options, load=lambda folder: kind.load(folder, encoder)
        )
    return fetched.model


def is_repository(name: str) -> bool:
    """Whether a name can be that of a repository rather than of a folder.

    >>> [is_repository(name) for name in ("me/model", "model", "./model", "a/b/c", "/tmp/model")]
    [True, True, False, False, False]
    """
    return name.count("/") <= 1 and all(part and part[0] not in ".~" for part in name.split("/")) and "\\" not in name


@lru_cache
def _carrier_class() -> Any:
    """The hub's mixin around an estimator, made when it is first needed, since huggingface_hub is optional."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ImportError('the hub needs the package huggingface_hub: pip install "diffor[hub]"')
    from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download

    class Carrier(ModelHubMixin, library_name="diffor"):
        """Saves, uploads and fetches an estimator as the hub's mixin wants it."""

        def __init__(self, model: Any) -> None:
            self.model = model

        def _save_pretrained(self, save_directory: Path) -> None:
            config, tensors = self.model.saved_state()
            # Files and folders of the machine it was trained on are nobody else's business.
            params = config["params"] | dict.fromkeys(OF_THE_MACHINE)
            settings = config["settings"] | file_name_only(config["settings"])
            write_files(save_directory, config | {"params": params, "settings": settings}, tensors)

        def generate_model_card(self, *args: Any, **card: Any) -> Any:
            return ModelCard(model_card(self.model, **card))

        def check_card(self, **card: Any) -> None:
            """Refuse wrong arguments and models that are not fitted before a repository is made."""
            self.model.saved_state()
            self.generate_model_card(**card)

        @classmethod
        def _from_pretrained(  # type: ignore[override]
            cls, *, model_id: str, load: Any, **place: Any
        ) -> Any:
            return cls(load(snapshot_download(model_id, **place)))

    return Carrier


@contextmanager
def _hub_messages(what: str, cure: str) -> Iterator[None]:
    """Say in one line what a failing hub means; what is wrong with the files keeps its own message."""
    try:
        yield
    except (CheckpointError, ImportError):
        raise
    except Exception as error:
        import httpx

        if not isinstance(error, (OSError, ValueError, httpx.HTTPError)):
            raise
        place = os.environ.get("HF_ENDPOINT", "the hub")
        reason = " ".join(str(error).split()) or type(error).__name__
        raise HubError(f"{what} must reach {place} and be allowed to, but {reason}; {cure}") from error
