"""Images of every kind, in every form in which they are passed, decoded here and in worker processes."""

import json
import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
import time

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image, ImageOps

from diffor.core.pixels import BACKGROUND, BrokenImageError, decode_image, decode_images
from diffor.encoders.images import lazy as lazy_images
from diffor.encoders.images.inputs import ImageInputs, find_images
from diffor.encoders.images.transforms import augment_images, crop_centre, pixel_digests, stored_side

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
CORNERS = [[RED, GREEN], [BLUE, WHITE]]
PLAIN = ImageInputs(side=8, crop=1.0, n_workers=0)


def corners(side=32):
    """A picture of four coloured squares, by which turns and mirrorings are known."""
    return np.array(CORNERS, dtype=np.uint8).repeat(side // 2, axis=0).repeat(side // 2, axis=1)


def seen_corners(pixels):
    last = pixels.shape[0] - 1
    return [[tuple(pixels[row, column].tolist()) for column in (0, last)] for row in (0, last)]


def photos(folder, count, size=(40, 30)):
    """JPEG files of noise, each different."""
    random = np.random.default_rng(0)
    paths = []
    for number in range(count):
        paths.append(str(folder / f"{number:03d}.jpg"))
        Image.fromarray(random.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(paths[-1])
    return paths


def truncated(path):
    """A JPEG file that ends in the middle."""
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path, "JPEG")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return str(path)


# Kinds of images.


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_turned_as_their_camera_was_held(tmp_path, orientation):
    # What the camera stores so that, once turned, the picture is upright.
    stored = {
        1: lambda picture: picture,
        2: np.fliplr,
        3: lambda picture: np.rot90(picture, 2),
        4: np.flipud,
        5: lambda picture: picture.transpose(1, 0, 2),
        6: lambda picture: np.rot90(picture, 1),
        7: lambda picture: np.rot90(picture, 2).transpose(1, 0, 2),
        8: lambda picture: np.rot90(picture, 3),
    }[orientation](corners())
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "photo.png", exif=exif)
    assert seen_corners(decode_image(str(tmp_path / "photo.png"), 8)) == [[tuple(c) for c in row] for row in CORNERS]


