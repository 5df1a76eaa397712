"""What the members of a model are in turn: encoders, with and without a guide, fine and coarse, own and partner's."""

from __future__ import annotations

from diffor.encoders.image_choice import reads_images
from diffor.presets import SMALL_TABLE, WIDE_TABLE, Settings, count_members
from diffor.train import Rows

GUIDED = "+guide"
"""What is added to the kind of a member whose encoder reads the guide's answer."""
IMAGES = "images"
"""The kind of a member that reads images and no table."""
COARSE = "+coarse"
"""What is added to the kind of a member with half as many increments: better where the target is mostly noise."""
BESIDE = "+partner"
"""What is added to the kind of a member whose method is the partner's."""
KINDS: dict[str, tuple[str, ...]] = {
    "many rows": ("periodic+guide", "piecewise+guide+coarse"),
    "sharp": ("piecewise+guide", "periodic+coarse", "periodic+guide", "piecewise+coarse"),
    "blurred": ("guide", "plain+guide+coarse", "periodic+guide", "piecewise+guide+coarse"),
    "many rows of grades": ("periodic+guide", "piecewise+guide"),
    "grades": ("guide", "plain+guide", "periodic+guide", "piecewise+guide"),
}
"""What the members of ``encoder="auto"`` are in turn. Where rows are few, members of many kinds are wrong in different
ways: where the guide is close to the target some do better without it, elsewhere nobody does, and one sees nothing
else. Where rows abound, the guide helps all. Grades have one increment for each border, so no member is coarse."""
SHARP, NOISY = 0.05, 0.11
"""Mean distances of the target from the guide's answer, as shares of its range: see :func:`set_fineness`."""


def encoder_name(kind: str) -> str:
    """The name of the encoder in a member's kind, without what is added to it.

    >>> encoder_name("periodic+guide+coarse"), encoder_name("images+partner")
    ('periodic', 'images')
    """
    return kind.partition("+")[0]


def name_encoders(settings: Settings, data: Rows, has_fineness: bool) -> list[str]:
    """The kind of each member's encoder: as set, or what suits the rows."""
    has_guide = len(data.inputs) > 2
    spread = float(data.inputs[2][:, 1].mean()) if has_guide else None
    count = count_members(settings, len(data))
    if not data.inputs:
        return [IMAGES] * count
    if settings.encoder != "auto":
        kind = settings.encoder
        if reads_images(kind):  # then the table's: features of a frozen network are many columns, which need no waves
            kind = "plain" if data.images is None else "periodic"
        return [kind + GUIDED * has_guide] * count
    encoders = choose_encoders(count, len(data), spread, of_grades=not has_fineness)
    if has_fineness:
        encoders = [set_fineness(kind, spread, can_halve=settings.n_increments % 2 == 0) for kind in encoders]
    return [as_plain(kind) for kind in encoders] if data.inputs[0].shape[1] > WIDE_TABLE else encoders


def partner_kinds(kinds: list[str]) -> list[str]:
    """For each member's kind the same with the partner's method.

    >>> partner_kinds(["periodic+guide+coarse"])
    ['periodic+guide+partner']
    """
    return [kind.replace(COARSE, "") + BESIDE for kind in kinds]


def as_plain(kind: str) -> str:
    """A member's kind without an embedding of its numbers.

    >>> as_plain("periodic+guide+coarse"), as_plain("guide")
    ('plain+guide+coarse', 'guide')
    """
    return kind.replace("periodic", "plain").replace("piecewise", "plain")


def choose_encoders(count: int, n_rows: int, spread: float | None, of_grades: bool) -> list[str]:
    """The kind of each member's encoder; ``spread`` is that of the target around the guide, None without a guide.

    >>> choose_encoders(2, n_rows=1000, spread=0.02, of_grades=False)
    ['piecewise+guide', 'periodic+coarse']
    >>> choose_encoders(2, n_rows=1000, spread=None, of_grades=True)
    ['plain', 'periodic']
    """
    has_many_rows = n_rows >= SMALL_TABLE
    if of_grades:
        kinds = KINDS["many rows of grades" if has_many_rows else "grades"]
    elif has_many_rows:
        kinds = KINDS["many rows"]
    else:
        kinds = KINDS["sharp" if spread is None or spread < SHARP else "blurred"]
    if spread is None:
        kinds = tuple(kind.replace(GUIDED, "") for kind in kinds if kind != "guide")
    return [kinds[place % len(kinds)] for place in range(count)]


def set_fineness(kind: str, spread: float | None, can_halve: bool) -> str:
    """A member's kind with as many increments as the target's spread around the guide's answer deserves.

    Where the target is sharp, all members are fine, where it is mostly noise, all are coarse; in between, and where
    there is no guide to tell, they stay as they are.

    >>> set_fineness("periodic+coarse", 0.03, can_halve=True), set_fineness("periodic", 0.2, can_halve=True)
    ('periodic', 'periodic+coarse')
    """
    if not can_halve or (spread is not None and spread < SHARP):
        return kind.replace(COARSE, "")
    return kind if spread is None or spread <= NOISY or COARSE in kind else kind + COARSE
