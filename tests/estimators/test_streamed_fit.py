from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from stream_examples import SIZES, TINY, make_table, write, write_files

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.encoders.tabular.networks import sparse_tables
from diffor.estimators import streamed_fit
from diffor.estimators.streamed_fit import Stream, fit_stream, read_shards
from diffor.files.tables import DataError
from diffor.training.checkpoint import CheckpointError, unpack
from diffor.training.loop import STATE
from diffor.training.streaming import statistics
from diffor.training.streaming.stream_batches import StreamBatches

N_LEARNED = sum(SIZES) - 46
FEW = TINY | {"batch_size": 64}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    return folder, write_files(folder)


def stream_of(folder, target="y", **changes):
    others = [name for name in ("row", "weight", "y", "stars") if name not in (target, changes.get("weight"))]
    return Stream(str(folder), target, drop=others, **({"ids": ["user"]} | changes))


def test_a_streamed_model_is_a_model_like_any_other(shards, tmp_path):
    folder, rows = shards
    model = fit_stream(DiffoRRegressor(**FEW), stream_of(folder, epochs=3))
    assert model.history_.rows == 3 * N_LEARNED
    assert model.history_.steps == 3 * -(-N_LEARNED // 64)
    assert model.history_.stopped == "finished"
    assert model.feature_names_in_.tolist() == ["x", "city", "user"]
    assert (model.scale_.low, model.scale_.high) == (rows["y"].min(), rows["y"].max())
    assert model.priors_ is None
    assert model.encoders_ == ["plain"]
    model.save(tmp_path / "model")
    again = diffor.load(tmp_path / "model")
    features = rows[["x", "city", "user"]]
    assert np.array_equal(again.predict(features), model.predict(features))
    assert again.history_.rows == model.history_.rows


def test_streamed_rows_teach_what_rows_in_memory_teach(shards):
    folder, rows = shards
    settings = {"max_steps": 150, "batch_size": 64, "random_state": 0, "verbose": 0}
    streamed = fit_stream(DiffoRRegressor("fast", **settings), stream_of(folder, epochs=30))
    features = rows[["x", "city", "user"]]
    in_memory = DiffoRRegressor("fast", prior=None, **settings).fit(features.astype({"user": str}), rows["y"])
    scores = [model.predict_distribution(features).crps(rows["y"].to_numpy()).mean() for model in (streamed, in_memory)]
    assert scores[0] < 1.35 * scores[1]  # several networks learn in memory, one from files
    assert scores[0] < 0.4 * rows["y"].std()


def test_statistics_are_those_of_all_rows_where_they_count(shards, monkeypatch):
    folder, rows = shards
    monkeypatch.setattr(streamed_fit, "SAMPLE_ROWS", 20)
    rare = rows.assign(always=1.0, city=np.where(rows.index == 7, "Bergen", rows["city"]))
    rare.loc[300, "always"] = 5.0
    rare["gap"] = np.where(rows.index == 11, np.nan, rows["x"].fillna(0))
    write(rare, folder.parent / "rare.parquet")
    model = fit_stream(DiffoRRegressor(**FEW, max_steps=1), stream_of(folder.parent / "rare.parquet"))
    columns = {column.name: column for column in model.inputs_.columns}
    assert columns["city"].levels == sorted(set(rare["city"]))
    assert columns["gap"].has_missing
    assert columns["always"].spread == 2.0
    assert (model.scale_.low, model.scale_.high) == (rows["y"].min(), rows["y"].max())


def test_ids_with_many_levels_have_sparse_tables_and_beyond_the_list_hashed_ones(shards, monkeypatch):
    folder, rows = shards
    monkeypatch.setattr(streamed_fit, "SPARSE_LEVELS", 3)
    listed = fit_stream(DiffoRRegressor(**FEW, max_steps=2), stream_of(folder))
    assert listed.inputs_.tables == ["sparse", "sparse"]
    monkeypatch.setattr(statistics, "MAX_LEVELS", 10)
    monkeypatch.setattr(statistics, "SKETCH_SIZE", 8)
    hashed = fit_stream(DiffoRRegressor(**FEW, max_steps=2), stream_of(folder, hash_buckets=16))
    assert hashed.inputs_.tables == ["sparse", 16]
    assert [len(table) for table in sparse_tables(hashed.model_)] == [6, 18]
    automatic = fit_stream(DiffoRRegressor(**FEW, max_steps=2), stream_of(folder))
    assert automatic.inputs_.tables[1] == streamed_fit.FEWEST_BUCKETS
    for model in (listed, hashed):
        assert np.isfinite(model.predict(rows[["x", "city", "user"]].assign(user="never seen"))).all()


@pytest.mark.parametrize("buckets", [None, 256])
def test_what_only_ids_tell_is_learned_by_their_table(tmp_path, monkeypatch, buckets):
    random = np.random.default_rng(0)
    user = random.integers(0, 100, 2500)
    rows = pd.DataFrame({"user": user, "y": random.permutation(100)[user] / 10})
    write(rows, tmp_path / "a.parquet", 500)
    monkeypatch.setattr(streamed_fit, "SPARSE_LEVELS", 3)
    if buckets is not None:
        monkeypatch.setattr(statistics, "MAX_LEVELS", 10)
        monkeypatch.setattr(statistics, "SKETCH_SIZE", 50)
    stream = Stream(str(tmp_path), "y", ids=["user"], epochs=10, hash_buckets=buckets)
    model = fit_stream(DiffoRRegressor("fast", random_state=0, verbose=0), stream)
    error = np.abs(model.predict(rows[["user"]]) - rows["y"]).mean()
    assert error < 0.35 * np.abs(rows["y"] - rows["y"].median()).mean()


def test_weights_count_as_they_are_and_have_mean_one(shards, monkeypatch):
    folder, rows = shards
    seen = []
    pieces = StreamBatches.pieces

    def watched(self, step, shard):
        for piece, share in pieces(self, step, shard):
            seen.extend(zip(piece.weights.tolist(), piece.y.tolist(), strict=True))
            yield piece, share

    monkeypatch.setattr(StreamBatches, "pieces", watched)
    model = fit_stream(DiffoRRegressor(**FEW, validation_fraction=0.0), stream_of(folder, weight="weight"))
    assert model.history_.best_score is None
    expected = np.stack([rows["weight"] / rows["weight"].mean(), model.scale_.to_unit(rows["y"])], axis=1)
    assert np.allclose(sorted(seen), sorted(map(tuple, expected)), atol=1e-5)


@pytest.mark.parametrize(("target", "grades", "classes"), [
    ("stars", None, [0, 1, 2, 3]),
    ("stars", [3, 2, 1, 0], [3, 2, 1, 0]),
    ("city", ["Rome", "Oslo", "Nara", "Bern"], ["Rome", "Oslo", "Nara", "Bern"]),
])  # fmt: skip
def test_grades_are_found_in_the_files_or_listed(shards, target, grades, classes):
    folder, rows = shards
    drop = ["row", "weight", "y", "stars" if target == "city" else "city"]
    model = fit_stream(DiffoRClassifier(**FEW, grades=grades, max_steps=3), Stream(str(folder), target, drop=drop))
    assert model.grades_.tolist() == classes
    assert set(model.predict(rows[["x", "user"]])) <= set(classes)


def test_side_columns_reach_the_method(shards):
    folder, rows = shards
    model = OrdinalRegressor("d2q", preset="fast", max_steps=3, random_state=0, verbose=0)
    fit_stream(model, Stream(str(folder), "y", drop=["row", "stars"], sides={"duration": "weight"}))
    features = rows[["x", "city", "user", "weight"]]
    assert model.predict(features, duration=rows["weight"]).shape == (len(rows),)


def test_checkpoints_say_how_many_rows_were_learned_from_and_keep_the_shards(shards, tmp_path):
    folder, _ = shards
    settings = FEW | {"evaluate_every": 2, "checkpoint_dir": tmp_path, "batch_size": 32}
    whole = fit_stream(DiffoRRegressor(**settings | {"checkpoint_dir": None}), stream_of(folder, shards=3))
    pieces = StreamBatches.pieces

    def die_later(self, step, shard):
        if step == 3:
            raise RuntimeError("killed")
        return pieces(self, step, shard)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamBatches, "pieces", die_later)
        with pytest.raises(RuntimeError, match="killed"):
            fit_stream(DiffoRRegressor(**settings), stream_of(folder, shards=3))
    assert json.loads((tmp_path / "stream.json").read_text()) == {"shards": 3}
    history = unpack(tmp_path / STATE)[1]["history"]
    assert (history["steps"], history["rows"]) == (2, 3 * (N_LEARNED // 3 * 2 // 5))
    with pytest.raises(CheckpointError, match=r"must keep its number of shards, but got shards=2 and .* says 3; leave"):
        fit_stream(DiffoRRegressor(**settings), stream_of(folder, shards=2))
    with pytest.raises(CheckpointError, match="belongs to a run with other data or settings"):
        fit_stream(DiffoRRegressor(**settings), stream_of(folder, epochs=2))
    resumed = fit_stream(DiffoRRegressor(**settings), stream_of(folder))
    for name, tensor in whole.model_.state_dict().items():
        assert torch.equal(resumed.model_.state_dict()[name], tensor), name
    assert resumed.history_.rows == whole.history_.rows == N_LEARNED


@pytest.mark.parametrize(("settings", "changes", "message"), [
    ({}, {"target": "z"}, r"must have the column 'z', but its columns are row, x, city"),
    ({}, {"target": "y", "drop": ["citi"]}, "must have the column 'citi'.*city"),
    ({}, {"target": "city"}, r"'city' must hold numbers, but it holds text \('Bern', 'Nara', 'Oslo'\); list"),
    ({}, {"target": "x"}, r"'x' must be known in every row, but \d+ of 460 rows have none, the first is row"),
    ({"bounds": (0, 1)}, {"target": "y"}, r"must lie inside bounds=\(0, 1\), but it goes from -"),
    ({}, {"target": "y", "weight": "city"}, "weight 'city' must hold numbers, but it holds text"),
    ({}, {"target": "y", "weight": "x"}, r"weight 'x' must be a number from 0 on in every row .* but \d+ are missing"),
    ({"encoder": "small"}, {"target": "y"}, "streamed into encoders of tables, but got encoder='small' reads images"),
    ({}, {"target": "y", "epochs": 0}, "epochs must be at least 1, but got epochs=0"),
    ({}, {"target": "y", "drop": ["row", "x", "city", "user", "weight", "stars"]}, "must have columns to predict from"),
])  # fmt: skip
def test_what_cannot_be_streamed_is_refused(shards, settings, changes, message):
    with pytest.raises(ValueError, match=message):
        fit_stream(DiffoRRegressor(**FEW | settings), Stream(str(shards[0]), **changes))


def test_too_many_grades_are_refused(shards, monkeypatch):
    monkeypatch.setattr(statistics, "MAX_LEVELS", 20)
    monkeypatch.setattr(statistics, "SKETCH_SIZE", 8)
    with pytest.raises(DataError, match=r"target 'row' must hold grades, but it has about \d+ levels; predict"):
        fit_stream(DiffoRClassifier(**FEW), Stream(str(shards[0]), "row"))


def test_fewer_rows_than_shards_are_no_hindrance(tmp_path):
    write(make_table(3, 0), tmp_path / "a.parquet")
    model = fit_stream(DiffoRRegressor(**FEW), Stream(str(tmp_path), "y", shards=8, epochs=2))
    assert model.history_.rows == 6


@pytest.mark.parametrize("text", ["", '{"shards": 0}', '{"shards": 1, "shards": 2}'])
def test_a_plan_of_shards_that_was_changed_is_refused(tmp_path, text):
    assert read_shards(tmp_path / "stream.json") is None
    (tmp_path / "stream.json").write_text('{"shards": 3}')
    assert read_shards(tmp_path / "stream.json") == 3
    (tmp_path / "stream.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"stream\.json is damaged: .*delete the checkpoint folder to start anew"):
        read_shards(tmp_path / "stream.json")
