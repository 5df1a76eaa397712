"""Guaranteed intervals: rows kept out of training tell how wide they must be. Runs in seconds."""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from diffor import DiffoRRegressor, metrics

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, random_state=0)
X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)

model = DiffoRRegressor("fast", bounds=(25, 346), random_state=0).fit(X_train, y_train)
model.conformalize(X_cal, y_cal)
print(f"median: {metrics.mae(y_test, model.predict(X_test)):.1f} off on average")
for wanted in (0.5, 0.8, 0.9):  # every coverage may be asked for, from the same calibration
    low, high = model.predict_interval(X_test, wanted).T
    covered, width = metrics.coverage(y_test, low, high), metrics.interval_width(low, high)
    print(f"{wanted:.0%} intervals: coverage {covered:.3f} on {len(y_test)} new rows, mean width {width:.0f}")
