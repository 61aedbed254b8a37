"""A config that is right, for tests that spoil it."""

from spnn_system import config

GOOD = """
run = "first-try"
source = "stand-in"
[network]
bandwidth = "100 Mbps"
[protocol]
name = "ss"
[model]
hidden = [8, 4]
activation = ["sigmoid", "relu"]
[training]
train_rows = 8000
batch = 3000
[coordinator]
address = "127.0.0.1:50050"
[server]
address = "127.0.0.1:50051"
[dealer]
address = "127.0.0.1:50052"
[[holder]]
name = "A"
address = "127.0.0.1:50053"
data = "rows/A.parquet"
[[holder]]
name = "bank"
address = "127.0.0.1:50054"
data = "B.csv"
labels = "fraud"
"""


def loaded(tmp_path, text=GOOD, name="run.toml"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return config.load(path)
