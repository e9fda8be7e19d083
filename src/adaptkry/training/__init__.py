"""How models are trained: fit, the training loop, batches, runs and predictions."""
