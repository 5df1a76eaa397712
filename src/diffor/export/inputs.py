"""What the exported program is given: the columns and images of any table, as it reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.encoders.tabular.inputs import as_categories
from diffor.export.answer import Estimator, count_features, raw_columns_of
from diffor.export.columns import CATEGORIES, NUMBERS
from diffor.export.images import PIXELS


def program_inputs(model: Estimator, X: Any) -> dict[str, NDArray[Any]]:
    """Images and columns as the program of a model reads them: pixels, numbers and days as float64, all else as texts.

    **Shape:** -> pixels ``(n, 3, side, side)``, numbers ``(n, p)``, categories ``(n, c)``, where the program has them.
    """
    rows, columns = model.open_rows(X), raw_columns_of(model)
    inputs: dict[str, NDArray[Any]] = {} if rows.images is None else {PIXELS: rows.images[:].numpy()}
    if rows.table is None:
        return inputs
    table, n_features = rows.table, count_features(model)
    fitted = model.inputs_.columns[n_features:]
    numbers = [column.read(table.iloc[:, fitted.index(column)]) for column in columns.passed]
    if numbers or not n_features:
        inputs[NUMBERS] = np.stack(numbers, axis=1) if numbers else np.zeros((len(table), 0))
    if columns.categories:
        texts = [as_categories(table.iloc[:, fitted.index(column)]) for column in columns.categories]
        inputs[CATEGORIES] = np.stack(texts, axis=1)
        inputs[CATEGORIES][pd.isna(inputs[CATEGORIES])] = columns.missing
    return inputs
