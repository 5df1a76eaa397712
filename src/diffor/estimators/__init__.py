"""The scikit-learn face: the public classes, their settings, cross-fitting, calibration, saving and tuning.

Most users import from here through ``diffor`` itself; it may import training and everything below."""
