"""What fits the stand-ins of `ppkit.datasets.standins` to real rows and measures them."""
