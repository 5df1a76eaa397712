"""Methods compared: the plan of a run, its cells, leaderboards, printed figures of others, and other people's packages.

It may import reports, export, estimators and everything below."""
