"""Draw the README's picture: ``python docs/make_picture.py`` writes docs/demo.svg."""

from pathlib import Path

from matplotlib.figure import Figure

from diffor.reports import plots
from diffor.reports.demo import BOUNDS, answer_of, fit_diffor, load_split


def main() -> None:
    """Fit the demonstration's model and draw two of its figures side by side."""
    split = load_split(seed=0)
    prediction = answer_of(fit_diffor(split, seed=0), split).prediction
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.predicted_against_true(split.y_test, prediction, ax=left)
    plots.predictive_densities(prediction, split.y_test, bounds=BOUNDS, ax=right)
    figure.savefig(Path(__file__).parent / "demo.svg", facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    main()
