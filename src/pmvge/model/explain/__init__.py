"""What makes up a prediction: the terms of a sum, entities and features behind them."""
