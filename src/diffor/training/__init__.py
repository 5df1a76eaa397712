"""The one training loop and what it runs on: batches, optimizers, several processes, checkpoints, trackers, streams.

It knows methods and encoders by their contracts only, and may import them and the rooms below."""
