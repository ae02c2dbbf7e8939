"""One module per task: read, featurize, model, loss, metrics, outputs."""
