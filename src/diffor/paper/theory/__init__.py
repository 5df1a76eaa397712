"""The paper's theorems as measurements on a trained model of its chain, with their figures, and on small exact ones.

It may import estimators, reports and everything below."""
