"""What people look at: figures, the page about one model, the demonstration.

It reads fitted models and predictions, may import estimators and everything below, and trains only in the demo."""
