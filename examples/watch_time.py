"""Watch time: DiffoR beside two methods of that domain, on the same encoder and rows. Runs in under a minute.

The table is generated: views of videos that are watched to their end, left early, or anything between. The duration is
an input of every method; CWM also reads it as a side column, to know which views the end of the video cut off. Errors
are those of the median and orders (XAUC: the share of pairs of views in the right order) those of the mean, for all.

    python examples/watch_time.py             3,000 views to learn from
    python examples/watch_time.py --quick     a few steps on a few of them: does it run?
"""

import sys
import time

from diffor import OrdinalRegressor, metrics
from diffor.datasets import DATASETS
from diffor.methods import METHODS

is_quick = "--quick" in sys.argv[1:]
less = {"max_steps": 20} if is_quick else {}
dataset = DATASETS["synthetic-watch-time"]
samples, (train, test) = dataset.read(None), dataset.split(None, 0)
train, test = (train[:300], test[:200]) if is_quick else (train[:3000], test)

print(f"{len(train)} views to learn from, {len(test)} new ones\n")
print(f"{'method':<8} {'MAE':>7} {'XAUC':>7} {'seconds':>8}")
for name in ("diffor", "cread", "cwm"):
    started = time.monotonic()
    side = {column: samples.side[column] for column in METHODS[name].requires}
    model = OrdinalRegressor(name, preset="fast", encoder="piecewise", random_state=0, verbose=0, **less)
    model.fit(samples.x.iloc[train], samples.y[train], **{column: values[train] for column, values in side.items()})
    answer = model.predict_distribution(samples.x.iloc[test], **{key: values[test] for key, values in side.items()})
    error, order = metrics.mae(samples.y[test], answer.median), metrics.xauc(samples.y[test], answer.mean)
    print(f"{name:<8} {error:>7.3f} {order:>7.4f} {time.monotonic() - started:>8.1f}", flush=True)
