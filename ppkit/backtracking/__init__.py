"""kanodia2020: three banks, a curious aggregator, and what gradients give away about rows."""