def test_damaged_notes_beside_the_orientation_do_no_harm(tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 3, "maker"
    notes = exif.tobytes().replace(b"\x01\x0f", b"\x01\x55")  # a word where a number should be
    path = tmp_path / "photo.jpg"
    Image.fromarray(corners()).save(path, exif=notes, quality=100, subsampling=0)
    with pytest.raises(struct.error):
        ImageOps.exif_transpose(Image.open(path))
    decoded = decode_image(str(path), 8).astype(int)
    assert np.abs(decoded[[7, 7, 0, 0], [7, 0, 7, 0]] - [RED, GREEN, BLUE, WHITE]).max() <= 8


def deep(mode, kind):
    values = np.array([[0, 257], [32768, 65535]], dtype=kind).repeat(4, axis=0).repeat(4, axis=1)
    return Image.frombytes(mode, (8, 8), values.tobytes())


def seen_through():
    image = Image.fromarray(corners()).convert("RGBA")
    image.paste((255, 255, 255, 0), (0, 0, 16, 16))  # invisible white
    image.paste((255, 0, 0, 128), (16, 0, 32, 16))  # red that one sees through
    return image


def palette():
    return Image.fromarray(corners()).quantize(4)


SCALED = [[0] * 3, [1] * 3, [128] * 3, [255] * 3]
KINDS = {
    "grey.png": (Image.fromarray(corners()[:, :, 0]), [[255] * 3, [0] * 3, [0] * 3, [255] * 3], {}),
    "16.png": (deep("I;16", "<u2"), SCALED, {}),
    "16.tif": (deep("I;16B", ">u2"), SCALED, {}),
    "32.tif": (deep("I", "<i4"), SCALED, {}),
    "palette.gif": (palette(), [RED, GREEN, BLUE, WHITE], {}),
    "clear.png": (seen_through(), [BACKGROUND, (192, 64, 64), BLUE, WHITE], {}),
    "palette.png": (palette(), [BACKGROUND, GREEN, BLUE, WHITE], {"transparency": palette().getpixel((0, 0))}),
    "clear-grey.png": (Image.merge("LA", [Image.new("L", (8, 8), level) for level in (255, 0)]), [BACKGROUND] * 4, {}),
    "print.jpg": (Image.fromarray(corners()).convert("CMYK"), [RED, GREEN, BLUE, WHITE], {"quality": 100}),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_image_becomes_red_green_and_blue(tmp_path, name):
    image, expected, options = KINDS[name]
    image.save(tmp_path / name, **options)
    decoded = decode_image(str(tmp_path / name), 8).astype(int)
    tolerance = 8 if name.endswith("jpg") else 1 if name == "clear.png" else 0
    assert np.abs(decoded[[0, 0, 7, 7], [0, 7, 0, 7]] - expected).max() <= tolerance


def test_floating_point_images_are_refused_as_their_range_is_unknown(tmp_path):
    Image.fromarray(np.ones((8, 8), dtype=np.float32)).save(tmp_path / "float.tif")
    Image.frombytes("I", (8, 8), np.full((8, 8), 70_000, dtype="<i4").tobytes()).save(tmp_path / "wide.tif")
    _, causes = decode_images([str(tmp_path / "float.tif"), str(tmp_path / "wide.tif")], 8, "crop")
    assert "floating-point" in causes[0]
    assert "from 70000 to 70000; convert it to 8 or 16 bits" in causes[1]


def test_oblong_images_are_cut_or_stretched():
    oblong = np.zeros((10, 30, 3), dtype=np.uint8)
    oblong[:, 10:20] = 255  # the central square is white
    assert decode_image(oblong, 10).min() == 255
    stretched = decode_image(oblong, 30, fit="stretch")[15, :, 0]
    assert (stretched[:9].max(), stretched[11:19].min(), stretched[21:].max()) == (0, 255, 0)


def test_large_photos_are_decoded_at_a_fraction_of_their_size_and_look_the_same(tmp_path):
    column, row = np.meshgrid(np.arange(1600), np.arange(1200))
    smooth = np.stack([column * 255 / 1599, row * 255 / 1199, np.full(column.shape, 90)], axis=2).astype(np.uint8)
    Image.fromarray(smooth).save(tmp_path / "large.jpg", quality=95)
    opened = Image.open(tmp_path / "large.jpg")
    opened.draft(None, (128, 128))
    assert opened.size == (200, 150)
    from_file = decode_image(str(tmp_path / "large.jpg"), 64).astype(int)
    assert np.abs(from_file - decode_image(smooth, 64)).max() <= 3


# Forms in which images are passed.


def test_every_form_gives_the_same_pixels(tmp_path):
    arrays = np.stack([corners(), 255 - corners()])
    for number, array in enumerate(arrays):
        Image.fromarray(array).save(tmp_path / f"{number}.png")
    paths = [str(tmp_path / "0.png"), str(tmp_path / "1.png")]
    forms = [
        paths,
        [tmp_path / "0.png", tmp_path / "1.png"],
        np.array(paths),
        pd.Series(paths),
        pd.DataFrame({"path": paths}),
        tmp_path,
        str(tmp_path),
        arrays,
        list(arrays),
        [Image.fromarray(array) for array in arrays],
        [paths[0], Image.fromarray(arrays[1])],
    ]
    expected = PLAIN.transform(arrays).images[:]
    assert expected.shape == (2, 3, 8, 8)
    assert expected[0, :, 0, 0].tolist() == list(RED)
    for form in forms:
        assert torch.equal(PLAIN.transform(form).images[:], expected)


def test_grey_arrays_have_one_channel():
    grey = np.full((2, 9, 9, 1), 17, dtype=np.uint8)
    assert PLAIN.transform(grey).images[:].unique().tolist() == [17]


def test_relative_paths_start_from_the_root_and_columns_beside_them_are_handed_on(tmp_path):
    photos(tmp_path, 2)
    frame = pd.DataFrame({"sex": ["f", "m"], "path": ["001.jpg", "000.jpg"], "height": [1.6, 1.8]})
    rows = PLAIN.transform(frame, root=tmp_path)
    assert rows.images.names == ["001.jpg", "000.jpg"]
    assert torch.equal(rows.images[:], PLAIN.transform(tmp_path).images[[1, 0]])
    pd.testing.assert_frame_equal(rows.table, frame[["sex", "height"]])
    assert PLAIN.transform(frame[["path"]], root=tmp_path).table is None


def test_a_folder_is_searched_in_depth_for_images_only(tmp_path):
    for name in ("b.JPG", "deep/er/a.png", "notes.txt", ".hidden.jpg", ".cache/c.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert find_images(tmp_path) == ["b.JPG", "deep/er/a.png"]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 3, 8, 8), dtype=np.uint8), r"\(n, height, width, 3 or 1\).*but got shape=\(2, 3, 8, 8\)"),
        (np.zeros((2, 8, 8, 3)), "but .*dtype=float64; put colours last"),
        ([np.zeros((8, 8), dtype=np.uint8)], r"but got shape=\(8, 8\), dtype=uint8 in row 0"),
        (["a.png", None], "path, an array or one of Pillow's, but row 1 has None"),
        (pd.DataFrame({"path": ["a.png", float("nan")]}), "but row 1 has nan; fill it in or drop"),
        (pd.DataFrame({"file": ["a.png"]}), "column 'path', but its columns are 'file'; rename"),
        ("no/such/folder", "must be a folder of images, but no/such/folder is none; pass a list"),
        ([], "at least one image, but it has none"),
    ],
)
def test_what_cannot_be_images_is_refused(images, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PLAIN.transform(images)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"side": 0}, "but got side=0"),
        ({"crop": 1.2}, "but got crop=1.2"),
        ({"fit": "pad"}, "one of crop, stretch, but got fit='pad'"),
        ({"broken": "ignore"}, "one of raise, skip, but got broken='ignore'"),
        ({"n_workers": -1}, "but got n_workers=-1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ImageInputs(**settings)


def test_settings_survive_json():
    inputs = ImageInputs(side=96, crop=0.9, fit="stretch", broken="skip")
    assert ImageInputs.from_json(json.loads(json.dumps(inputs.to_json()))) == inputs


# Broken images.


def damaged_folder(folder):
    paths = photos(folder, 4)
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.png").write_text("no image")
    return [*paths[:2], truncated(folder / "cut.jpg"), paths[2], str(folder / "empty.jpg"), str(folder / "text.png"),
            str(folder / "gone.jpg"), paths[3]]  # fmt: skip


def test_a_broken_image_is_named_when_it_is_needed(tmp_path):
    paths = damaged_folder(tmp_path)
    images = PLAIN.transform(paths).images
    assert images[0:2].shape == (2, 3, 8, 8)
    with pytest.raises(BrokenImageError, match=r"cut\.jpg must be a whole image, but .*truncated.*broken='skip'"):
        images[0:3]
    with pytest.raises(BrokenImageError, match=r"gone\.jpg must be .* but No such file"):
        images.training_rows(torch.tensor([6]), torch.tensor([1]), step=0)


def test_broken_images_are_skipped_with_their_rows(tmp_path):
    paths = damaged_folder(tmp_path)
    frame = pd.DataFrame({"path": paths, "row": range(8)})
    rows = ImageInputs(side=8, crop=1.0, n_workers=0, broken="skip").transform(frame)
    assert rows.kept.tolist() == rows.table["row"].tolist() == [0, 1, 3, 7]
    assert [(image.row, os.path.basename(image.name)) for image in rows.skipped] == [
        (2, "cut.jpg"), (4, "empty.jpg"), (5, "text.png"), (6, "gone.jpg"),
    ]  # fmt: skip
    assert torch.equal(rows.images[:], PLAIN.transform([paths[place] for place in rows.kept]).images[:])


def test_a_set_of_broken_images_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"at least one image must be whole, but all are broken.*cut\.jpg"):
        ImageInputs(broken="skip", n_workers=0).transform([truncated(tmp_path / "cut.jpg")])


