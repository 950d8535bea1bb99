#!/usr/bin/env python3
"""Verifies one row of a Sealcast log with nothing of Sealcast.

    verify_proof.py ROW.tlog-proof ROW.leaf.cbor VKEY

An illustration that the format is open: Python's standard library and one published package for
Ed25519 (`pip install cryptography`). VKEY is the log's public key, `origin+id+base64`, which you must
know from elsewhere: a key that comes with the proof proves nothing. Exit code 0: the row is in the log
that this key has signed. 1: it is not, or the files are no proof.

Sources: C2SP tlog-proof, signed-note and tlog-checkpoint; RFC 9162, section 2.1.3.2; docs/format.md.
"""

import base64
import hashlib
import re
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Refused(Exception):
    """The proof does not hold, and why."""


def require(holds, why):
    if not holds:
        raise Refused(why)


def b64(text):
    """Strict: one text for each value."""
    data = base64.b64decode(text, validate=True)
    require(base64.b64encode(data).decode() == text, "base64 that is not canonical")
    return data


def sha256(data):
    return hashlib.sha256(data).digest()


def number(text):
    require(re.fullmatch(r"0|[1-9][0-9]*", text, re.ASCII), f"{text!r} is no decimal number")
    return int(text)


def read_vkey(text):
    """`name+id+base64(type ‖ key)`; the id is made from name, type and key."""
    name, key_id, encoded = text.strip().split("+", 2)
    typed = b64(encoded)
    require(typed[0] == 1 and len(typed) == 33, "the key is not of type 1, Ed25519")
    require(sha256(name.encode() + b"\n" + typed)[:4].hex() == key_id, "the key's id is not its own")
    return name, bytes.fromhex(key_id), Ed25519PublicKey.from_public_bytes(typed[1:])


def read_checkpoint(note, vkey):
    """Signed note: text, blank line, lines `— name base64(id ‖ signature)`. Gives size and root."""
    name, key_id, key = read_vkey(vkey)
    text, _, lines = note.rpartition("\n\n")
    text += "\n"
    ours = []
    require(lines.endswith("\n"), "the last signature line is cut")
    for line in lines[:-1].split("\n"):
        parts = line.split(" ")
        require(len(parts) == 3 and parts[0] == "\u2014", "a signature line is malformed")
        signature = b64(parts[2])
        if parts[1] == name and signature[:4] == key_id:
            ours.append(signature[4:])  # others are witnesses' and nothing to this check
    require(ours, f"no signature by {name}")
    for signature in ours:
        key.verify(signature, text.encode())
    origin, size, root, *_ = text.split("\n")
    require(origin == name, f"the checkpoint is of {origin}, the key of {name}")
    return number(size), b64(root)


def root_of(leaf, index, size, path):
    """RFC 9162, 2.1.3.2: the root that the leaf's hash and the path lead to."""
    require(index < size, f"row {index} of a log of {size} rows")
    node, last, found = index, size - 1, sha256(b"\0" + leaf)
    for sibling in path:
        require(len(sibling) == 32, "a hash that is not 32 bytes")
        require(last > 0, "the path is too long")
        if node & 1 or node == last:
            found = sha256(b"\1" + sibling + found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = sha256(b"\1" + found + sibling)
        node, last = node >> 1, last >> 1
    require(last == 0, "the path is too short")
    return found


def cbor_head(data, at):
    """Major type, argument, and where the value begins: enough for a leaf's first keys."""
    major, short = data[at] >> 5, data[at] & 31
    require(short < 28, "cbor of indefinite length, or malformed")
    width = 0 if short < 24 else 1 << (short - 24)
    value = int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else short
    return major, value, at + 1 + width


def check_leaf(leaf, origin, index):
    """The leaf begins {0: 1, 1: log id, 2: seq, …}: it says which row of which log it is."""
    require(cbor_head(leaf, 0)[0] == 5, "the leaf is no cbor map")
    at = cbor_head(leaf, 0)[2]
    require(leaf[at : at + 2] == b"\0\1", "the leaf is not of version 1")
    require(leaf[at + 2 : at + 4] == b"\1\x50", "the leaf has no log id")
    require(leaf[at + 4 : at + 20] == sha256(origin.encode())[:16], f"the leaf is not of {origin}")
    require(leaf[at + 20] == 2, "the leaf has no seq")
    major, seq, _ = cbor_head(leaf, at + 21)
    require(major == 0 and seq == index, f"the leaf is row {seq}, the proof of row {index}")


def verify(proof, leaf, vkey):
    """Answers (origin, index, size), or raises."""
    head, _, note = proof.partition("\n\n")
    lines = head.split("\n")
    require(lines.pop(0) == "c2sp.org/tlog-proof@v1", "not a tlog-proof")
    if lines and lines[0].startswith("extra "):
        lines.pop(0)  # not authenticated: nothing is read from it
    require(lines and lines[0].startswith("index "), "no index")
    index = number(lines.pop(0).removeprefix("index "))
    size, root = read_checkpoint(note, vkey)
    require(root_of(leaf, index, size, [b64(line) for line in lines]) == root, "another root")
    origin = read_vkey(vkey)[0]
    check_leaf(leaf, origin, index)
    return origin, index, size


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding="utf-8", newline="") as file:
            proof = file.read()
        with open(sys.argv[2], "rb") as file:
            leaf = file.read()
        origin, index, size = verify(proof, leaf, sys.argv[3])
    except InvalidSignature:
        sys.exit("refused: the checkpoint's signature does not verify")
    except (Refused, ValueError, IndexError, OSError) as why:
        sys.exit(f"refused: {why}")
    print(f"ok: row {index} of {origin}, whose key has signed {size} rows")


if __name__ == "__main__":
    main()
