"""The scripts beside the package, each in a run small enough to test."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from diffor import DiffoRRegressor

SCRIPTS = Path(__file__).resolve().parents[1] / "benchmarks"


def script_fixture(name):
    @pytest.fixture(name=name)
    def script(monkeypatch):
        monkeypatch.syspath_prepend(str(SCRIPTS))
        return importlib.import_module(name)

    return script


of_sampling, of_scaling, of_method_costs = map(script_fixture, ("sampling", "scaling", "method_costs"))
of_diagnosis, of_student, of_latency = map(script_fixture, ("diagnosis", "student", "latency"))


def test_sampling_operations_by_layer_sizes_are_those_that_run(sampling):
    x, y = sampling.robot_arm(300, seed=0)
    model = DiffoRRegressor("balanced", n_members=2, guide=False, max_steps=2, random_state=0, verbose=0).fit(x, y)
    rows = x[:64]  # a multiple of 16: no row is filled up
    counted = sampling.count_flops(lambda: model.predict_distribution(rows, sampling.N_SAMPLES))
    encoders = sampling.count_flops(
        lambda: [member.features(model.inputs_.transform(rows)) for member in model.model_.members]
    )
    per_sample = (counted - encoders) / (len(rows) * sampling.N_SAMPLES)
    assert sampling.chain_flops(model.model_) == pytest.approx(per_sample, rel=0.02)


def test_sampling_ratios_are_taken_within_turns_and_judged(sampling):
    rates = {"diffor": np.array([100.0, 210.0, 330.0]), "card": np.array([10.0, 10.0, 10.0])}
    ratio = sampling.speed_figures(rates, is_judged=True)[-1]
    assert (ratio.value, ratio.quartiles, ratio.record()["met"]) == (21.0, (15.5, 27.0), True)
    assert sampling.speed_figures(rates, is_judged=False)[-1].limit is None


def test_sampling_writes_speed_and_shares_of_the_time(sampling, tmp_path, capsys):
    sampling.main(["--quick", "--methods", "diffor-fast", "--out", str(tmp_path / "sampling.json")])
    written = json.loads((tmp_path / "sampling.json").read_text())
    found = {figure["name"]: figure["value"] for figure in written["figures"]}
    shares = [value for name, value in found.items() if name.startswith("share of time")]
    assert found["diffor-fast: samples per second"] > 0
    assert 0 < found["of GEMM peak, whole predict"] < found["of GEMM peak, denoiser alone"]
    assert all(0 < share < 1 for share in shares)
    assert written["command"] == "python benchmarks/sampling.py --quick --methods diffor-fast --out sampling.json"
    assert "diffor-fast: samples per second" in capsys.readouterr().out


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
    method_costs.main(["--quick", "--methods", "value-squared", "cwm", "diffor", "--out", str(out)])
    written = json.loads(out.read_text())
    found = {made["method"]: made for made in written["methods"]}
    assert list(found) == ["value-squared", "cwm", "diffor"]
    assert found["diffor"]["prediction"]["ratio"] > 10  # a chain of network calls for each sample
    assert found["diffor"]["step"]["ratio"] > found["value-squared"]["step"]["ratio"] > 0
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


def test_student_measures_what_is_not_measured_yet(student, tmp_path, capsys):
    out, models = tmp_path / "student.json", tmp_path / "models"
    words = ["--quick", "--datasets", "diabetes", "--dial", "diabetes", "--out", str(out), "--models", str(models)]
    student.main(words)
    written = json.loads(out.read_text())
    (record,), (dial,) = written["students"], written["dial"]
    assert record["lost"] == pytest.approx(record["student"]["crps"] / record["teacher"]["crps"] - 1)
    assert record["times_faster"] > 0
    assert record["n_known"] == 200
    assert [(cell["n_steps"], cell["n_samples"]) for cell in dial["cells"]] == [(1, 8), (1, 16), (2, 8), (2, 16)]
    assert (models / "diabetes" / "config.json").is_file()
    assert "diabetes: CRPS" in capsys.readouterr().out
    student.main(words)
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["students"] == [record]


def test_student_summary_counts_what_is_met(student):
    records = [{"lost": lost, "times_faster": faster} for lost, faster in ((0.01, 25.0), (0.05, 30.0), (-0.02, 10.0))]
    found = student.summary(records)
    assert (found["lost_at_most_3_percent"], found["times_faster_at_least_20"]) == (2, 2)
    assert (found["lost_worst"], found["times_faster_least"]) == (0.05, 10.0)
    assert found["lost_median"] == 0.01


def test_latency_compares_the_program_with_torch(latency, tmp_path, capsys):
    out = tmp_path / "latency.json"
    latency.main(["--quick", "--out", str(out)])
    written = json.loads(out.read_text())
    found = {(made["measurement"], made["name"]): made["value"] for made in written["figures"]}
    for name in ("fast, 1 member", "balanced, 2 members", "balanced, 4 members"):
        for clock in ("", ", processor time"):
            middle, late = (found["one_row", f"{name}: onnxruntime, {which}{clock}"] for which in
                            ("median", "99th percentile"))  # fmt: skip
            assert 0 < middle <= late
        assert found["batch", f"{name}: onnxruntime"] > 0
        assert found["batch", f"{name}: onnxruntime, of GEMM peak"] > 0
    assert written["versions"]["onnxruntime"]
    assert "balanced, 4 members: onnxruntime is faster" in capsys.readouterr().out


def test_latency_ends_where_program_and_torch_differ(latency):
    x, y = latency.robot_arm(80, seed=0)
    model = DiffoRRegressor("fast", guide=False, max_steps=1, n_samples=4, random_state=0, verbose=0).fit(x, y)
    case = latency.Case("changed", model)
    model.scale_.values = model.scale_.values + 1.0
    with pytest.raises(RuntimeError, match="the program of changed must answer as torch does, however: it is"):
        latency.check(case, x)


def test_diagnosis_writes_numbers_and_page_of_the_model_that_is_asked_for(diagnosis, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    diagnosis.main(["--quick", "--only", "diabetes_balanced", "--pages", "--out", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "diagnosis_diabetes_balanced.html",
        "diagnosis_diabetes_balanced.json",
    ]
    written = json.loads((tmp_path / "diagnosis_diabetes_balanced.json").read_text())
    assert written["dataset"] == "diabetes"
    assert [record["step"] for record in written["training"]] == [5, 10]
    assert "denoise_cosine" in written["training"][0]
    assert written["measurements"]["noise"]["max_deviation"] < 1e-4
    assert written["measurements"]["fusion"]["sentence"] in capsys.readouterr().out


def test_a_quick_diagnosis_does_not_replace_results(diagnosis, capsys):
    with pytest.raises(SystemExit):
        diagnosis.main(["--quick"])
    assert "name a folder of your own with --out" in capsys.readouterr().err
