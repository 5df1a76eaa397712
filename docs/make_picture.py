"""Draw the README's picture: ``python docs/make_picture.py`` writes docs/demo.svg and prints its caption."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from scipy.stats import binom

from diffor.reports import plots
from diffor.reports.demo import BOUNDS, COVERAGE, answer_of, fit_diffor, load_split


def main() -> None:
    """Fit the demonstration's model and draw two of its figures side by side."""
    split = load_split(seed=0)
    prediction = answer_of(fit_diffor(split, seed=0), split).prediction
    # Letters stay letters: the picture is a third of the size, and a test reads what it says.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "diffor"}):
        figure = Figure(figsize=(11, 5), layout="constrained")
        left, right = figure.subplots(1, 2)
        plots.predicted_against_true(split.y_test, prediction, COVERAGE, ax=left)
        plots.predictive_densities(prediction, split.y_test, bounds=BOUNDS, ax=right)
        figure.savefig(Path(__file__).parent / "demo.svg", facecolor="white", metadata={"Date": None})
    low, high = prediction.interval(COVERAGE).T
    held, count = int(((low <= split.y_test) & (split.y_test <= high)).sum()), len(split.y_test)
    least, most = (int(binom.ppf(tail, count, COVERAGE)) for tail in (0.025, 0.975))
    print(
        f"{len(split.y_train)} rows to learn from: the {100 * COVERAGE:.0f} % intervals hold {held} of {count} new rows"
    )
    print(f"({held / count:.0%}). A calibrated model would hold {least} to {most}.")


if __name__ == "__main__":
    main()
