"""wu2020: several owners answer gradient queries with noise; what their collaboration is worth."""
