"""Uploads to a server of a model of images: right ones, damaged ones, and forms that are hardly any, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

from odd_requests import Sent, post_bytes


class Uploads:
    """Images for a server of a model of images: right ones, damaged ones, and forms that are hardly any."""

    def __init__(self, seed: int, images: list[bytes]) -> None:
        self.random, self.images = random.Random(seed), images

    def make(self) -> Sent:
        """The next one."""
        kinds: list[tuple[Callable[[], Sent], int]] = [
            (self.right, 3), (self.damaged_image, 10), (self.cut_image, 3), (self.mixed_image, 2),
            (self.damaged_form, 5), (self.odd_fields, 4), (self.many, 2),
        ]  # fmt: skip
        make = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        sent = make()
        return Sent(sent.pieces, sent.is_whole, sent.is_right, sent.pause, make.__name__)

    def right(self) -> Sent:
        """An image that must be answered."""
        return Sent([_form([_part("images", self._image(), "a.png")])], is_right=True)

    def damaged_image(self) -> Sent:
        """An image of which a few bytes are others, most of them in its head."""
        data = bytearray(self._image())
        for _ in range(self.random.choice((1, 2, 8, 30))):
            place = self.random.randrange(min(len(data), self.random.choice((40, 200, len(data)))))
            data[place] = self.random.choice((0, 255, 127, self.random.randrange(256)))
        return self._one(bytes(data))

    def cut_image(self) -> Sent:
        """The beginning of an image."""
        data = self._image()
        return self._one(data[: self.random.randrange(len(data))])

    def mixed_image(self) -> Sent:
        """The beginning of one image and the end of another."""
        one, other = self._image(), self._image()
        return self._one(one[: self.random.randrange(len(one))] + other[self.random.randrange(len(other)) :])

    def damaged_form(self) -> Sent:
        """A form of which a few bytes are others, or are missing."""
        body = bytearray(_part("images", self._image(), "a.png") + b"--x--\r\n")
        for _ in range(self.random.randint(1, 6)):
            place = self.random.randrange(len(body))
            if self.random.random() < 0.5:
                body[place] = self.random.randrange(256)
            else:
                del body[place : place + self.random.randint(1, 20)]
        return Sent([post_bytes(bytes(body), [f"Content-Type: {FORM}"], None)])

    def odd_fields(self) -> Sent:
        """Fields and names that are not expected."""
        names = ("images", "rows", "coverage", "quantiles", "increments", "", "\u00ff", "a" * 3000)
        values = (b"", b"[]", b"null", b"{", b"0.5", b"[0.5]", b"\xff\xfe", b"[" * 5000, b"true", b"1e999")
        parts = [_part(self.random.choice(names), self.random.choice(values), self.random.choice((None, "../a", "")))
                 for _ in range(self.random.randint(0, 4))]  # fmt: skip
        return Sent([_form([*parts, _part("images", self._image(), "b" * self.random.choice((1, 5000)))])])

    def many(self) -> Sent:
        """More parts than anybody needs."""
        n = self.random.choice((16, 17, 900, 3000))
        return Sent(
            [_form([_part(self.random.choice(("images", "coverage")), b"x", self.random.choice((None, "a")))] * n)]
        )

    def _one(self, data: bytes) -> Sent:
        return Sent([_form([_part("images", data, "a.png")])])

    def _image(self) -> bytes:
        return self.random.choice(self.images)


FORM = "multipart/form-data; boundary=x"


def _part(name: str, value: bytes, file: str | None) -> bytes:
    named = f'; filename="{file}"' if file is not None else ""
    return f'--x\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + value + b"\r\n"


def _form(parts: list[bytes]) -> bytes:
    return post_bytes(b"".join(parts) + b"--x--\r\n", [f"Content-Type: {FORM}"], None)
