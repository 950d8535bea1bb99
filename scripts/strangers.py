#!/usr/bin/env python3
"""What verifiers that others wrote say of an exported log: `strangers.py OUT`.

sigstore's Merkle and signed-note code, cbor2's canonical encoder, and docs/verify_proof.py, the latter
also with one bit of each byte flipped. Run by scripts/verify-by-strangers, which installs them.
"""

import base64
import hashlib
import pathlib
import sys
import types

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sigstore._internal.merkle import verify_merkle_inclusion
from sigstore._internal.rekor.checkpoint import SignedCheckpoint
from sigstore.errors import VerificationError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "docs"))
import verify_proof  # noqa: E402

out = pathlib.Path(sys.argv[1])
vkey = (out / "vkey").read_text().strip()
proof = (out / "row.tlog-proof").read_bytes().decode()
leaf = (out / "row.leaf.cbor").read_bytes()


class Keyring:
    """The log's key, as sigstore asks for it."""

    def verify(self, *, key_id, signature, data):
        key = base64.b64decode(vkey.split("+", 2)[2])[1:]
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)


def by_sigstore():
    checkpoints = []
    for name in ["checkpoint", "checkpoint.old"]:
        signed = SignedCheckpoint.from_text((out / name).read_bytes().decode())
        signed.signed_note.verify(Keyring(), bytes.fromhex(vkey.split("+")[1]))
        checkpoints.append(signed.checkpoint)
    newest, old = checkpoints
    assert old.log_size < newest.log_size, "checkpoint.old is not older"
    head = proof.split("\n\n", 1)[0].split("\n")
    inclusion = types.SimpleNamespace(
        log_index=int(head[1].split(" ")[1]),
        tree_size=newest.log_size,
        root_hash=bytes.fromhex(newest.log_hash),
        hashes=[base64.b64decode(line) for line in head[2:]],
    )

    def included(body):
        inner = types.SimpleNamespace(inclusion_proof=inclusion, canonicalized_body=body)
        verify_merkle_inclusion(types.SimpleNamespace(_inner=inner))

    included(leaf)
    try:
        included(leaf[:-1] + bytes([leaf[-1] ^ 1]))
    except VerificationError:
        return newest.log_size
    raise AssertionError("sigstore accepted a leaf that was changed")


def index_path(index):
    groups = [f"{index % 1000:03}"]
    while index := index // 1000:
        groups.insert(0, f"x{index % 1000:03}")
    return "/".join(groups)


def by_cbor2(size):
    """Every leaf of every bundle: decoded and encoded again, and hashed into its tile."""
    leaves = 0
    while leaves < size:
        index, width = leaves // 256, min(256, size - leaves)
        name = index_path(index) + ("" if width == 256 else f".p/{width}")
        bundle = (out / "tile/entries" / name).read_bytes()
        hashes, at = [], 0
        while at < len(bundle):
            length = int.from_bytes(bundle[at : at + 2], "big")
            entry = bundle[at + 2 : at + 2 + length]
            assert len(entry) == length, f"bundle {name} is cut"
            again = cbor2.dumps(cbor2.loads(entry), canonical=True)
            assert again == entry, f"leaf {leaves + len(hashes)} is not canonical: {entry.hex()}"
            hashes.append(hashlib.sha256(b"\0" + entry).digest())
            at += 2 + length
        assert len(hashes) == width, f"bundle {name} has {len(hashes)} leaves"
        assert b"".join(hashes) == (out / "tile/0" / name).read_bytes(), f"tile 0/{name} differs"
        leaves += width
    return leaves


def by_script():
    """Accepted as it is, and with no byte changed."""
    verify_proof.verify(proof, leaf, vkey)
    text, tried = proof.encode(), 0
    for at in range(len(text) + len(leaf)):
        changed = bytearray(text + leaf)
        changed[at] ^= 1
        tried += 1
        try:
            verify_proof.verify(changed[: len(text)].decode(), bytes(changed[len(text) :]), vkey)
        except (verify_proof.Refused, verify_proof.InvalidSignature, ValueError, IndexError):
            continue
        raise AssertionError(f"docs/verify_proof.py accepted a change of byte {at}")
    return tried


size = by_sigstore()
print(f"sigstore: both notes and the row of a log of {size} rows")
print(f"cbor2: {by_cbor2(size)} leaves encoded again byte for byte")
print(f"docs/verify_proof.py: accepted as it is, refused with each of {by_script()} bytes changed")
