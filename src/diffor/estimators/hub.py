"""Passing models on: to a folder with a card, to the Hugging Face hub, and back from either."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from diffor.estimators.folder import OF_THE_MACHINE, file_name_only
from diffor.estimators.model_card import model_card
from diffor.training.checkpoint import CheckpointError, new_folder, write_files


class HubError(OSError):
    """The hub cannot be used; the message says why and what to do."""


def save_pretrained(model: Any, folder: str | Path, overwrite: bool, card: dict[str, Any]) -> None:
    """Write a fitted estimator with its card to a folder."""
    with new_folder(Path(folder), overwrite) as fresh:
        _write(model, fresh, card)


def _write(model: Any, folder: Path, card: dict[str, Any]) -> None:
    config, tensors = model.saved_state()
    # Files and folders of the machine it was trained on are nobody else's business.
    config["params"] |= dict.fromkeys(OF_THE_MACHINE)
    config["settings"] |= file_name_only(config["settings"])
    text = model_card(model, **card)
    write_files(folder, config, tensors)
    (folder / "README.md").write_text(text, encoding="utf-8")


def push_to_hub(
    model: Any, repo_id: str, private: bool | None, token: str | None, place: dict[str, Any], card: dict[str, Any]
) -> str:
    """Upload a fitted estimator with its card; the address of the commit. ``place`` are branch and message of it."""
    hub = _hub()
    with TemporaryDirectory() as folder:
        _write(model, Path(folder), card)  # what is wrong with the model is told before a repository is made
        with _hub_messages(f"push_to_hub({repo_id!r})", "log in with `hf auth login` or pass token="):
            api = hub.HfApi(token=token)
            made = api.create_repo(repo_id, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=made.repo_id, folder_path=folder, **place))


def from_pretrained(kind: Any, place: str | Path, options: dict[str, Any], encoder: Any) -> Any:
    """Read an estimator of a class from a folder or from the hub."""
    if Path(place).is_dir():
        return kind.load(place, encoder)
    if not is_repository(str(place)):
        raise CheckpointError(f"{place} is neither a folder nor the name of a repository, as 'name/model' is")
    hub = _hub()
    with _hub_messages(f"from_pretrained({str(place)!r})", "check the name, or pass a folder"):
        return kind.load(hub.snapshot_download(str(place), **options), encoder)


def is_repository(name: str) -> bool:
    """Whether a name can be that of a repository rather than of a folder.

    >>> [is_repository(name) for name in ("me/model", "model", "./model", "a/b/c", "/tmp/model")]
    [True, True, False, False, False]
    """
    return name.count("/") <= 1 and all(part and part[0] not in ".~" for part in name.split("/")) and "\\" not in name


def _hub() -> Any:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ImportError('the hub needs the package huggingface_hub: pip install "diffor[hub]"')
    import huggingface_hub

    return huggingface_hub


@contextmanager
def _hub_messages(what: str, cure: str) -> Iterator[None]:
    """Say in one line what a failing hub means; what is wrong with the files keeps its own message."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        import httpx

        if not isinstance(error, (OSError, ValueError, httpx.HTTPError)):
            raise
        place = os.environ.get("HF_ENDPOINT", "the hub")
        reason = " ".join(str(error).split()) or type(error).__name__
        raise HubError(f"{what} must reach {place} and be allowed to, but {reason}; {cure}") from error
