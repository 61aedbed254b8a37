"""Files for TLS that do not fit are named, with what is wrong, before Dask is asked."""

import datetime
import getpass
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ppkit.runs import Refused, tls

PEM = serialization.Encoding.PEM
DAY = datetime.timedelta(days=1)
USES = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment"]
USES += ["key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]


class Authority:
    """Keys and certificates: its own, and those that it issues."""

    def __init__(self, folder, name: str = "authority"):
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.cert = self._signed(self.name, self.key, -DAY, DAY, ca=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.cert.public_bytes(PEM))

    def _signed(self, subject, key, begins, ends, *, ca):
        now = datetime.datetime.now(datetime.UTC)
        number = x509.random_serial_number()
        builder = x509.CertificateBuilder(self.name, subject, key.public_key(), number)
        builder = builder.not_valid_before(now + begins).not_valid_after(now + ends)
        limits = x509.BasicConstraints(ca=ca, path_length=None)
        uses = dict.fromkeys(USES, False) | {"digital_signature": not ca, "key_cert_sign": ca}
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(limits, critical=True)
        builder = builder.add_extension(x509.KeyUsage(**uses), critical=True)  # asked since 3.13
        builder = builder.add_extension(issuer, critical=False)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return builder.add_extension(own, critical=False).sign(self.key, hashes.SHA256())

    def issue(self, name: str, begins=-DAY, ends=DAY, password: bytes | None = None) -> dict:
        """The files of one who belongs to the run, as `tls.knock` takes them."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        cert = self._signed(subject, key, begins, ends, ca=False)
        none = serialization.NoEncryption()
        how = serialization.BestAvailableEncryption(password) if password else none
        files = (self.file, self.folder / f"{name}-cert.pem", self.folder / f"{name}-key.pem")
        files[1].write_bytes(cert.public_bytes(PEM))
        files[2].write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, how))
        return dict(zip(tls.FILES, files))


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture(autouse=True)
def nobody_is_asked(monkeypatch):
    def asked(*_):
        raise AssertionError("a password was asked for")

    monkeypatch.setattr(getpass, "getpass", asked)
    monkeypatch.setattr("builtins.input", asked)


@pytest.mark.parametrize("which", tls.FILES)
@pytest.mark.parametrize("what", ["missing", "a folder", "no PEM", "empty"])
def test_a_file_that_is_none_is_named(authority, which, what):
    files = authority.issue("me")
    file, option = files[which], f"--{which.replace('_', '-')}"
    file.unlink()
    if what == "a folder":
        file.mkdir()
    elif what != "missing":
        file.write_bytes(b"\x30\x82DER" if what == "no PEM" else b"")
    with pytest.raises(Refused, match=option):
        tls.knock("127.0.0.1", 1, tls.given(files))


def test_a_certificate_and_a_key_that_are_no_pair_are_named(authority):
    mine, others = authority.issue("me"), authority.issue("others")
    for files in (
        mine | {"tls_client_key": others["tls_client_key"]},
        mine | {"tls_client_cert": mine["tls_client_key"]},
        authority.issue("locked", password=b"secret"),
    ):
        with pytest.raises(Refused, match="are no certificate and its key, in PEM and without a"):
            tls.knock("127.0.0.1", 1, files)


class Listener:
    """Answers one connection as it is told; over in the block's end."""

    def __init__(self, answer):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.thread = threading.Thread(target=self._once, args=(answer,))

    def _once(self, answer) -> None:
        line, _ = self.server.accept()
        with line:
            try:
                answer(line)
            except OSError:
                pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join()
        self.server.close()


def over_tls(files):
    """A scheduler's side: it wants a certificate of its authority, and speaks first."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files["tls_ca_file"])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files["tls_client_cert"], files["tls_client_key"])

    def answer(line):
        with context.wrap_socket(line, server_side=True) as wrapped:
            wrapped.send(b"hello")

    return answer


def test_what_is_wrong_with_the_other_end_is_said(authority, tmp_path):
    mine, theirs = authority.issue("me"), authority.issue("scheduler")
    (tmp_path / "others").mkdir()
    strange = Authority(tmp_path / "others").issue("strange")
    with Listener(over_tls(theirs)) as there:
        tls.knock("127.0.0.1", there.port, mine)
    old = authority.issue("me", -2 * DAY, -DAY)
    with Listener(over_tls(theirs)) as there, pytest.raises(Refused, match="certificate expired"):
        tls.knock("127.0.0.1", there.port, old)
    mine = authority.issue("me")
    cases = [
        (over_tls(strange), mine, "shows a certificate that .* does not vouch for: "),
        (
            over_tls(
                strange
                | {"tls_client_cert": theirs["tls_client_cert"]}
                | {"tls_client_key": theirs["tls_client_key"]}
            ),
            mine,
            "does not take .*me-cert.pem .--tls-client-cert.: ",
        ),
        (lambda line: line.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n"), mine, "not speak TLS"),
    ]
    for answer, files, sentence in cases:
        with Listener(answer) as there, pytest.raises(Refused, match=sentence):
            tls.knock("127.0.0.1", there.port, files)
    with pytest.raises(Refused, match="no scheduler answers at tls://127.0.0.1:.*refused"):
        tls.knock("127.0.0.1", there.port, mine)
    with pytest.raises(Refused, match="at tls://a..b:1: 'a..b' is no name of a host"):
        tls.knock("a..b", 1, mine)
