"""Model folders that a stranger has changed: every value, tensor and file of models of every kind, by seeds.

A case is a copy of a model's folder with one to three changes. Some sign the digests again, as a forger would, so that
what lies behind the digests is reached. A judge (``folder_judge.py``) loads it in a process with bounded memory.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import random
import shutil
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diffor.training.checkpoint import CONFIG, WEIGHTS, pack, signed, unpack

# --- changes ---

NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**6, 10**9, 2**31, 2**63, 10**18, 10**400, 0.5, -0.5, 1e-320, 1e300, -1e308,
    1.5, "", "x", "auto", "inf", "cuda:99999999999", "../../etc/passwd", "mlflow:http://192.0.2.1/", "A" * 100_000,
    [], [1], [[[]]], {}, {"a": 1}, {"float": "nan"}, {"float": "x"}, {"tuple": 5}, {"tuple": [1e300] * 50},
    {"dict": {"n_layers": 10**9}}, {"dict": []}, "\u0000", "\ud800", list(range(3000)),
]  # fmt: skip
SETTINGS = [
    "n_jobs", "device", "checkpoint_dir", "log_to", "encoder_layers", "encoder_width", "n_members", "method_settings",
    "n_samples", "encoder", "method", "kinds", "prior", "image_settings", "encoder_settings", "encoder_weights",
]  # fmt: skip
SIZES = [
    "n_layers", "width", "n_bins", "n_times", "n_increments", "n_thresholds", "n_steps", "max_values", "n_units",
    "n_heads", "dropout", "n_hidden",
]  # fmt: skip
GREEDY = [10**9, 10**7, 10**5, 2**31 - 1, 10**12, -(10**9), 0]


@dataclass
class Folder:
    """A folder that is being changed: its configuration and tensors as they will be written."""

    config: Any
    tensors: dict[str, torch.Tensor]
    draw: random.Random
    others: list[Path]
    """Folders of other models."""
    rewrite: Callable[[str], str] | None = None
    """What is done to the text of the configuration last."""
    rebuild: Callable[[bytes], bytes] | None = None
    """What is done to the bytes of the weights last."""
    afterwards: Callable[[Path], None] | None = None
    """What is done to the files."""

    def paths(self) -> list[tuple[Any, ...]]:
        """Where all JSON values stand; of long lists some."""
        found: list[tuple[Any, ...]] = []

        def walk(value: Any, path: tuple[Any, ...]) -> None:
            if path:
                found.append(path)
            inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, entry in list(inner)[:40]:
                walk(entry, (*path, key))

        walk(self.config, ())
        return found

    def pick(self) -> tuple[Any, Any, tuple[Any, ...]]:
        """A random value: what holds it, its key there, and its path; every depth alike."""
        paths = self.paths()
        top = self.draw.choice(sorted({str(path[0]) for path in paths}))
        path = self.draw.choice([path for path in paths if str(path[0]) == top])
        holder = self.config
        for key in path[:-1]:
            holder = holder[key]
        return holder, path[-1], path


def set_value(case: Folder) -> str:
    """A value of another kind, size or sign."""
    holder, key, path = case.pick()
    holder[key] = copy.deepcopy(case.draw.choice(NASTY))
    return f"{path} = {str(holder[key])[:40]}"


def move_number(case: Folder) -> str:
    """A number near to what it was, or far."""
    for _ in range(20):
        holder, key, path = case.pick()
        if type(holder[key]) in (int, float):
            change = case.draw.choice([lambda x: x + 1, lambda x: -x, lambda x: x * 2, lambda x: x / 3, float, int])
            holder[key] = change(holder[key])
            return f"{path} moved to {holder[key]}"
    return set_value(case)


def delete_value(case: Folder) -> str:
    """A value less."""
    holder, key, path = case.pick()
    del holder[key]
    return f"{path} deleted"


def add_value(case: Folder) -> str:
    """A name that nobody knows, or an entry more."""
    holder, key, path = case.pick()
    if isinstance(holder, dict):
        holder[case.draw.choice(["extra", "__class__", "func", f"{key} "])] = holder[key]
    else:
        holder.insert(case.draw.randrange(len(holder) + 1), copy.deepcopy(case.draw.choice([holder[key], *NASTY])))
    return f"{path[:-1]} grew"


def shuffle_list(case: Folder) -> str:
    """A list in another order, cut or repeated."""
    for _ in range(30):
        holder, key, path = case.pick()
        if isinstance(holder[key], list) and holder[key]:
            how = case.draw.randrange(4)
            if how == 0:
                case.draw.shuffle(holder[key])
            elif how == 1:
                holder[key] = holder[key][: len(holder[key]) // 2]
            elif how == 2:
                holder[key] = (holder[key] * 1000)[:20_000]
            else:
                holder[key] = holder[key][::-1]
            return f"{path} reordered ({how})"
    return set_value(case)


def swap_values(case: Folder) -> str:
    """Two values in each other's place."""
    holder, key, path = case.pick()
    other, its_key, its_path = case.pick()
    value = copy.deepcopy(other[its_key])
    other[its_key], holder[key] = copy.deepcopy(holder[key]), value
    return f"{path} and {its_path} swapped"


