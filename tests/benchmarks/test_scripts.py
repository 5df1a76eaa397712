"""The scripts beside the package, each in a run small enough to test."""

import json

import numpy as np
import pytest
import torch

from diffor import DiffoRRegressor


def test_scaling_finds_the_exponent_and_the_memory_of_each_row(scaling):
    fits = [
        {"rows": n, "seconds": n**0.5, "cpu_seconds": n**1.5, "data_mib": n * 8 / 2**20, "above_mib": n * 24 / 2**20}
        for n in (100, 1000, 10_000)
    ]
    found = scaling.growth(fits)
    assert found["exponent_seconds"] == pytest.approx(0.5)
    assert found["last_exponent_cpu_seconds"] == pytest.approx(1.5)
    assert found["more_bytes_per_row"] == pytest.approx(24)
    assert found["more_bytes_per_byte_of_data"] == pytest.approx(3)
    assert "rows^0.50 (required <= 1: met)" in scaling.describe(found)


def test_scaling_measures_a_fit_in_a_process_of_its_own(scaling, tmp_path, capsys):
    out = tmp_path / "scaling.json"
    scaling.main(["--sizes", "300", "--preset", "fast", "--max-steps", "3", "--out", str(out)])
    (fit,) = json.loads(out.read_text())["fits"]
    assert (fit["preset"], fit["rows"], fit["steps"]) == ("fast", 300, 3)
    assert fit["seconds"] >= fit["training_seconds"] > 0
    assert fit["above_mib"] == pytest.approx(fit["peak_mib"] - fit["loaded_mib"])
    assert fit["above_mib"] >= 0
    assert fit["crps"] > fit["crps_truth"] > 0
    assert "300" in capsys.readouterr().out


def test_method_costs_are_those_of_value_regression_times_a_ratio(method_costs, tmp_path, capsys):
    out = tmp_path / "costs.json"
    methods = ["value-squared", "cwm", "diffor-paper"]
    method_costs.main(["--quick", "--rounds", "1", "--out", str(out), "--methods", *methods])
    written = json.loads(out.read_text())
    found = {made["method"]: made for made in written["methods"]}
    assert list(found) == methods
    assert found["diffor-paper"]["prediction"]["ratio"] > 10  # a chain of network calls for each sample
    assert found["diffor-paper"]["step"]["ratio"] > found["value-squared"]["step"]["ratio"] > 0
    assert found["value-squared"]["parameters"] == found["cwm"]["parameters"] > 0  # one output each
    assert "cwm" in capsys.readouterr().out


def test_method_costs_are_compared_within_a_turn(method_costs):
    class Swift:
        name, method = "dex", torch.nn.Linear(2, 3)

    seconds = np.array([[1.0, 4.0, 9.0], [10.0, 10.0, 10.0]])
    common = np.array([[1.0, 2.0, 3.0], [5.0, 4.0, 1.0]])
    made = method_costs.record(Swift, seconds, common)
    assert (made["step"]["ratio"], made["prediction"]["ratio"]) == (2.0, 2.5)
    assert made["step"]["milliseconds"] == 4000
    assert made["parameters"] == 9
    table = method_costs.as_markdown([made])
    assert "| dex | DEX | 9 | 4000.00 | 2.00 | 10000.0 | 2.50 |" in table


def test_latency_sets_programs_beside_torch_and_trees(latency, tmp_path, capsys):
    pytest.importorskip("lightgbm")
    pytest.importorskip("catboost")
    out = tmp_path / "latency.json"
    latency.main(["--quick", "--out", str(out)])
    written = json.loads(out.read_text())
    found = {(made["name"], made["unit"]): made["value"] for made in written["figures"]}
    names = {f"{model}, {way}" for model in ("balanced", "student") for way in ("torch", "exported")}
    assert {name for name, _ in found} == names | {"LightGBM, 19 models", "CatBoost, MultiQuantile"}
    assert all(value > 0 for value in found.values())
    assert written["programs"]["student"]["error"] < 1e-5
    assert written["versions"]["onnxruntime"]
    assert "student, exported" in capsys.readouterr().out


