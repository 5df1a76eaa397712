"""The four large tables: what each is, where it comes from, how it is read, split and checked."""

from __future__ import annotations

from diffor.datasets.paper import lifetime, watchtime
from diffor.datasets.readers.reading import Distribution
from diffor.datasets.samples import Dataset

WATCH_TIME_METRICS = ("mae", "xauc", "xauc_strict", "rmse", "srcc", "crps", "coverage")
LIFETIME_METRICS = ("mae", "srcc", "rmse", "normalized_gini", "crps", "coverage")

WATCH_TIME = (
    Dataset(
        name="kuairec",
        description="seconds that 7,176 users watch short videos: 12.5 million rows to learn from, 4.7 million to test",
        source="KuaiRec 2.0, kuairec.com (CC BY-SA 4.0)",
        metrics=WATCH_TIME_METRICS,
        read=watchtime.read_kuairec,
        split=watchtime.split_kuairec,
    ),
    Dataset(
        name="kuairand",
        description="seconds that 26,988 users watch short videos, up to the duration: 1.3 million rows, split by date",
        source="KuaiRand-Pure, kuairand.com (CC BY-SA 4.0)",
        metrics=WATCH_TIME_METRICS,
        read=watchtime.read_kuairand,
        split=watchtime.split_kuairand,
    ),
)
"""Data sets of short videos and how long they are watched."""

LIFETIME = (
    Dataset(
        name="criteo",
        description="euros within 30 days after each of 16 million clicks; nine in ten bring nothing",
        source="Criteo Sponsored Search Conversion Log, ailab.criteo.com (CC BY-NC-SA 4.0)",
        metrics=LIFETIME_METRICS,
        read=lifetime.read_criteo,
        split=lifetime.split_criteo,
    ),
    Dataset(
        name="shoppers",
        description="dollars that customers spend with a company in the year after their first day with it",
        source="Kaggle, acquire-valued-shoppers-challenge (rules of the competition)",
        metrics=LIFETIME_METRICS,
        read=lifetime.read_shoppers,
        split=lifetime.split_shoppers,
    ),
)
"""Data sets of customers and what they bring."""

TABLE_DISTRIBUTIONS: dict[str, Distribution] = {
    distribution.name: distribution
    for distribution in (
        Distribution(
            "kuairec",
            "1.5 GB, 12,530,806 and 4,676,570 rows",
            "CC BY-SA 4.0",
            watchtime.KUAIREC_OBTAIN,
            watchtime.KuaiRec().survey,
            watchtime.check_kuairec,
        ),
        Distribution(
            "kuairand",
            "106 MB, 1,436,609 rows",
            "CC BY-SA 4.0",
            watchtime.KUAIRAND_OBTAIN,
            watchtime.KuaiRand().survey,
            watchtime.check_kuairand,
        ),
        Distribution(
            "criteo",
            "6.4 GB, 15,995,634 rows",
            "CC BY-NC-SA 4.0",
            lifetime.CRITEO_OBTAIN,
            lifetime.Criteo().survey,
            lifetime.check_criteo,
        ),
        Distribution(
            "shoppers",
            "2.9 GB gzipped, 349,655,789 rows",
            "rules of the competition, no redistribution",
            lifetime.SHOPPERS_OBTAIN,
            lifetime.Shoppers().survey,
            lifetime.check_shoppers,
        ),
    )
}
"""How the large tables reach the user, by name."""
