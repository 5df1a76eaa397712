"""Programs that run in environments of their own, beside this package: they import nothing from it."""