# Laziness and memory.


def test_images_are_read_when_asked_for_and_stay_in_memory_where_all_fit(tmp_path):
    paths = photos(tmp_path, 3)
    kept = PLAIN.transform(paths).images
    forgotten = ImageInputs(side=8, crop=1.0, n_workers=0, cache_bytes=0).transform(paths).images
    os.unlink(paths[2])
    assert (len(kept), kept.shape) == (3, (3, 3, 8, 8))
    first = kept[:2].clone()
    assert torch.equal(first, forgotten[:2])
    os.unlink(paths[1])
    assert torch.equal(kept[torch.tensor([1, 0, 1])], first[[1, 0, 1]])
    with pytest.raises(BrokenImageError):
        forgotten[:2]


def test_subsets_stay_lazy_and_share_what_is_decoded(tmp_path):
    images = PLAIN.transform(photos(tmp_path, 5)).images
    part = images.select(np.array([4, 2])).select(slice(1, 2))
    assert part.names == [images.names[2]]
    assert not images.decoder.is_kept.any()
    assert torch.equal(part[:], images[2:3])
    assert torch.equal(part.digests, images.digests[2:3])
    assert images.decoder.is_kept.tolist() == [False, False, True, False, False]


def test_digests_follow_from_names_or_pixels():
    arrays = np.stack([corners(), 255 - corners()])
    digests = PLAIN.transform(arrays).images.digests
    assert torch.equal(PLAIN.transform(arrays[::-1]).images.digests, digests.flip(0))
    named = PLAIN.transform(["a.jpg", "b.jpg", "a.jpg"]).images.digests
    assert named.shape == (3, 1)
    assert (named[0] == named[2], named[0] == named[1]) == (True, False)
    assert torch.equal(pixel_digests(torch.zeros(2, 3, 4, 4)).unique(), pixel_digests(torch.zeros(1, 3, 4, 4))[0])


