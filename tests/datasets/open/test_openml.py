"""Tables of OpenML: read from a small server in its own format, then without one from the cache, and what may fail."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from sklearn.datasets import _openml

from diffor import load_dataset
from diffor.cli.main import main
from diffor.datasets import find_dataset
from diffor.datasets.open import foundation
from diffor.datasets.open.foundation import fetch_foundation

ARFF = b"""% Houses
@RELATION houses
@ATTRIBUTE id INTEGER
@ATTRIBUTE rooms REAL
@ATTRIBUTE town {north,south}
@ATTRIBUTE price REAL
@DATA
1,3,north,100.5
2,4,south,200
3,?,north,150
4,5,?,?
5,2,south,90
"""
FEATURES = (("id", "numeric"), ("rooms", "numeric"), ("town", "nominal"), ("price", "numeric"))
NAMES = ("houses", "no-target", "words", "damaged")
ABALONE = 183
SHELLS = [
    (("M", "F", "I")[row % 3], *(f"{(row * place) % 97}" for place in range(1, 8)), row % 29) for row in range(4177)
]
SHELL_FEATURES = (("Sex", "nominal"), *((f"c{place}", "numeric") for place in range(7)), ("Rings", "numeric"))
SHELL_ARFF = "\n".join([
    "@RELATION abalone", "@ATTRIBUTE Sex {M,F,I}", *(f"@ATTRIBUTE c{place} REAL" for place in range(7)),
    "@ATTRIBUTE Rings REAL", "@DATA", *(",".join(map(str, row)) for row in SHELLS), "",
]).encode()  # fmt: skip


def answers(number, base):
    """What OpenML says about one of the tables, by path."""
    name, columns, text = ("abalone", SHELL_FEATURES, SHELL_ARFF) if number == ABALONE else (
        NAMES[number - 1], FEATURES, ARFF)  # fmt: skip
    target = {"houses": "price", "words": "town", "damaged": "price", "abalone": "Rings"}.get(name)
    digest = hashlib.md5(text).hexdigest() if name != "damaged" else "0" * 32
    about = {"id": str(number), "name": name, "version": "1", "format": "ARFF", "status": "active", "description": "d",
             "url": f"{base}/data/v1/download/{number}/{name}.arff", "file_id": str(number),
             "md5_checksum": digest} | ({"default_target_attribute": target} if target else {})  # fmt: skip
    features = [
        {"index": str(place), "name": column, "data_type": kind, "is_target": str(column == target).lower(),
         "is_ignore": "false", "is_row_identifier": str(column == "id").lower(), "number_of_missing_values": "1"}
        for place, (column, kind) in enumerate(columns)
    ]  # fmt: skip
    qualities = [{"name": "NumberOfInstances", "value": "5.0" if number < ABALONE else "4177.0"}]
    return {
        f"/api/v1/json/data/{number}": {"data_set_description": about},
        f"/api/v1/json/data/features/{number}": {"data_features": {"feature": features}},
        f"/api/v1/json/data/qualities/{number}": {"data_qualities": {"quality": qualities}},
    }


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        base = f"http://127.0.0.1:{self.server.server_port}"
        known = {
            path: json.dumps(body).encode() for n in (1, 2, 3, 4, ABALONE) for path, body in answers(n, base).items()
        }
        known |= {f"/data/v1/download/{n}/{name}.arff": ARFF for n, name in enumerate(NAMES, start=1)}
        known[f"/data/v1/download/{ABALONE}/abalone.arff"] = SHELL_ARFF
        self.send_response(200 if self.path in known else 412)
        self.end_headers()
        self.wfile.write(known.get(self.path, b"{}"))

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """A server that answers as OpenML does; scikit-learn is told its address."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{running.server_port}/"
    if hasattr(_openml, "_OPENML_PREFIX"):  # before scikit-learn 1.8 or so
        monkeypatch.setattr(_openml, "_OPENML_PREFIX", base)
    for constant in ("_DATA_INFO", "_DATA_FEATURES", "_DATA_QUALITIES"):
        address = getattr(_openml, constant)
        monkeypatch.setattr(_openml, constant, address.replace("https://www.openml.org/", base))
    yield running
    running.shutdown()
    running.server_close()


