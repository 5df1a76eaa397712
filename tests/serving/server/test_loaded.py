"""One model takes over from another while requests are under way."""

import asyncio
import os
import shutil
import threading

import pytest
from serving import QUICK, as_rows, make_flats, serve

pytest.importorskip("uvicorn")

from diffor import DiffoRRegressor
from diffor.serving.server.loaded import Service, Watcher, identity_of, signature_of


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two folders with models that answer differently, and the models."""
    table, price = make_flats()
    found = []
    for place, factor in enumerate((1.0, 0.5)):
        folder = tmp_path_factory.mktemp("models") / "flats"
        model = DiffoRRegressor("fast", bounds=(0, 500 * factor), **{**QUICK, "random_state": place})
        model.fit(table, factor * price).save(folder)
        found.append((folder, model))
    return found


def put(source, folder):
    """Write another model to a folder as ``save(overwrite=True)`` leaves it: in one go."""
    fresh, old = folder.with_name("fresh"), folder.with_name("old")
    shutil.copytree(source, fresh)
    os.rename(folder, old)
    os.rename(fresh, folder)
    shutil.rmtree(old)


def test_a_model_is_told_by_all_that_its_folder_holds(models, tmp_path):
    first, second = identity_of(models[0][0]), identity_of(models[1][0])
    assert (first.name, len(first.hash)) == ("flats", 16)
    assert first.hash != second.hash
    shutil.copytree(models[0][0], tmp_path / "copy")
    assert identity_of(tmp_path / "copy").hash == first.hash
    (tmp_path / "copy" / "cli.json").write_text("{}")
    assert identity_of(tmp_path / "copy").hash != first.hash
    assert signature_of(tmp_path / "none") is None
    assert signature_of(tmp_path) is None  # no model is there


def test_a_new_model_takes_over_and_no_request_is_lost(models, tmp_path):
    folder = tmp_path / "flats"
    shutil.copytree(models[0][0], folder)
    rows = as_rows(make_flats(n=16, seed=1)[0])
    expected = {identity_of(source).hash: model.predict(make_flats(n=16, seed=1)[0]) for source, model in models}
    hashes, found, failures = list(expected), [], []
    is_over = threading.Event()

    def ask_on(place):
        with running.client() as client:
            while not is_over.is_set():
                answer = client.post("/predict", json={"rows": [rows[place]]})
                if answer.status_code != 200:
                    failures.append(answer.text)
                    return
                told = answer.json()
                right = expected[told["model"]["hash"]][place]
                found.append((told["model"]["hash"], abs(told["predictions"][0]["point"] - right) <= 1e-4 * right))

    with serve(folder, "--watch") as running, running.client() as client:
        threads = [threading.Thread(target=ask_on, args=(place,)) for place in range(4)]
        for thread in threads:
            thread.start()
        for turn in (1, 0):
            put(models[turn][0], folder)
            assert running.process.stdout.readline().endswith(f"answers come from the model {hashes[turn]} now\n")
            assert client.get("/ready").json()["model"]["hash"] == hashes[turn]
            assert client.get("/model").json()["bounds"] == [0, 500 if turn == 0 else 250]
        # What cannot be loaded is said once, and changes nothing.
        (folder / "config.json").write_text("{")
        assert "cannot be loaded" in running.process.stdout.readline()
        assert "diffor_model_is_stale 1" in client.get("/metrics").text
        put(models[1][0], folder)
        assert hashes[1] in running.process.stdout.readline()
        figures = client.get("/metrics").text
        is_over.set()
        for thread in threads:
            thread.join()
    assert "diffor_model_is_stale 0" in figures
    assert "diffor_model_switches_total 3" in figures
    assert failures == []
    assert {digits for digits, _ in found} == set(hashes)
    assert all(is_right for _, is_right in found)


class Answering:
    """A model that cannot be closed while it is in use, as far as its successor is concerned."""

    def __init__(self, name):
        self.name, self.is_closed = name, False
        self.identity = type("Identity", (), {"hash": name})

    def try_out(self):
        if self.name == "broken":
            raise ValueError("it answers nothing")

    async def close(self):
        self.is_closed = True


def test_a_model_that_answers_nothing_does_not_take_over(tmp_path):
    (tmp_path / "config.json").write_text("1")
    said, names = [], iter(["broken", "good"])
    first = Answering("first")
    watcher = Watcher(tmp_path, lambda: Answering(next(names)), seconds=0.01)

    async def watch():
        service = Service(first, None, None)
        task = asyncio.create_task(watcher.run(service, said.append))
        for turn in (2, 3):
            (tmp_path / "config.json").write_text("x" * turn)
            while len(said) < turn - 1:
                await asyncio.sleep(0.01)
            if turn == 2:
                assert (service.loaded, service.failure) == (first, "it answers nothing")
        task.cancel()
        assert service.loaded.name == "good"
        assert service.failure is None
        await service.close()

    asyncio.run(asyncio.wait_for(watch(), 60))
    assert first.is_closed
    assert len(said) == 2