def test_latency_ends_where_program_and_torch_differ(latency):
    x, y = latency.robot_arm(80, seed=0)
    model = DiffoRRegressor("fast", prior=None, max_steps=1, random_state=0, verbose=0).fit(x, y)
    program, _ = latency.exported(model)
    model.scale_.values = model.scale_.values + 1.0
    with pytest.raises(RuntimeError, match="the program of changed must answer as torch does, but it is"):
        latency.check("changed", model, program, x)


def test_diagnosis_writes_numbers_and_page_of_the_model_that_is_asked_for(diagnosis, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    diagnosis.main(["--quick", "--only", "diabetes_paper", "--pages", "--out", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "diagnosis_diabetes_paper.html",
        "diagnosis_diabetes_paper.json",
    ]
    written = json.loads((tmp_path / "diagnosis_diabetes_paper.json").read_text())
    assert written["dataset"] == "diabetes"
    assert [record["step"] for record in written["training"]] == [5, 10]
    assert "denoise_cosine" in written["training"][0]
    assert written["measurements"]["noise"]["max_deviation"] < 1e-4
    assert f"{written['measurements']['fusion']['held_out_mse']:.3g}" in capsys.readouterr().out


def test_a_quick_diagnosis_does_not_replace_results(diagnosis, capsys):
    with pytest.raises(SystemExit):
        diagnosis.main(["--quick"])
    assert "name a folder of your own with --out" in capsys.readouterr().err


def test_bare_methods_are_compared_data_set_by_data_set(bare_method):
    crps = {("one", "T only"): 2.0, ("one", "mdn"): 4.0, ("two", "T only"): 1.0, ("two", "mdn"): 2.0}
    lines = [{"dataset": name, "seed": 0, "entry": entry, "crps": value} for (name, entry), value in crps.items()]
    found = bare_method.against(lines, "crps")
    assert found["mdn"] == {"ratio": pytest.approx(2.0), "error": pytest.approx(0.0), "data_sets": 2}
    assert found["T only"]["ratio"] == 1


def test_every_way_to_train_and_every_rival_is_fitted(bare_method, tmp_path, capsys):
    from diffor.methods import METHODS

    out, before = tmp_path / "bare.json", dict(METHODS)
    assert bare_method.main(["--quick", "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    assert [line["entry"] for line in written["lines"]] == list(bare_method.entries())
    assert len({line["crps"] for line in written["lines"]}) == len(written["lines"]), "each is another method"
    assert before == METHODS, "nothing is left behind"
    assert "self-conditioning" in capsys.readouterr().out


def test_a_deep_head_knows_the_features_and_two_blocks_behind_them(bare_method):
    from diffor.methods import METHODS

    method = bare_method.with_deep_head(METHODS["or-cnn"])(16)
    features, y = torch.randn(8, 16), torch.rand(8)
    method.prepare(y)
    assert method.deepened(features).shape == (8, 16 + bare_method.WIDTH)
    assert torch.equal(method.deepened(features)[:, :16], features)
    sum(method.loss(features, y).values()).backward()
    assert all(parameter.grad is not None for parameter in method.trunk.parameters())


def test_a_student_is_set_beside_its_teacher(distill, tmp_path, capsys):
    out = tmp_path / "distill.json"
    assert distill.main(["--quick", "--out", str(out)]) == 0
    (line,) = json.loads(out.read_text())["lines"]
    assert line["loss"] == pytest.approx(line["student"]["crps"] / line["teacher"]["crps"] - 1)
    assert line["ratio"] > 1, "one network is quicker than priors and ten"
    assert line["student"]["rows_per_second"] > line["teacher"]["rows_per_second"] > 0
    assert "both goals kept on" in capsys.readouterr().out
