"""wu2020: owners of records, a learner who asks them for noisy gradients, theorems, forecasts,
coalitions."""