# Transforms.


def test_a_test_sees_the_middle():
    pixels = np.zeros((1, 256, 256, 3), dtype=np.uint8)
    pixels[:, 16:240, 16:240] = 255
    seen = ImageInputs(side=224, n_workers=0).transform(pixels).images[:]
    assert seen.shape == (1, 3, 224, 224)
    assert seen.min() == 255
    assert stored_side(224, 0.875) == 256


def test_augmentation_follows_from_key_and_step_alone():
    images = torch.randint(0, 256, (6, 3, 20, 20), dtype=torch.uint8)
    keys = torch.arange(6) * 7919
    once = augment_images(images, keys, step=3, side=16)
    order = torch.tensor([4, 1, 5])
    assert torch.equal(augment_images(images[order], keys[order], step=3, side=16), once[order])
    assert not torch.equal(augment_images(images, keys, step=4, side=16), once)
    assert not torch.equal(augment_images(images, keys + 1, step=3, side=16), once)


def test_augmentation_crops_and_mirrors_within_its_limits():
    ramp = torch.arange(0, 240, 2, dtype=torch.float32)
    images = torch.stack([ramp.expand(120, 120), ramp[:, None].expand(120, 120), torch.zeros(120, 120)])
    count = 400
    seen = augment_images(images.to(torch.uint8).expand(count, 3, 120, 120), torch.arange(count), step=0, side=120)
    across, down = seen[:, 0, 60].float(), seen[:, 1, :, 60].float()
    is_mirrored = across[:, 0] > across[:, -1]
    assert 0.4 < is_mirrored.float().mean() < 0.6
    assert (down[:, 0] < down[:, -1]).all()  # never upside down
    shares = ((down[:, -1] - down[:, 0]) / 238) ** 2
    assert 0.77 < shares.min() < 0.83 < 0.97 < shares.max() <= 1.0
    centres = down.mean(dim=1)
    assert centres.min() < 112 < 126 < centres.max()  # crops wander to both sides
    assert torch.equal(
        augment_images(seen[:2], torch.tensor([1, 2]), 0, 120, mirror=False)[:, 2], torch.zeros(2, 120, 120)
    )


def test_without_augmentation_training_sees_what_a_test_sees(tmp_path):
    images = ImageInputs(side=14, n_workers=0, augment=False).transform(photos(tmp_path, 6)).images
    rows, keys = torch.tensor([3, 1]), torch.tensor([7, 8])
    for some in (images, images.select(np.arange(5)), images.to(torch.device("cpu"))):
        assert torch.equal(some.training_rows(rows, keys, step=5), images[rows])
    augmented = ImageInputs(side=14, n_workers=0).transform(tmp_path).images
    assert not torch.equal(augmented.training_rows(rows, keys, step=5), images[rows])


def test_training_rows_are_the_augmented_stored_images(tmp_path):
    images = ImageInputs(side=14, n_workers=0).transform(photos(tmp_path, 4)).images
    rows, keys = torch.tensor([3, 1]), torch.tensor([11, 12])
    stored = ImageInputs(side=16, crop=1.0, n_workers=0).transform(tmp_path).images
    assert torch.equal(images.training_rows(rows, keys, step=5), augment_images(stored[rows], keys, 5, 14))
    assert torch.equal(crop_centre(stored[:], 14), images[:])


