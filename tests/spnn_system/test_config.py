"""The config of a network run: what it says, and every mistake as one sentence before anything
starts.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from good_config import GOOD, loaded
from waiting import FAR

from ppkit import models
from ppkit.spnn import paillier_keys, protocols, training
from spnn_system import config
from spnn_system.transport.addresses import Address


def test_what_the_file_says_and_what_it_leaves_out(tmp_path):
    read = loaded(tmp_path)
    assert read.roles == ("coordinator", "server", "dealer", "A", "bank") and read.names == (
        "A",
        "bank",
    )
    assert read.addresses == {
        role: Address("127.0.0.1", 50050 + i) for i, role in enumerate(read.roles)
    }
    assert (
        read.label_holder == "bank"
        and read.holder("bank").labels == "fraud"
        and read.holder("A").labels is None
    )
    assert (
        read.holder("A").data == tmp_path / "rows/A.parquet"
        and read.folder_of("A") == tmp_path / "run" / "A"
    )
    assert read.network == config.Network(
        certificates=tmp_path / "certificates",
        timeout=10.0,
        bandwidth=1e8,
        latency=0.0,
        record=False,
    )
    assert read.protocol == config.Protocol(name="ss", form="lean", key_bits=None, secrets="os")
    assert read.model == config.Model(hidden=(8, 4), activation=("sigmoid", "relu"))
    assert read.training == config.Training(
        train_rows=8000,
        epochs=1,
        batch=3000,
        lr=5.0,
        optimiser="sgd",
        order="fixed",
        seed=0,
        checkpoint_every=10,
        threads=1,
    )
    assert read.training.steps_per_epoch == 3 and read.protocol.choices == {}
    assert read.holder("bank") is read.holders[1]


def test_a_file_is_called_as_its_user_called_it_and_a_folder_stands_for_its_config(
    tmp_path, monkeypatch
):
    loaded(tmp_path)
    (tmp_path / "my run").mkdir()
    (tmp_path / "my run/config.toml").write_text(GOOD, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert (
        config.load("run.toml").typed == "run.toml"
        and config.load("my run").typed == "'my run/config.toml'"
    )
    assert (
        config.load("run.toml").path == tmp_path / "run.toml"
        and config.load("my run").path == tmp_path / "my run/config.toml"
    )


def test_paths_are_those_of_the_file_wherever_the_reader_stands(tmp_path, monkeypatch):
    loaded(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert config.load("../run.toml").holder("bank").data == tmp_path / "B.csv"


def test_one_activation_stands_for_all_and_he_has_its_key(tmp_path):
    text = GOOD.replace('activation = ["sigmoid", "relu"]', 'activation = "relu"').replace(
        'name = "ss"', 'name = "he"'
    )
    read = loaded(tmp_path, text)
    assert read.model.activation == ("relu", "relu")
    assert (
        read.protocol.choices == {"key_bits": 2048, "teaching": False}
        and read.protocol.form is None
    )
    # it may stand there, for a try of ss
    assert "dealer" not in read.roles
    taught = loaded(
        tmp_path, text.replace('name = "he"', 'name = "he"\nkey_bits = 512\nsecrets = "teaching"')
    )
    assert taught.protocol.choices == {"key_bits": 512, "teaching": True}


def test_without_a_dealer_two_holders_have_keys(tmp_path):
    text = GOOD.replace('[dealer]\naddress = "127.0.0.1:50052"\n', "").replace(
        'name = "ss"', 'name = "ss"\nform = "dealerless"'
    )
    read = loaded(tmp_path, text)
    assert read.roles == ("coordinator", "server", "A", "bank")
    assert read.protocol.choices == {"key_bits": 2048, "teaching": False}
    # all roles agree on the length of keys
    for bits, same in ((2048, True), (3072, False)):
        given = text.replace('"dealerless"', f'"dealerless"\nkey_bits = {bits}')
        assert (loaded(tmp_path, given).digest == read.digest) == same
    third = '[[holder]]\nname = "C"\naddress = "127.0.0.1:50055"\ndata = "C.csv"'
    sentence = "[protocol] form 'dealerless' is for 2 [[holder]], got 3"
    with pytest.raises(ValueError, match=re.escape(sentence) + "$"):
        loaded(tmp_path, text + third)
    small = text.replace('"dealerless"', '"dealerless"\nkey_bits = 512')
    with pytest.raises(ValueError, match="key_bits must be at least 2048, got 512"):
        loaded(tmp_path, small)
    taught = loaded(tmp_path, small.replace("= 512", '= 512\nsecrets = "teaching"'))
    assert taught.protocol.choices == {"key_bits": 512, "teaching": True}


@pytest.mark.parametrize(
    "given, bits",
    [
        ("0", 0.0),
        ("2500", 2500.0),
        ('"100 Kbps"', 1e5),
        ('"1 Gbps"', 1e9),
        ('"2.5 Mbps"', 2.5e6),
        ('"8 bps"', 8.0),
    ],
)
def test_bandwidth_in_numbers_and_words(tmp_path, given, bits):
    assert loaded(tmp_path, GOOD.replace('"100 Mbps"', given)).network.bandwidth == bits


def test_the_words_are_those_of_the_modules_they_stand_for():
    """config.py loads no torch, and so has its own lists."""
    assert config.PROTOCOLS == protocols.PROTOCOLS
    assert set(config.FORMS) == set(protocols.FORMS)
    assert (
        set(config.ACTIVATIONS) == set(models.ACTIVATIONS)
        and config.SECURE_KEY_BITS == paillier_keys.SECURE_BITS
    )
    for order in training.ORDERS:
        config.table(config.Training, {"train_rows": 1, "order": order}, "[training]")


@pytest.mark.processes
def test_a_light_start():
    """The coordinator's process loads neither torch nor pandas, nor does who only reads a
    config.
    """
    code = (
        "import sys\nfrom spnn_system import __main__, config, preflight\nfrom spnn_system.roles "
        "import coordinator\n"
        "print([name for name in ('torch', 'pandas', 'typer') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=FAR
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


def test_the_digest_says_what_must_be_the_same_for_all_roles_and_for_a_resumed_run(tmp_path):
    same = loaded(tmp_path).digest
    for old, new in [
        ("100 Mbps", "1 Gbps"),
        ("50054", "60054"),
        ("rows/A.parquet", "A.csv"),
        ("[network]", "[network]\ntimeout = 3"),
        ("[network]", "[network]\nrecord = true"),
        ("[network]", 'folder = "other"\n[network]'),
        ('name = "ss"', 'name = "ss"\nform = "lean"'),
        ("batch = 3000", "batch = 3000\nlr = 5"),
    ]:
        assert old in GOOD and loaded(tmp_path, GOOD.replace(old, new, 1)).digest == same, new
    for old, new in [
        ("first-try", "second"),
        ('"ss"', '"masked"'),
        ("[8, 4]", "[8, 5]"),
        ("batch = 3000", "batch = 2999"),
        ("batch = 3000", "batch = 3000\nlr = 1e-3"),
        ("batch = 3000", "batch = 3000\nepochs = 2"),
        ('"relu"', '"sigmoid"'),
        ('"A"', '"C"'),
        ("train_rows = 8000", "train_rows = 7000"),
        ('source = "stand-in"', 'source = "real"'),
        ('name = "ss"', 'name = "ss"\nform = "published"'),
        ('name = "ss"', 'name = "ss"\nsecrets = "teaching"'),
    ]:
        assert old in GOOD and loaded(tmp_path, GOOD.replace(old, new, 1)).digest != same, new
    exchanged = GOOD.replace('labels = "fraud"\n', "").replace(
        'rows/A.parquet"', 'rows/A.parquet"\nlabels = "fraud"'
    )
    assert loaded(tmp_path, exchanged).digest != same


B = '[[holder]]\nname = "bank"'


WRONG = [
    ('run = "first-try"', "", "the config has no run: it must be letters, digits, "),
    (
        'run = "first-try"',
        'run = "a/b"',
        "run must be letters, digits, '.', '-' and '_', at most 64, got 'a/b'",
    ),
    ('source = "stand-in"', "source = 3", "source must be text, got 3"),
    (
        'source = "stand-in"',
        'source = "stand-in"\nfoldr = "x"',
        "the config has no key 'foldr': there are run, folder, source, network, ",
    ),
    ("[network]", "network = 3\n[netwrk]", "the config has no key 'netwrk': there are run,"),
    (
        "[network]\nbandwidth",
        "[network]\nspeed = 3\nbandwidth",
        "[network] has no key 'speed': there are bandwidth, latency, timeout,",
    ),
    (
        '"100 Mbps"',
        '"fast"',
        "[network] bandwidth must be a number of bits per second >= 0 (0: no limit), or such as "
        '"100 Kbps", "100 Mbps", "1 Gbps", got \'fast\'',
    ),
    ('"100 Mbps"', '"-1 Mbps"', "got '-1 Mbps'"),
    ('"100 Mbps"', "-1", "got -1"),
    ('"100 Mbps"', "inf", "got inf"),
    ('"100 Mbps"', "true", "got True"),
    ('"100 Mbps"', '"100 MBps"', "got '100 MBps'"),
    (
        "[network]",
        "[network]\ntimeout = 0",
        "[network] timeout must be seconds, 0.5 to 3600, got 0",
    ),
    (
        "[network]",
        "[network]\ntimeout = nan",
        "[network] timeout must be seconds, 0.5 to 3600, got nan",
    ),
    (
        "[network]",
        "[network]\nlatency = -0.1",
        "[network] latency must be seconds, 0 to 10, got -0.1",
    ),
    (
        "[network]",
        "[network]\ntimeout = 1\nlatency = 1",
        "[network] latency must be below the timeout of 1.0 s, got 1.0",
    ),
    ("[network]", "[network]\nrecord = 1", "[network] record must be true or false, got 1"),
    (
        'name = "ss"',
        'name = "mpc"',
        "[protocol] name must be one of plain, ss, he, masked, got 'mpc'",
    ),
    ('name = "ss"', "", "[protocol] has no name: it must be one of plain, ss, he, masked"),
    (
        'name = "ss"',
        'name = "ss"\nform = "fat"',
        "[protocol] form must be one of lean, published, dealerless, got 'fat'",
    ),
    (
        'name = "ss"',
        'name = "masked"\nform = "lean"',
        "[protocol] form is a choice of 'ss', got 'lean' with 'masked'",
    ),
    (
        'name = "ss"',
        'name = "ss"\nkey_bits = 2048',
        "[protocol] key_bits is a choice of 'he' and of form 'dealerless', got 2048 with 'ss'",
    ),
    (
        'name = "ss"',
        'name = "he"\nkey_bits = 512',
        '[protocol] key_bits must be at least 2048, got 512; secrets = "teaching"',
    ),
    (
        'name = "ss"',
        'name = "he"\nkey_bits = 2050',
        "[protocol] key_bits must be a multiple of 16, at least 64, got 2050",
    ),
    (
        'name = "ss"',
        'name = "ss"\nsecrets = "mine"',
        "[protocol] secrets must be one of os, teaching, got 'mine'",
    ),
    ("[8, 4]", "[]", "[model] hidden must be a list of widths, each 1 to 100000, got []"),
    ("[8, 4]", "[8, 0]", "[model] hidden must be a list of widths, each 1 to 100000, got [8, 0]"),
    ("[8, 4]", "8", "[model] hidden must be a list of widths, each 1 to 100000, got 8"),
    (
        "[8, 4]",
        "[8, 8, 8]",
        "[model] activation must be one name or 3, one a hidden layer, got ['sigmoid', 'relu']",
    ),
    (
        '"relu"',
        '"tanh"',
        "[model] activation must be one of sigmoid, relu, piecewise, or a list of them, one a "
        "hidden layer, got ",
    ),
    ("[8, 4]", "[8, 4]\nclasses = 1", "classes must be a whole number of 2 to 100000, got 1"),
    (
        "[8, 4]",
        '[8, 4]\nlayers_sha256 = "ab"',
        "[model] layers_sha256 must be 64 hexadecimal digits, or \"\", got 'ab'",
    ),
    (
        'hidden = [8, 4]\nactivation = ["sigmoid", "relu"]',
        f'hidden = [8]\nlayers_sha256 = "{"ab" * 32}"',
        "[model] hidden must be the widths of h1 and of h_L where the server has its own layers "
        "between them, got [8]",
    ),
    (
        '127.0.0.1:50051"',
        '127.0.0.1:50051"\nlayers = "mine.py"',
        "[server] layers needs [model] layers_sha256, which all roles compare: `sha256sum mine.py`",
    ),
    ("train_rows = 8000", "", "[training] has no train_rows: it must be a whole number >= 1"),
    (
        "train_rows = 8000",
        "train_rows = 0",
        "[training] train_rows must be a whole number >= 1, got 0",
    ),
    ("batch = 3000", "batch = 0", "[training] batch must be a whole number >= 1, got 0"),
    ("batch = 3000", "batch = 3000.0", "[training] batch must be a whole number >= 1, got 3000.0"),
    (
        "batch = 3000",
        "batch = 3000\nepochs = true",
        "[training] epochs must be a whole number >= 1, got True",
    ),
    ("batch = 3000", "batch = 3000\nlr = 0", "[training] lr must be a finite number > 0, got 0"),
    (
        "batch = 3000",
        "batch = 3000\nlr = inf",
        "[training] lr must be a finite number > 0, got inf",
    ),
    (
        "batch = 3000",
        'batch = 3000\noptimiser = "lion"',
        "[training] optimiser must be one of sgd, sgld, adadelta, adagrad, adam, adamax, adamw, "
        "nadam, radam, rmsprop, got 'lion'",
    ),
    (
        "batch = 3000",
        'batch = 3000\norder = "random"',
        "[training] order must be one of fixed, reshuffled, got 'random'",
    ),
    (
        "batch = 3000",
        "batch = 3000\nseed = -1",
        "[training] seed must be a whole number >= 0, got -1",
    ),
    (
        "batch = 3000",
        "batch = 3000\ncheckpoint_every = 0",
        "[training] checkpoint_every must be a whole number >= 1, got 0",
    ),
    (
        "batch = 3000",
        "batch = 3000\nthreads = 0",
        "[training] threads must be a whole number of 1 to 256, got 0",
    ),
    (
        '[coordinator]\naddress = "127.0.0.1:50050"',
        "",
        "[coordinator] has no address: it must be host:port",
    ),
    ('[server]\naddress = "127.0.0.1:50051"', "", "[server] has no address: it must be host:port"),
    ('[dealer]\naddress = "127.0.0.1:50052"', "", "[dealer] has no address: it must be host:port"),
    (
        '[server]\naddress = "127.0.0.1:50051"',
        "[server]",
        "[server] has no address: it must be host:port",
    ),
    (B, '[[holder]]\nname = "a"', "[[holder]] name 'a' is another role's, in whatever case"),
    (B, "[[holder]]", "[[holder]] 2 has no name: it must be letters, digits, - and _"),
    (
        B,
        '[[holder]]\nname = "../x"',
        "name must be letters, digits, - and _, a letter first, at most 32, got '../x'",
    ),
    (B, '[[holder]]\nname = "Server"', "[[holder]] name 'Server' is another role's"),
    (GOOD[GOOD.index(B) :], "", "there must be at least 2 [[holder]], each with name, address and"),
    (
        GOOD[GOOD.index("[[holder]]") :],
        "[holder]\nname = 'A'",
        "there must be at least 2 [[holder]], each with name, address and data",
    ),
    ('labels = "fraud"', "", "exactly one [[holder]] must have labels, got 0"),
    (
        'data = "rows/A.parquet"',
        'data = "A.parquet"\nlabels = "y"',
        "exactly one [[holder]] must have labels, got 2",
    ),
    (
        'data = "B.csv"',
        'data = "B.xlsx"',
        "[[holder]] 2 data must be a .parquet or .csv file, got 'B.xlsx'",
    ),
    ('data = "B.csv"', "", "[[holder]] 2 has no data: it must be a .parquet or .csv file"),
    (
        'data = "B.csv"',
        'data = "B.csv"\nlabel = "y"',
        "[[holder]] 2 has no key 'label': there are address, name, data, labels",
    ),
    (
        "127.0.0.1:50054",
        "127.0.0.1",
        "[[holder]] 2 address must be host:port, where the others reach this role, with a port of "
        "1 to 65535, got '127.0.0.1'",
    ),
    ("127.0.0.1:50054", "127.0.0.1:0", "65535, got '127.0.0.1:0'"),
    ("127.0.0.1:50054", "127.0.0.1:65536", "got '127.0.0.1:65536'"),
    ("127.0.0.1:50054", ":50054", "got ':50054'"),
    ("127.0.0.1:50054", "::1:50054", "got '::1:50054'"),
    ("127.0.0.1:50054", "a:b", "got 'a:b'"),
    ("127.0.0.1:50054", "127.0.0.1:50053", "A and bank have the same address 127.0.0.1:50053"),
    ("127.0.0.1:50051", "127.0.0.1:50054", "server and bank have the same address 127.0.0.1:50054"),
    ("127.0.0.1:50054", "0.0.0.0:50054", "got '0.0.0.0:50054'"),
    ("127.0.0.1:50054", "[::]:50054", "got '[::]:50054'"),
    ("[8, 4]", "[8, 4", "run.toml is not TOML: "),
    (
        "batch = 3000",
        "batch = 3000\nbatch = 2",
        "run.toml is not TOML: Cannot overwrite a value (at line ",
    ),
    (
        "[network]",
        "[server]\n[network]",
        "run.toml is not TOML: Cannot declare ('server',) twice (at line ",
    ),
]


@pytest.mark.parametrize(
    "old, new, sentence",
    WRONG,
    ids=[f"{i}: {sentence[:40]}" for i, (_, _, sentence) in enumerate(WRONG)],
)
def test_every_mistake_is_one_sentence_with_the_key_the_value_and_what_is_accepted(
    tmp_path, old, new, sentence
):
    assert old in GOOD
    with pytest.raises(ValueError) as refused:
        loaded(tmp_path, GOOD.replace(old, new, 1))
    assert (
        sentence in str(refused.value)
        and str(refused.value).startswith(f"{tmp_path}/run.toml")
        and "\n" not in str(refused.value)
    )


def test_files_that_are_not_there_or_not_text(tmp_path):
    for path in (tmp_path / "run.toml", tmp_path, Path("/dev/null")):
        named = path / "config.toml" if path.is_dir() else path
        sentence = re.escape(f"the config file {named} is not there: ")
        with pytest.raises(FileNotFoundError, match=sentence):
            config.load(path)
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="run.toml is not TOML: "):
        config.load(tmp_path / "run.toml")
