from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import DiffoRRegressor
from diffor.encoders import make_tabular_encoder
from diffor.encoders.tabular.inputs import FIRST_LEVEL, MISSING, UNKNOWN, CategoryColumn, TabularInputs
from diffor.encoders.tabular.networks import (
    SPARSE_WIDTH,
    PeriodicEmbedding,
    SparseEmbedding,
    TabularEncoder,
    bucket_rows,
    sparse_tables,
    table_bytes,
)
from diffor.errors import UserError


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


def test_listed_levels_have_a_row_each_and_unknown_ones_stay_at_zero():
    table = SparseEmbedding(5)
    codes = torch.tensor([UNKNOWN, MISSING, 4])
    assert torch.equal(table(codes), table.weight[codes])
    assert table(codes)[0].abs().sum() == 0
    table(codes).sum().backward()
    assert table.weight.grad.is_sparse
    dense = table.weight.grad.to_dense()
    assert dense[UNKNOWN].abs().sum() == 0
    assert (dense[[1, 4]] == 1).all()


def test_hashed_ids_are_sums_of_two_rows():
    table = SparseEmbedding(FIRST_LEVEL + 100, n_buckets=100)
    code = torch.tensor([FIRST_LEVEL + 3 * 100 + 7])
    assert torch.allclose(table(code)[0], table.weight[FIRST_LEVEL + 7] + table.weight[FIRST_LEVEL + 3])
    assert torch.equal(table(torch.tensor([MISSING]))[0], table.weight[MISSING])


def test_ids_share_both_rows_much_less_often_than_one():
    column = CategoryColumn("user", None, is_sparse=True, n_buckets=1000)
    ids = np.array([f"user {number}" for number in range(20_000)], dtype=object)
    codes = torch.from_numpy(column.transform(ids))
    first, second = bucket_rows(codes, 1000)
    assert (first >= FIRST_LEVEL).all()
    assert (first < column.n_codes).all()
    assert (second < column.n_codes).all()
    pairs = torch.stack([first, second], dim=1).unique(dim=0)
    assert len(first.unique()) == len(second.unique()) == 1000
    assert len(pairs) > 0.98 * len(ids)  # 20,000 ids in a million pairs
    assert torch.equal(codes, torch.from_numpy(column.transform(ids)))


def test_inputs_with_sparse_tables_survive_json_and_make_their_encoder():
    inputs = TabularInputs()
    inputs.columns = [
        CategoryColumn("city", ["Oslo", "Rome"]),
        CategoryColumn("item", ["a", "b"], is_sparse=True),
        CategoryColumn("user", None, is_sparse=True, n_buckets=64),
    ]
    again = TabularInputs.from_json(inputs.to_json())
    assert again.tables == inputs.tables == ["dense", "sparse", 64]
    rows = pd.DataFrame({"city": ["Rome", None], "item": ["b", "new"], "user": [7, 10**12]})
    tensors = again.transform(rows)
    assert torch.equal(tensors[1], inputs.transform(rows)[1])
    encoder = make_tabular_encoder("plain", again, 8, 1, 0.0)
    assert encoder(*tensors).shape == (2, 8)
    assert [tuple(table.shape) for table in sparse_tables(encoder)] == [(4, SPARSE_WIDTH), (66, SPARSE_WIDTH)]


def test_a_categorical_is_coded_as_its_values_are():
    values = pd.Series(["b", None, "a", "new", "b"])
    for column in (CategoryColumn("c", ["a", "b"]), CategoryColumn("c", None, is_sparse=True, n_buckets=10)):
        inputs = TabularInputs()
        inputs.columns = [column]
        plain = inputs.transform(pd.DataFrame({"c": values}))[1]
        assert torch.equal(inputs.transform(pd.DataFrame({"c": values.astype("category")}))[1], plain)


def test_the_memory_of_a_table_is_what_it_says():
    table = SparseEmbedding(1000)
    assert table_bytes(1000, while_training=False) == table.weight.nbytes
    assert table_bytes(1000) == 2 * table.weight.nbytes + 4 * 1000


def test_ids_of_a_table_in_memory_have_a_sparse_table_that_is_trained_and_kept(tmp_path):
    rows = np.random.default_rng(0)
    ids = np.concatenate([np.arange(10_100), rows.integers(0, 10_100, 900)])
    table = pd.DataFrame({"user": ids.astype(str), "x": rows.random(len(ids))})
    model = DiffoRRegressor("paper", max_steps=2, batch_size=64, bounds=(0, 1), random_state=0, verbose=0)
    model.fit(table, rows.random(len(ids)), X_val=table[:50], y_val=rows.random(50))
    (weights,) = sparse_tables(model.model_)
    assert weights.shape == (10_102, 16)
    assert model.inputs_.collisions == {}
    model.save(tmp_path / "model")
    again = DiffoRRegressor.load(tmp_path / "model")
    assert np.array_equal(again.predict(table[:20]), model.predict(table[:20]))
    assert np.isfinite(again.predict(pd.DataFrame({"user": ["never seen"], "x": [0.5]}))).all()


def test_hashing_is_asked_for_by_a_setting():
    table = pd.DataFrame({"user": [f"id {n}" for n in range(300)]})
    model = DiffoRRegressor("paper", max_levels=100, max_steps=1, bounds=(0, 1), random_state=0, verbose=0)
    with pytest.warns(UserWarning, match="column 'user' has 270 levels, more than 100, so they are hashed"):
        model.fit(table, np.linspace(0, 1, 300))
    assert list(model.inputs_.collisions) == ["user"]
    with pytest.raises(UserError, match=r"max_levels must .*max_levels=0"):
        DiffoRRegressor("paper", max_levels=0).fit(table, np.linspace(0, 1, 300))
