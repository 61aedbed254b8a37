"""ppkit: four papers on privacy-preserving learning on financial data, rerun and re-tested.

The package backs the notebooks; each module says one thing and imports only from modules below it
(CONTRIBUTING has the rooms).
"""
