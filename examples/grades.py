"""Ordered grades: probabilities of each grade, and decisions for different goals. Runs in seconds."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from diffor import DiffoRClassifier, metrics

GRADES = ["mild", "moderate", "severe"]

X, y = load_diabetes(return_X_y=True, as_frame=True)
grade = np.array(GRADES)[np.digitize(y, [100, 200])]
X_train, X_test, grade_train, grade_test = train_test_split(X, grade, random_state=0)

model = DiffoRClassifier("fast", grades=GRADES, random_state=0).fit(X_train, grade_train)
first = dict(zip(model.classes_.tolist(), model.predict_proba(X_test)[0].round(2).tolist(), strict=True))
print("probabilities for the first patient:", {grade: first[grade] for grade in GRADES})
truth = [GRADES.index(one) for one in grade_test]
for decision in ("median", "mode", "qwk"):
    answer = [GRADES.index(one) for one in model.predict(X_test, decision)]
    print(f"{decision:>6}: {metrics.mae(truth, answer):.3f} grades off, kappa {metrics.qwk(truth, answer, 3):.3f}")
