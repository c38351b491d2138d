"""From a graph to a fitted model: training, priors, updates, calibration."""