def ask_for_much(case: Folder) -> str:
    """Sizes that no machine has, paths and addresses of somebody else."""
    part = case.config.get(case.draw.choice(["params", "settings"]))
    if not isinstance(part, dict):
        return set_value(case)
    name, size = case.draw.choice(SETTINGS), case.draw.choice(GREEDY)
    choices: dict[str, list[Any]] = {
        "method_settings": [{"dict": {key: size}} for key in SIZES] + [{"tuple": []}],
        "device": ["cuda:7", "meta", "mps", "cpu:3", "xla"],
        "checkpoint_dir": ["/tmp/of-a-stranger"],
        "log_to": ["mlflow:http://192.0.2.1/"],
        "encoder_weights": ["/dev/zero"],
        "prior": ["trees", {"tuple": ["forest"] * 50}],
        "encoder_settings": [{"dict": {"n_channels": size}}],
        "encoder": ["timm:x", "resnet50", "plain"],
        "method": ["corn", "card", "diffor", "diffor-paper", "mdn", "ord2seq"],
        "image_settings": [{"dict": {"side": size}}],
    }
    part[name] = case.draw.choice(choices.get(name, [size]))
    if case.config.get("core") and case.draw.random() < 0.5:
        kinds = case.config["core"]["kinds"]
        if kinds:
            kind = kinds[0]
            target = case.draw.choice([kind, kind["settings"]])
            key = case.draw.choice(list(target))
            target[key] = size
    if case.config.get("images") and case.draw.random() < 0.5:
        case.config["images"][case.draw.choice(["side", "n_workers", "cache_bytes", "crop"])] = size
    return f"{name} = {str(part[name])[:60]}"


CHANGES_OF_JSON = [set_value, set_value, move_number, delete_value, add_value, shuffle_list, swap_values, ask_for_much]


