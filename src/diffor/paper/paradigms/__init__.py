"""The paper's four arguments against other ways of modelling, measured on data whose truth is known.

Each function trains methods on rows of a known law, DiffoR among them, and gives JSON values; ``quick=True`` takes
seconds and learns next to nothing. Beside each stand its tables, and in ``figures`` its drawing. It may import reports,
estimators and everything below."""
