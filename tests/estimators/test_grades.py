"""Grades whose order is not that of the alphabet, as scikit-learn's tools meet them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import diffor
from diffor import DiffoRClassifier, OrdinalClassifier
from diffor.errors import UserError
from diffor.metrics import accuracy_off_by, crps_samples, mae, qwk
from diffor.metrics.scorers import scorer

ORDER = ["low", "mid", "high", "awful"]
RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"a": RANDOM.random(120), "b": RANDOM.random(120)})
CODES = np.digitize(X["a"] + RANDOM.normal(0, 0.1, 120), [0.25, 0.5, 0.75])
Y = np.array(ORDER)[CODES]
QUICK = {"prior": None, "max_steps": 40, "random_state": 0, "verbose": 0}


def make_model(**more):
    return DiffoRClassifier("fast", **{"grades": ORDER, **QUICK, **more})


@pytest.fixture(scope="module")
def fitted():
    return make_model().fit(X, Y)


@pytest.fixture(scope="module")
def shares(fitted):
    """Probability of each grade from the lowest to the highest, off the distribution itself."""
    return fitted.predict_distribution(X).grade_probabilities(4)


def test_columns_are_those_of_the_sorted_classes_and_the_order_of_grades_is_beside(fitted, shares):
    assert fitted.grades_.tolist() == ORDER
    assert fitted.classes_.tolist() == sorted(ORDER)
    columns = [sorted(ORDER).index(grade) for grade in ORDER]
    np.testing.assert_array_equal(fitted.predict_proba(X)[:, columns], shares)
    np.testing.assert_array_equal(fitted.predict_proba(X)[:, np.searchsorted(fitted.classes_, fitted.grades_)], shares)
    np.testing.assert_allclose(fitted.predict_cumproba(X), np.minimum(shares.cumsum(axis=1), 1))
    assert (np.diff(fitted.predict_cumproba(X), axis=1) >= 0).all()
    found = fitted.predict_set(X, 0.8)
    edges = np.diff(np.pad(found.astype(int), ((0, 0), (1, 1))), axis=1)
    assert ((edges == 1).sum(axis=1) == 1).all()  # one run in the order of the grades
    with pytest.raises(AttributeError, match="no classes_ before it is fitted"):
        _ = make_model().classes_


def test_a_saved_model_keeps_both_orders(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = diffor.load(tmp_path / "model")
    assert (again.classes_.tolist(), again.grades_.tolist()) == (sorted(ORDER), ORDER)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def by_hand(shares):
    """Scores of probabilities in the order of the grades, by numbers of grades: no sorting of text is involved."""
    one_hot = np.eye(4)[CODES]
    weights = one_hot.mean(axis=0)
    aucs = np.array([pair_auc(shares[k == CODES, k], shares[k != CODES, k]) for k in range(4)])
    pairs = [
        (
            (pair_auc(shares[i == CODES, i], shares[j == CODES, i])
             + pair_auc(shares[j == CODES, j], shares[i == CODES, j])) / 2,
            (weights[i] + weights[j]),
        )
        for i in range(4)
        for j in range(i)
    ]  # fmt: skip
    two = np.sort(np.argsort(-shares, axis=1, kind="stable")[:, :2], axis=1)
    return {
        "roc_auc_ovr": aucs.mean(),
        "roc_auc_ovr_weighted": aucs @ weights,
        "roc_auc_ovo": np.mean([auc for auc, _ in pairs]),
        "roc_auc_ovo_weighted": np.average([auc for auc, _ in pairs], weights=[weight for _, weight in pairs]),
        "neg_log_loss": np.log(np.clip(shares[np.arange(120), CODES], 1e-16, None)).mean(),
        "neg_brier_score": -((shares - one_hot) ** 2).sum(axis=1).mean(),
        "top_k_accuracy": (two == CODES[:, None]).any(axis=1).mean(),
    }


def pair_auc(positive, negative):
    """Probability that a positive row has the larger score, ties half."""
    return float(((positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)).mean())


@pytest.mark.parametrize(
    "name",
    ["roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo", "roc_auc_ovo_weighted", "neg_log_loss", "neg_brier_score",
     "top_k_accuracy"],
)  # fmt: skip
def test_probability_scorers_of_scikit_learn(fitted, shares, name):
    assert get_scorer(name)(fitted, X, Y) == pytest.approx(by_hand(shares)[name], abs=1e-9)


def test_cross_val_predict_of_probabilities_is_a_fit_on_the_other_rows():
    folds = [(np.arange(60, 120), np.arange(60)), (np.arange(60), np.arange(60, 120))]
    with pytest.warns(UserWarning, match="as scikit-learn writes them, in the order of sorting: 2 for 'low'"):
        found = cross_val_predict(make_model(), X, Y, cv=folds, method="predict_proba")
    for training, held in folds:
        expected = make_model().fit(X.iloc[training], Y[training]).predict_proba(X.iloc[held])
        np.testing.assert_array_equal(found[held], expected)
    assert roc_auc_score(Y, found, multi_class="ovr") > 0.85
    assert log_loss(Y, found, labels=sorted(ORDER)) < np.log(4)


@pytest.mark.filterwarnings("ignore:y holds 0 to 3:UserWarning")
def test_voting_and_stacking_fit_on_codes_and_answer_with_grades():
    for tool in (
        VotingClassifier([("one", make_model()), ("two", LogisticRegression())], voting="soft"),
        StackingClassifier([("one", make_model())], LogisticRegression(), cv=2),
    ):
        model = tool.fit(X, Y)
        assert model.score(X, Y) > 0.6
        assert roc_auc_score(Y, model.predict_proba(X), multi_class="ovr") > 0.85


def test_codes_are_read_only_where_they_cannot_be_grades():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_model(grades=[3, 2, 1, 0]).fit(X, CODES).grades_.tolist() == [3, 2, 1, 0]
        assert make_model(grades=[1, 2, 3, 4]).fit(X, CODES).grades_.tolist() == [0, 1, 2, 3]  # the same order
    with pytest.raises(UserError, match="none of"):
        make_model().fit(X, np.minimum(CODES, 2))  # one grade has no row, so the codes cannot be told


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_own_scorers_read_text_in_the_order_of_the_grades(wrap):
    model = wrap(make_model()).fit(X, Y)
    answered = np.array([ORDER.index(grade) for grade in model.predict(X)])
    assert scorer("qwk")(model, X, Y) == pytest.approx(qwk(CODES, answered))
    assert scorer("mae")(model, X, Y) == pytest.approx(-mae(CODES, answered))
    assert scorer("accuracy_off_by")(model, X, Y) == pytest.approx(accuracy_off_by(CODES, answered))


def test_own_scorers_of_distributions_count_in_grades():
    numbers = CODES * 10 + 5
    model = OrdinalClassifier("corn", max_steps=3, random_state=0, verbose=0).fit(X, numbers)
    expected = crps_samples(CODES, model.predict_distribution(X).samples)
    assert scorer("crps")(model, X, numbers) == pytest.approx(-expected)


BAD_GRADES = {
    "dates": np.array(["2020-01-01", "2020-01-02"] * 60, dtype="datetime64[D]"),
    "intervals": pd.cut(X["a"], 3).astype(object).to_numpy(),
    "bytes": np.array([b"a", b"b"] * 60),
    "mixed": np.array(["a", 1] * 60, dtype=object),
    "lists": pd.Series([[1, 2], [3, 4]] * 60),
}


@pytest.mark.parametrize("y", BAD_GRADES.values(), ids=BAD_GRADES.keys())
def test_grades_that_no_folder_could_hold_are_refused_at_fit(y):
    with pytest.raises(UserError, match=r"must (hold text, numbers or booleans|be of one kind)"):
        make_model(grades=None).fit(X, y)


@pytest.mark.parametrize("grades", ["low", 5, [], [["low"]], ["low", "low"], ["low", 1], [1.0, np.nan]])
def test_lists_of_grades_that_are_none_are_refused(grades):
    with pytest.raises(UserError, match="grades must"):
        make_model(grades=grades).fit(X, Y)