# Worker processes.


@pytest.fixture
def with_workers(monkeypatch):
    monkeypatch.setattr(lazy_images, "MIN_FOR_WORKERS", 1)
    monkeypatch.setattr(lazy_images, "TASK_IMAGES", 3)
    return ImageInputs(side=8, crop=1.0, n_workers=1)


def test_workers_give_what_this_process_gives(tmp_path, with_workers):
    paths = damaged_folder(tmp_path)
    alone, aided = PLAIN.transform(paths).images, with_workers.transform(paths).images
    aided.expect(torch.tensor([0, 1, 3]))
    aided.expect(torch.tensor([3, 7]))
    assert len(aided.decoder._pending) == 4
    rows = torch.tensor([7, 0, 3, 3, 1])
    assert torch.equal(aided[rows], alone[rows])
    assert not aided.decoder._pending
    assert aided.find_broken(verbose=0) == alone.find_broken(verbose=0)
    assert len(alone.find_broken(verbose=0)) == 4
    restored = pickle.loads(pickle.dumps(aided))
    assert torch.equal(restored[rows], alone[rows])


def test_a_worker_that_is_killed_is_reported_if_at_work_and_replaced(tmp_path, with_workers):
    images, expected = with_workers.transform(photos(tmp_path, 3)).images, PLAIN.transform(tmp_path).images[:]
    pool = lazy_images.worker_pool(1)
    worker = pool.submit(os.getpid).result()
    sleeping = pool.submit(time.sleep, 60)  # the images wait behind it
    images.expect(slice(0, 3))
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"must live while they decode, but one of 1 was killed.*or 0"):
        images[:]
    assert sleeping.exception() is not None
    pool = lazy_images.worker_pool(1)
    os.kill(pool.submit(os.getpid).result(), signal.SIGKILL)  # at rest
    while not pool._flags.broken:
        time.sleep(0.01)
    assert torch.equal(images[:], expected)


def test_images_in_memory_do_not_travel_to_workers_and_few_images_start_none(tmp_path, with_workers, monkeypatch):
    pictures = with_workers.transform(np.stack([corners()] * 4)).images
    pictures.expect(slice(0, 4))
    assert pictures.decoder.n_workers == 1
    assert not pictures.decoder._pending
    monkeypatch.undo()
    assert ImageInputs(n_workers=2).transform(photos(tmp_path, 3)).images.decoder.n_workers == 0


def _decode_in_child(paths, answers):
    images = ImageInputs(side=8, crop=1.0, n_workers=1).transform(paths).images
    answers.send((images.decoder.n_workers, images[:].sum().item()))


def test_a_forked_daemon_decodes_by_itself(tmp_path, with_workers):
    paths = photos(tmp_path, 6)
    expected = with_workers.transform(paths).images[:].sum().item()  # this process has workers when it is forked
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_decode_in_child, args=(paths, theirs), daemon=True)
    child.start()
    assert ours.poll(60)
    assert ours.recv() == (0, expected)
    child.join()


def test_a_script_without_a_guard_can_have_workers(tmp_path):
    photos(tmp_path, 64, size=(8, 8))
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            from diffor.encoders.images import lazy as lazy_images
            from diffor.encoders.images.inputs import ImageInputs
            images = ImageInputs(side=8, crop=1.0, n_workers=1).transform(sys.argv[1]).images
            images.expect(slice(0, 64))
            assert len(images.decoder._pending) == 64
            print(images[:].sum().item())
            worker = lazy_images.worker_pool(1).submit(eval, "[name for name in ('torch', 'pandas') "
                "if name in __import__('sys').modules]")
            print(worker.result())
        """)
    )
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=300)
    expected = ImageInputs(side=8, crop=1.0, n_workers=0).transform(tmp_path).images[:].sum().item()
    assert done.stdout.split("\n")[:2] == [str(expected), "[]"], done.stderr  # workers load no heavy package


def test_the_number_of_workers_leaves_a_core_to_the_network(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 6)
    assert ImageInputs().transform([f"{row}.jpg" for row in range(100)]).images.decoder.n_workers == 5
