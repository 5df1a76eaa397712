"""Guaranteed intervals: rows kept out of training make 90 % mean 90 %. Runs in seconds."""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from diffor import DiffoRRegressor, metrics

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, random_state=0)
X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)

model = DiffoRRegressor("fast", bounds=(25, 346), random_state=0).fit(X_train, y_train)
print(f"median: {metrics.mae(y_test, model.predict(X_test)):.1f} off on average")
for name in ("model's own", "conformal"):
    low, high = model.predict_interval(X_test, coverage=0.9).T
    covered, width = metrics.coverage(y_test, low, high), metrics.interval_width(low, high)
    print(f"{name:>11} 90 % intervals: coverage {covered:.3f}, mean width {width:.0f}")
    model.conformalize(X_cal, y_cal)  # from here on the intervals are guaranteed, for any coverage