def test_a_table_is_fetched_once_and_read_without_network_after(server, tmp_path):
    samples = load_dataset("openml:1", str(tmp_path))
    assert list(samples.x) == ["rooms", "town"]
    assert samples.y.tolist() == [100.5, 200, 150, 90]  # the row without a target is out
    assert samples.x["town"].tolist() == ["north", "south", "north", "south"]
    assert np.isnan(samples.x["rooms"].iloc[2])
    server.shutdown()
    server.server_close()
    again = load_dataset("openml:1", str(tmp_path))
    assert again.x.equals(samples.x)
    train, test = find_dataset("openml:1").split(str(tmp_path), 0)
    assert sorted([*train, *test]) == [0, 1, 2, 3]


def test_another_column_may_be_the_target(server, tmp_path):
    samples = load_dataset("openml:1", str(tmp_path), target="rooms")
    assert list(samples.x) == ["town", "price"]
    assert samples.y.tolist() == [3, 4, 5, 2]
    with pytest.raises(ValueError, match=r"must have one target, but got target='cellar'; pass target=, one of rooms"):
        load_dataset("openml:1", str(tmp_path), target="cellar")


def test_without_network_it_is_said_what_to_do(server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(OSError, match=r"openml:1 must come from openml.org or lie in the cache .*openml, but "
                                      r".*refused.*; connect this machine once, or copy that folder"):  # fmt: skip
        load_dataset("openml:1", str(tmp_path))


@pytest.mark.filterwarnings("ignore:Invalid cache:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "openml:2",
            r"openml:2 must have one target, but got OpenML names none; pass target=, one of rooms, town, price",
        ),
        ("openml:3", r"the target of openml:3 must be numbers, but town holds 'north'; pass target="),
        ("openml:4", r"openml:4 must be a table that scikit-learn can read, but .*md5 checksum .* openml.org/d/4"),
        ("openml:9", r"openml:9 must be a table .* but Dataset with data_id 9 not found"),
        ("openml:houses", r"must be named by its number, as openml:537 is, but got 'openml:houses'"),
        ("openml:0", r"must be named by its number, as openml:537 is, but got 'openml:0'"),
        ("openmI:1", r"name must be one of .*, or openml:ID, but got name='openmI:1'"),
    ],
)
def test_what_cannot_be_read_is_said(server, tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(name, str(tmp_path))


def test_tables_of_the_public_benchmark_are_fetched_and_written(server, tmp_path):
    (path,) = fetch_foundation(tmp_path, ["Abalone"])
    assert path == tmp_path / "foundation" / "Abalone.npz"
    assert fetch_foundation(tmp_path, ["Abalone"]) == []
    with np.load(path) as arrays:
        assert arrays["X"].shape == (4177, 10)
        assert arrays["X"][:, 7:].sum(axis=1).tolist() == [1] * 4177
        assert arrays["z"].tolist() == [row[-1] for row in SHELLS]
    assert len(load_dataset("foundation-abalone-1000", str(tmp_path))) == 1000


def test_a_table_of_another_shape_is_not_written(server, tmp_path, monkeypatch):
    monkeypatch.setattr(foundation, "TABLES", (foundation.FoundationTable("Houses", 1, 5, 3, "dollars"),))
    with pytest.raises(ValueError, match=r"OpenML's table 1 must hold X of 5 rows .*, but \(4, 3\) and \(4,\)"):
        fetch_foundation(tmp_path)
    assert not (tmp_path / "foundation").exists()


def test_a_run_takes_tables_of_openml(server, tmp_path, capsys):
    load_dataset("openml:1", str(tmp_path))  # the cells, in processes of their own, read the cache
    out = tmp_path / "lines.jsonl"
    words = ["bench", "--methods", "constant", "--root", str(tmp_path), "--out", str(out)]
    assert main([*words, "--datasets", "openml:1"]) == 0
    line = json.loads(out.read_text())
    assert (line["status"], line["dataset"], line["n_test"]) == ("ok", "openml:1", 1)
    capsys.readouterr()
    assert main([*words, "--datasets", "openml:x"]) == 2
    assert "must be named by its number" in capsys.readouterr().err
