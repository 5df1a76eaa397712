import numpy as np
import pandas as pd
import pytest
import torch

from diffor.encoders import make_tabular_encoder
from diffor.encoders.tabular.inputs import FIRST_LEVEL, MISSING, UNKNOWN, TabularInputs
from diffor.encoders.tabular.networks import PeriodicEmbedding, TabularEncoder


def small_table(n: int = 50) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "word": rng.choice(["a", "b", "c"], n),
            "grade": pd.Categorical(rng.integers(0, 4, n)),
        }
    )
    table.loc[3, ["word", "grade"]] = None
    return table


@pytest.mark.parametrize("embedding", ["none", "periodic"])
@pytest.mark.parametrize("n_layers", [1, 3])
def test_encoder_makes_features_of_its_width(embedding, n_layers):
    inputs = TabularInputs().fit(small_table())
    encoder = TabularEncoder(inputs.n_numbers, inputs.category_sizes, embedding=embedding, width=24, n_layers=n_layers)
    features = encoder(*inputs.transform(small_table()))
    assert features.shape == (50, 24)
    assert encoder.out_features == 24
    assert torch.isfinite(features).all()


@pytest.mark.parametrize("embedding", ["none", "periodic"])
@pytest.mark.parametrize("table", [pd.DataFrame({"a": values}) for values in ([1.0, 1.0], ["a", "b"], [1.0, 2.0])])
def test_encoder_takes_tables_without_numbers_or_without_anything(embedding, table):
    inputs = TabularInputs().fit(table)
    encoder = TabularEncoder(inputs.n_numbers, inputs.category_sizes, embedding=embedding, width=8).eval()
    features = encoder(*inputs.transform(table))
    assert features.shape == (2, 8)
    constant = not inputs.n_numbers and not inputs.category_sizes
    assert torch.equal(features[0], features[1]) == constant


@pytest.mark.parametrize("embedding", ["none", "periodic"])
def test_every_input_reaches_the_features(embedding):
    torch.manual_seed(0)
    inputs = TabularInputs().fit(small_table())
    encoder = TabularEncoder(inputs.n_numbers, inputs.category_sizes, embedding=embedding, width=16).eval()
    values, found = inputs.transform(small_table())
    before = encoder(values, found)
    for place in range(values.shape[1]):
        changed = values.clone()
        changed[0, place] += 0.5
        after = encoder(changed, found)
        assert not torch.allclose(after[0], before[0])
        torch.testing.assert_close(after[1:], before[1:])
    for place in range(found.shape[1]):
        changed = found.clone()
        changed[0, place] = MISSING if found[0, place] != MISSING else FIRST_LEVEL
        assert not torch.allclose(encoder(values, changed)[0], before[0])


def test_an_unknown_category_stands_at_zero_and_stays_there():
    encoder = TabularEncoder(0, [5], width=8)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=1.0)
    encoder(torch.zeros(3, 0), torch.tensor([[UNKNOWN], [MISSING], [3]])).square().sum().backward()
    optimizer.step()
    weight = encoder.categories[0].weight
    assert (weight[UNKNOWN] == 0).all()
    assert (weight[1:].abs().sum(dim=1) > 0).all()


def test_encoder_dropout_acts_while_training_only():
    encoder, arguments = TabularEncoder(3, [], width=32, dropout=0.5), (torch.randn(4, 3), torch.zeros(4, 0).long())
    assert not torch.equal(encoder.train()(*arguments), encoder(*arguments))
    assert torch.equal(encoder.eval()(*arguments), encoder(*arguments))


def test_periodic_embedding_is_the_formula():
    torch.manual_seed(0)
    embedding, values = PeriodicEmbedding(2, n_frequencies=3, out=4), torch.randn(5, 2)
    for place in range(2):
        angles = 2 * torch.pi * values[:, place, None] * embedding.frequencies[place]
        waves = torch.cat([angles.sin(), angles.cos(), values[:, place, None]], dim=1)
        expected = torch.nn.functional.silu(waves @ embedding.mixing[place] + embedding.bias[place])
        torch.testing.assert_close(embedding(values)[:, 4 * place : 4 * place + 4], expected)


@pytest.mark.parametrize(("name", "kind"), [("plain", torch.nn.Identity), ("periodic", PeriodicEmbedding)])
def test_an_encoder_by_name(name, kind):
    encoder = make_tabular_encoder(name, TabularInputs().fit(small_table()), width=8, n_layers=1, dropout=0.0)
    assert isinstance(encoder.numbers, kind)


def test_an_unknown_encoder_is_refused():
    with pytest.raises(ValueError, match="encoder must be one of auto, plain, periodic, piecewise, or, for images, s"):
        make_tabular_encoder("tree", TabularInputs().fit(small_table()), width=8, n_layers=1, dropout=0.0)