def change_tensor(case: Folder) -> str:
    """A tensor of another shape, kind or content."""
    prefix = case.draw.choice(sorted({name.split(".")[0] for name in case.tensors}))
    name = case.draw.choice([name for name in sorted(case.tensors) if name.split(".")[0] == prefix])
    tensor = case.tensors[name].clone()
    flat = tensor.flatten()
    how = case.draw.randrange(16)
    place = case.draw.randrange(len(flat)) if len(flat) else 0
    kinds = [
        torch.float16,
        torch.float32,
        torch.float64,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.uint8,
        torch.bfloat16,
    ]
    if how == 0:
        tensor = tensor[None]
    elif how == 1:
        tensor = flat
    elif how == 2:
        tensor = flat[: len(flat) // 2]
    elif how == 3:
        tensor = torch.zeros(0, dtype=tensor.dtype)
    elif how == 4:
        tensor = tensor.to(case.draw.choice(kinds))
    elif how == 5 and tensor.ndim > 1:
        tensor = tensor.transpose(0, 1).contiguous()
    elif how == 6 and tensor.ndim:
        tensor = torch.cat([tensor, tensor])
    elif how == 7 and tensor.ndim:
        tensor = tensor.flip(0)
    elif how == 8:
        del case.tensors[name]
        return f"{name} deleted"
    elif how == 9:
        case.tensors[
            case.draw.choice([f"{name}x", f"prior.9.{name}", f"prior.0.trees.{name}", "backbone.x", name[1:]])
        ] = tensor
    elif how == 10:
        tensor = torch.zeros_like(tensor)
    elif how == 11 and len(flat):
        flat[:] = flat[torch.randperm(len(flat), generator=torch.Generator().manual_seed(case.draw.randrange(2**31)))]
        tensor = flat.view(tensor.shape)
    elif len(flat):
        if tensor.is_floating_point():
            value = case.draw.choice([float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-38, -1.0, 1e6])
        elif tensor.dtype == torch.bool:
            value = not bool(flat[place])
        else:
            value = case.draw.choice([-1, len(flat), 2**31, 2**62, -(2**62), 0, int(flat[place]) + 1])
        if case.draw.random() < 0.3:
            flat[:] = value
        else:
            flat[place] = value
        tensor = flat.view(tensor.shape)
    case.tensors[name] = tensor
    return f"{name}: {how} -> {tensor.dtype} {tuple(tensor.shape)}"


def lie_in_header(case: Folder) -> str:
    """A header that says other than the bytes behind it."""
    how = case.draw.randrange(9)
    name = case.draw.choice(sorted(case.tensors)) if case.tensors else ""
    draw = random.Random(case.draw.random())

    def rebuild(content: bytes) -> bytes:
        length = struct.unpack("<Q", content[:8])[0]
        if how == 0:
            return struct.pack("<Q", draw.choice([2**63, 10**9, 0, length + 1, length - 1])) + content[8:]
        header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
        entry = header.get(name, {"shape": [], "data_offsets": [0, 0], "dtype": "F32"})
        if how == 1:
            entry["shape"] = draw.choice([[2**40, 2**40], [-1], [2**62], [0], [1.5], "x", [*entry["shape"], 1]])
        elif how == 2:
            entry["data_offsets"] = draw.choice([[0, 2**50], [5, 1], [-1, 4], [0, 0], None])
        elif how == 3:
            entry["dtype"] = draw.choice(["F64", "I8", "F8_E4M3", "BOOL", "X", None])
        elif how == 4:
            header["__metadata__"] = draw.choice([None, {}, {"facts": 5}, {"facts": "["}, {"facts": "[]"}, []])
        elif how == 5:
            rest = rest[: len(rest) // 2]
        elif how == 6:
            rest += b"\0" * 64
        elif how == 7:
            header.pop(name, None)
        text = json.dumps(header).encode()
        if how == 8:
            text = text[:-1] + b',"' + name.encode() + b'":' + json.dumps(entry).encode() + b"}"
        return struct.pack("<Q", len(text)) + text + rest

    case.rebuild = rebuild
    return f"header lies ({how}) about {name}"


def break_text(case: Folder) -> str:
    """A configuration that is no proper JSON, or not all of it."""
    how, seed = case.draw.randrange(9), case.draw.randrange(2**31)

    def rewrite(text: str) -> str:
        draw = random.Random(seed)
        place = draw.randrange(len(text))
        first = next(iter(case.config), "x") if isinstance(case.config, dict) else "x"
        return [
            text[:place], text[:place] + draw.choice('"{}[],:x\0') + text[place + 1 :], "",
            text.rstrip()[:-1] + f', "{first}": 1}}', '{"a":' * 100_000 + "1" + "}" * 100_000,
            text.replace("0.", "NaN, 0.", 1), "\ufeff" + text, text + text, "[" * 5000 + "]" * 5000,
        ][how]  # fmt: skip

    case.rewrite = rewrite
    return f"text broken ({how})"


def flip_bytes(case: Folder) -> str:
    """Bits that a disk has lost, in either file."""
    which, seed = case.draw.choice([CONFIG, WEIGHTS]), case.draw.randrange(2**31)

    def afterwards(folder: Path) -> None:
        draw, content = random.Random(seed), bytearray((folder / which).read_bytes())
        for _ in range(draw.choice([1, 1, 3, 50])):
            place = draw.randrange(len(content)) if draw.random() < 0.7 else draw.randrange(min(len(content), 200))
            content[place] ^= 1 << draw.randrange(8)
        (folder / which).write_bytes(bytes(content))

    case.afterwards = afterwards
    return f"bytes of {which} flipped"


def replace_file(case: Folder) -> str:
    """A file that is missing, another's, or none at all: a pipe, a link, a folder, a device."""
    which, how = case.draw.choice([CONFIG, WEIGHTS]), case.draw.randrange(14)
    other = case.draw.choice(case.others)

    def afterwards(folder: Path) -> None:
        path = folder / which
        content = path.read_bytes()
        path.unlink()
        outside = folder.parent / f"outside-{which}"
        if how == 1:
            shutil.copy(other / which, path)
        elif how == 2:
            os.mkfifo(path)
        elif how == 3:
            path.mkdir()
        elif how == 4:
            outside.write_bytes(content)
            path.symlink_to(outside)
        elif how == 5:
            (folder / "inside").write_bytes(content)
            path.symlink_to("inside")
        elif how == 6:
            path.symlink_to(case.draw.choice(["/dev/zero", "/dev/null", "/dev/stdin", "/dev/random", "/proc/self/mem"]))
        elif how == 7:
            path.symlink_to(which)
        elif how == 8:
            with path.open("wb") as file:
                file.truncate(2**42 if which == WEIGHTS else 2**33)
        elif how == 9:
            path.write_bytes(b"")
        elif how == 10:
            with socket.socket(socket.AF_UNIX) as server:
                place = os.getcwd()
                os.chdir(folder)  # names of sockets must be short
                server.bind(which)
                os.chdir(place)
        elif how == 11:
            path.write_bytes(content)
            (folder / "evil.py").write_text("raise SystemExit('code of a stranger ran')")
            (folder / "model.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
        elif how == 12:
            path.symlink_to(folder.parent / "nowhere")
        elif how == 13:
            path.write_bytes(content * 3)

    case.afterwards = afterwards
    return f"{which} replaced ({how}, {other.name})"


def mix_models(case: Folder) -> str:
    """A part of another model's configuration, or all of its weights, signed as if they belonged together."""
    other = case.draw.choice(case.others)
    config = json.loads((other / CONFIG).read_text())
    if case.draw.random() < 0.3:
        case.tensors = dict(unpack(other / WEIGHTS)[0])
        return f"weights of {other.name}"
    key = case.draw.choice(sorted(config))
    case.config[key] = config[key]
    return f"{key} of {other.name}"


# --- cases ---


@dataclass(frozen=True)
class Case:
    """A folder that was changed."""

    seed: int
    model: str
    told: str
    is_signed: bool
    """Whether digests were made anew, so that other answers than the model's own are no fault of loading."""


def make_case(seed: int, base: Path, names: list[str], place: Path) -> Case:
    """Write the folder of a case; everything about it follows from the seed."""
    draw = random.Random(seed)
    name = draw.choice(names)
    others = [base / other for other in names if other != name]
    case = Folder(json.loads((base / name / CONFIG).read_text()), dict(unpack(base / name / WEIGHTS)[0]), draw, others)
    is_signed = draw.random() < 0.85
    told = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        kinds: list[Callable[[Folder], str]] = draw.choice(
            [CHANGES_OF_JSON, CHANGES_OF_JSON, CHANGES_OF_JSON, [change_tensor], [change_tensor], [change_tensor],
             [lie_in_header], [break_text, flip_bytes, replace_file, mix_models]]
        )  # fmt: skip
        try:
            told.append(draw.choice(kinds)(case))
        except (KeyError, IndexError, TypeError, AttributeError, OverflowError, ValueError) as error:
            told.append(f"nothing ({type(error).__name__})")  # an earlier change has removed what this one needs
    write_case(case, place, is_signed)
    return Case(seed, name, "; ".join(told), is_signed)


def write_case(case: Folder, place: Path, is_signed: bool) -> None:
    """Write the changed folder."""
    place.mkdir()
    weights = pack(case.tensors, {"format": 2})
    if case.rebuild is not None:
        try:
            weights = case.rebuild(weights)
        except (ValueError, TypeError, AttributeError, KeyError):
            weights = weights[:-1]
    config = case.config
    if is_signed and isinstance(config, dict):
        config = (
            config | {"weights_sha256": hashlib.sha256(weights).hexdigest()} if "weights_sha256" in config else config
        )
        with contextlib.suppress(ValueError):  # of surrogates, which have no bytes
            config = signed(config)
    text = json.dumps(config, indent=1)
    if case.rewrite is not None:
        text = case.rewrite(text)
    (place / CONFIG).write_bytes(text.encode("utf-8", "surrogatepass"))
    (place / WEIGHTS).write_bytes(weights)
    if case.afterwards is not None:
        try:
            case.afterwards(place)
        except (OSError, ValueError) as error:
            print(f"left as it is: {error}")
