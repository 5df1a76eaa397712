"""Networks of the paper's aesthetics and age tables: shapes, what each is said to do, whole models."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from diffor import OrdinalRegressor
from diffor.encoders.images.aesthetics import AESTHETIC_ENCODERS
from diffor.encoders.images.choice import ImageChoice, reads_images
from diffor.encoders.images.networks import IMAGE_ENCODERS, all_image_encoders, make_image_encoder
from diffor.encoders.images.vision_transformer import VisionTransformer
from diffor.errors import UserError

COMPACT = {
    "rapid": {"n_channels": 4}, "alamp": {"n_channels": 4}, "mpada-patches": {"n_channels": 4}, "mlsp": {},
    "hgcn": {"n_channels": 4, "width": 16}, "musiq": {"width": 32, "n_layers": 1},
    "tanet": {"n_channels": 4, "width": 8}, "delegate": {"n_channels": 4}, "aesmamba": {"n_channels": 4, "width": 16},
}  # fmt: skip


def pictures(count=3, side=64, seed=0):
    return torch.randint(
        0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )


def made(name):
    torch.manual_seed(0)
    return AESTHETIC_ENCODERS[name].args[0](**COMPACT[name])


def test_the_tables_share_no_name_and_are_found_together():
    assert not set(IMAGE_ENCODERS) & set(AESTHETIC_ENCODERS)
    assert set(all_image_encoders()) == {*IMAGE_ENCODERS, *AESTHETIC_ENCODERS}
    assert set(COMPACT) | {"maxvit", "farl"} == set(AESTHETIC_ENCODERS)
    assert all(reads_images(name) for name in AESTHETIC_ENCODERS)


@pytest.mark.parametrize("name", COMPACT)
def test_features_have_their_size_and_rows_do_not_look_at_each_other(name):
    encoder = make_image_encoder(made(name)).eval()
    rows = pictures(4, 96)
    with torch.inference_mode():
        together = encoder(rows)
        torch.testing.assert_close(encoder(rows), together)
        torch.testing.assert_close(encoder(rows[2:3]), together[2:3], rtol=1e-4, atol=1e-5)
    assert together.shape == (4, encoder.out_features)
    assert torch.isfinite(together).all()
    assert not torch.allclose(together[0], together[1], atol=1e-4)


@pytest.mark.parametrize("name", COMPACT)
def test_every_parameter_learns(name):
    network = made(name).train()
    with torch.no_grad():
        for one in network.parameters():  # some begin at zero by right, and what is before them feels nothing yet
            one.add_(0.1 * torch.randn_like(one))
    features = network(torch.randn(4, 3, 64, 64))
    (features * torch.randn(features.shape)).sum().backward()
    still = [part for part, one in network.named_parameters() if one.grad is None or not one.grad.abs().sum() > 0]
    assert still == []


@pytest.mark.parametrize("name", COMPACT)
def test_each_says_what_is_known_what_was_guessed_and_that_weights_are_missing(name):
    text = " ".join(AESTHETIC_ENCODERS[name].args[0].__doc__.split())
    assert "Known:" in text
    assert "Guessed:" in text
    assert "without its weights" in text or "no weights" in text or "without weights" in text


def brightness_examples(n=96, side=32):
    """Squares whose brightness is the target, in noise."""
    rng = np.random.default_rng(0)
    y = rng.uniform(0, 100, n)
    images = np.clip(40 + 1.6 * y[:, None, None, None] + rng.normal(scale=25, size=(n, side, side, 3)), 0, 255)
    return images.astype(np.uint8), y


@pytest.mark.parametrize("name", ["rapid", "musiq"])
def test_an_estimator_learns_with_it_by_name(name):
    images, y = brightness_examples()
    model = OrdinalRegressor(
        "value-squared", encoder=name, encoder_settings=COMPACT[name], image_settings={"side": 32}, bounds=(0, 100),
        max_steps=60, batch_size=16, evaluate_every=20, random_state=0, verbose=0, learning_rate=3e-3,
    ).fit(images[:72], y[:72])  # fmt: skip
    error = np.abs(model.predict(images[72:]) - y[72:]).mean()
    assert error < 0.6 * np.abs(y[72:] - np.median(y[:72])).mean()


def test_a_saved_model_answers_the_same(tmp_path):
    images, y = brightness_examples(48)
    model = OrdinalRegressor(
        "mpada", encoder="mpada-patches", encoder_settings={"n_channels": 4}, image_settings={"side": 32},
        max_steps=3, batch_size=16, random_state=0, verbose=0,
    ).fit(images, y)  # fmt: skip
    model.save(tmp_path / "model")
    again = OrdinalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(images), model.predict(images))


def test_settings_of_the_network_are_known_and_others_named():
    assert ImageChoice("hgcn", settings={"n_channels": 4, "width": 8}).make().out_features == 16
    with pytest.raises(UserError, match=r"encoder_settings must be among .*n_channels.*, but got 'n_chanels'"):
        ImageChoice("hgcn", settings={"n_chanels": 4})


# What each is said to do.


def test_rapid_sees_the_whole_and_a_part_by_columns_of_their_own():
    network = made("rapid")
    images = torch.randn(2, 3, 64, 64)
    width = network.out_features // 2
    torch.manual_seed(0)
    first, second = network.train()(images), network(images)
    assert not torch.allclose(first[:, width:], second[:, width:])  # another crop
    network.eval()
    with torch.no_grad():
        before = network(images)
        for one in network.part.parameters():
            one.zero_()
        after = network(images)
    torch.testing.assert_close(after[:, :width], before[:, :width])
    assert not torch.allclose(after[:, width:], before[:, width:])


def test_alamp_chooses_patches_that_show_something_and_knows_where_they_lie():
    network = made("alamp").eval()
    images = torch.zeros(1, 3, 64, 64)
    images[:, :, 48:, 48:] = torch.randn(3, 16, 16)
    images[:, :, :16, 16:32] = torch.randn(3, 16, 16)
    patches, places = network.choose(images)
    assert [0.375, 0.125] in [pair[::-1] for pair in places[0].tolist()]  # the second cell of the first row
    assert [0.875, 0.875] in places[0].tolist()
    assert (patches.flatten(2).var(dim=2) > 0.5).sum() == 2
    relations = network.relations(places)
    assert relations.shape == (1, 30)
    flipped = network.relations(1 - places)
    torch.testing.assert_close(flipped[:, 10:20], relations[:, 10:20])  # distances
    with torch.no_grad():
        apart = network(images) - network(images.roll(16, dims=3))
    assert apart[:, -32:].abs().max() > 1e-3  # the same patches elsewhere


def test_mpada_patches_are_the_four_quarters_in_turn():
    network = made("mpada-patches").eval()
    images = torch.randn(1, 3, 64, 64)
    changed = images.clone()
    changed[:, :, :32, 32:] = 0
    with torch.no_grad():
        moved = (network(changed) - network(images)).unflatten(1, (4, -1)).abs().amax(dim=2)
    assert (moved[0] > 1e-4).tolist() == [False, True, False, False]


def test_mlsp_holds_the_means_of_every_block_and_reads_torchvisions_names():
    network, plain = made("mlsp").eval(), IMAGE_ENCODERS["resnet18"](weights=None).backbone
    assert list(network.state_dict()) == list(plain.state_dict())
    plain.load_state_dict(network.state_dict())
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        last = plain.eval()(images).mean(dim=(2, 3))
        torch.testing.assert_close(network(images)[:, -512:], last)


def test_hgcn_listens_to_near_places_more_where_nearness_counts():
    network = made("hgcn").eval()
    nodes = torch.zeros(1, 16, 16)
    shares = network.listening(nodes, 4, 4)[0]
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(16))
    assert shares[0, 0] > shares[0, 1] > shares[0, 15]
    with torch.no_grad():
        network.nearness.fill_(5.0)
    assert network.listening(nodes, 4, 4)[0, 0, 0] > shares[0, 0]


def test_musiqs_places_agree_between_scales():
    network = made("musiq")
    coarse, fine = network.positions(2), network.positions(4)
    torch.testing.assert_close(coarse[0], fine[0])
    torch.testing.assert_close(coarse[3], fine[10])  # the middle of both grids
    images = torch.randn(1, 3, 64, 64)
    tokens = network.cut(images)
    assert tokens.shape == (1, 16, 32)
    changed = images.clone()
    changed[:, :, 16:32, 32:48] = 0
    moved = (network.cut(changed) - tokens).abs().amax(dim=2)[0]
    assert moved.nonzero().flatten().tolist() == [6]


def test_tanets_judgement_depends_on_the_theme():
    network = made("tanet")
    perceived = torch.rand(1, network.n_perceived)
    one, other = (network.judge(theme, perceived) for theme in (torch.zeros(1, 8), torch.ones(1, 8)))
    assert not torch.allclose(one, other)
    doubled = network.judge(torch.zeros(1, 8), 2 * perceived)
    assert not torch.allclose(doubled, one)


def test_delegates_stand_for_colours_and_points_stay_inside():
    network = made("delegate").eval()
    with torch.no_grad():
        network.centres.copy_(torch.linspace(-2, 2, 16)[:, None].expand(16, 3))
        network.sharpness.fill_(50.0)
    images = torch.full((1, 3, 64, 64), -2.0)
    images[:, :, :, 32:] = 2.0
    shares = network.segments(images, 4, 4).view(4, 4, 16)
    assert shares[:, :2, 0].min() > 0.99
    assert shares[:, 2:, 15].min() > 0.99
    maps = 100 * torch.randn(2, network.network.out_features, 4, 4)
    points = network.look.points(maps)
    assert points.shape == (2, 4, 4, 2)
    assert points.abs().max() <= 1


def test_selective_scan_is_the_recurrence_and_knows_only_what_came_before():
    scan = made("aesmamba").scans[0][0]
    sequence = torch.randn(1, 6, 16)
    changed = sequence.clone()
    changed[:, 3] += 1
    moved = (scan(changed) - scan(sequence)).abs().amax(dim=2)[0]
    assert (moved > 1e-6).tolist() == [False, False, False, True, True, True]
    step = nn.functional.softplus(scan.step(sequence))
    write, read = scan.select(sequence).chunk(2, dim=2)
    state = torch.zeros(1, 16, 8)
    for place in range(6):
        state = (
            torch.exp(-step[:, place, :, None] * scan.decay.exp()) * state
            + step[:, place, :, None] * write[:, place, None] * sequence[:, place, :, None]
        )
    torch.testing.assert_close(scan(sequence)[:, 5], (state * read[:, 5, None]).sum(dim=2) + scan.skip * sequence[:, 5])


def test_aesmamba_reads_along_four_paths():
    class Cumulative(nn.Module):
        def forward(self, sequence):
            return sequence.cumsum(dim=1)

    network = made("aesmamba")
    maps = torch.randn(2, 3, 4, 5)
    paths = network.along_four_paths(maps, nn.ModuleList(Cumulative() for _ in range(4)))
    # Forward and backward sums along a path are the whole and the place itself once more; two such paths.
    torch.testing.assert_close(paths, 2 * maps.sum(dim=(1, 2), keepdim=True) + 2 * maps)


# Weights of a file.


def test_farl_takes_the_half_of_clip_that_sees(tmp_path, monkeypatch):
    from diffor.encoders.images import aesthetics, vision_transformer

    def small():
        return vision_transformer.VisionTransformer(side=32, width=32, n_layers=2, n_heads=2, out_features=8)

    monkeypatch.setattr(aesthetics, "VisionTransformer", small)
    torch.manual_seed(3)
    network = small()
    state = {f"visual.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save({"state_dict": {**state, "token_embedding.weight": torch.zeros(4, 2)}}, tmp_path / "farl.pth")
    encoder = make_image_encoder("farl", weights=tmp_path / "farl.pth", freeze=True)
    images = pictures(2, 32)
    with torch.inference_mode():
        colours = (images / 255 - torch.tensor(vision_transformer.MEAN).view(3, 1, 1)) / torch.tensor(
            vision_transformer.DEVIATION
        ).view(3, 1, 1)
        torch.testing.assert_close(encoder(images), network.eval()(colours), rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match=r"reads images of 32 x 32 pixels, but got 48 x 48; pass image_settings=.*32"):
        encoder(pictures(1, 48))
    with pytest.raises(UserError, match="weights that were learned"):
        make_image_encoder("farl", freeze=True)


def test_farl_has_the_size_and_names_of_clips_base_transformer():
    with torch.device("meta"):
        network = VisionTransformer()
    names = network.state_dict()
    assert sum(one.numel() for one in network.parameters()) == 86_192_640
    assert names["positional_embedding"].shape == (197, 768)
    inside = ("attn.in_proj_weight", "attn.out_proj.bias", "ln_1.weight", "mlp.c_fc.weight", "mlp.c_proj.bias")
    for name in ("conv1.weight", "class_embedding", "ln_pre.weight", "proj"):
        assert name in names, name
    for name in inside:
        assert f"transformer.resblocks.11.{name}" in names, name


def test_maxvit_asks_for_timm_by_its_own_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match="encoder 'timm:maxvit_tiny_tf_224' needs timm: pip install timm"):
        make_image_encoder("maxvit")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("musiq", {"width": 30}, "width must be a multiple of n_heads, but got width=30, n_heads=4"),
        ("aesmamba", {"n_layers": 0}, "n_layers must be at least 1, but got n_layers=0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name, settings, message):
    with pytest.raises(UserError, match=message):
        make_image_encoder(name, **settings)
    with pytest.raises(UserError, match="side must be a multiple of patch, but got side=30, patch=16"):
        VisionTransformer(side=30)
