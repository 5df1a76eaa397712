"""The two methods in one file each: their losses and answers are the library's, and they learn their toy tables."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from diffor.core.row_noise import row_keys, start_noise, step_noise
from diffor.methods.diffor import IncrementDiffusion
from diffor.methods.diffor.one_call import OneCall

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXACT = {"rtol": 1e-6, "atol": 1e-6}


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["diffor_from_scratch", "one_call_from_scratch"])
def test_an_example_from_scratch_imports_nothing_of_the_library(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert "import diffor" not in text
    assert "from diffor" not in text
    assert len(text.splitlines()) < {"diffor_from_scratch": 250, "one_call_from_scratch": 100}[name]


def make_pair(**settings):
    """The library's method and the example's model with the same weights, which a few steps have moved."""
    torch.manual_seed(0)
    method = IncrementDiffusion(6, **settings)
    features, y = torch.randn(40, 6), torch.rand(40)
    optimizer = torch.optim.Adam(method.parameters(), lr=5e-3)
    for _ in range(5):
        optimizer.zero_grad()
        sum(method.loss(features, y).values()).backward()
        optimizer.step()
    given = {"count": method.n_increments, "n_times": method.process.n_times}
    model = load("diffor_from_scratch").DiffoR(6, **given, width=settings.get("width", 128))
    weights = {name: value for name, value in method.state_dict().items() if name != "fusion_weights"}
    model.load_state_dict(weights)  # strict: both have the same weights, by the same names
    return method.eval(), model.eval(), features, y


SETTINGS = [{}, {"n_increments": 4, "n_times": 50, "width": 32}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_papers_loss_is_the_librarys(settings):
    method, model, features, y = make_pair(**settings)
    torch.manual_seed(5)
    terms = method.loss(features, y)
    torch.manual_seed(5)  # the same draws again
    t, _ = method.draw_times(len(y), y.device)
    noise = torch.randn(*t.shape, method.n_increments)
    assert len(t) == 1
    loss = model.loss(features, y, t[0], noise[0])
    torch.testing.assert_close(loss, sum(terms.values()), **EXACT)
    assert float(loss) > 0.1


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_papers_prediction_is_the_librarys(settings):
    method, model, features, _ = make_pair(**settings)
    keys = row_keys((features,), seed=3)
    start = start_noise(keys, 1, method.n_increments)[:, 0]
    expected = torch.from_numpy(method.predict(features, keys, 1).samples)[:, 0]
    found = model.predict(features, start)
    torch.testing.assert_close(found, expected.to(found), **EXACT)
    assert found.std() > 1e-3


def test_equation_four_over_all_times_is_the_librarys():
    method, model, features, _ = make_pair(**SETTINGS[1], n_steps=50, eta=1.0)
    keys = row_keys((features,), seed=3)
    fresh = {t - 1: step_noise(keys, 1, 4, t)[:, 0] for t in range(2, 51)}
    found = model.predict(features, start_noise(keys, 1, 4)[:, 0], fresh)
    expected = torch.from_numpy(method.predict(features, keys, 1).samples)[:, 0]
    torch.testing.assert_close(found, expected.to(found), **EXACT)
    assert not torch.allclose(found, model.predict(features, start_noise(keys, 1, 4)[:, 0]), atol=1e-3)


def test_times_are_drawn_from_the_papers_mixture():
    model = load("diffor_from_scratch").DiffoR(2, count=4, n_times=1000, width=8)
    torch.manual_seed(0)
    drawn = model.draw_times(40_000)
    assert (drawn.min(), drawn.max()) == (1, 1000)
    for t in model.times:  # half of the draws lie on four times
        assert float((drawn == t).float().mean()) == pytest.approx(0.5 / 4, abs=0.01)


def test_the_one_call_core_is_the_librarys():
    torch.manual_seed(0)
    y, features = torch.rand(500) ** 2, torch.randn(500, 5)
    method = OneCall(5, n_increments=16, width=24)
    method.prepare(y)
    model = load("one_call_from_scratch").OneCall(5, y, count=16, width=24)
    assert model.edges.numpy() == pytest.approx(method.borders.edges, abs=1e-12)
    torch.testing.assert_close(model.direct.bias, method.direct.bias, **EXACT)  # both begin at the same shares
    for parameter in method.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.load_state_dict(dict(method.named_parameters()))
    method, model = method.eval(), model.eval()
    torch.testing.assert_close(model.loss(features, y), method.loss(features, y)["cross_entropy"], **EXACT)
    levels = torch.tensor([0.0, 0.05, 0.3, 0.5, 0.9, 0.999], dtype=torch.float64)
    expected = method.predict(features, torch.zeros(500, dtype=torch.int64), 1).quantile(levels.tolist())
    assert model.quantiles(features, levels).numpy() == pytest.approx(expected, abs=1e-6)


def test_the_toy_table_is_learned_and_drawn(tmp_path, capsys):
    example = load("diffor_from_scratch")
    pytest.importorskip("matplotlib")
    error = example.main(steps=250, out=str(tmp_path / "picture.svg"))
    constant = float(capsys.readouterr().out.split("constant ")[1].split()[0])
    assert error < 0.9 * constant
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")


def test_the_core_learns_its_toy_table_as_a_program():
    done = subprocess.run([sys.executable, str(EXAMPLES / "one_call_from_scratch.py")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    held = int(done.stdout.split("intervals hold ")[1].split("%")[0])
    assert 86 <= held <= 94
