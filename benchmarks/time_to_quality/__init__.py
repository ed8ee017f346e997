"""Minutes until our model is as good as a model of `neuralforecast`, on the same windows."""
