"""Encrypts archives with a passphrase as age files (age-encryption.org/v1), so that `age --decrypt` opens them too.

The payload is a sequence of sealed chunks with counted nonces and a mark on the last one: a chunk that is missing,
changed or out of order is noticed. docs/decisions/0061-backups-by-schedule.md says why the format is written here.
"""

from __future__ import annotations

import base64
import hmac
import io
import os
from collections.abc import Iterator
from typing import BinaryIO, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from typing_extensions import Buffer

from knowledge.errors import Damaged, InvalidParameter

VERSION_LINE = b"age-encryption.org/v1"
SCRYPT_LABEL = b"age-encryption.org/v1/scrypt"
WORK_FACTOR = 17
"""Base-2 logarithm of the cost of scrypt: 128 MB of memory."""
MAX_WORK_FACTOR = 20
"""A file that asks for more than 1 GB of memory is refused."""
KEY_BYTES, FILE_KEY_BYTES, SALT_BYTES, TAG_BYTES = 32, 16, 16, 16
CHUNK_BYTES = 64 << 10
MAX_HEADER_LINE_BYTES = 256
HEADER_LINES = 4
"""Version, scrypt stanza, wrapped file key and MAC: a file with a passphrase has no other recipient."""
NOT_READABLE = "The encrypted backup cannot be read"
OTHER_COPY_HINT = "Use another copy of the backup, or an older one."


def is_encrypted(start: bytes) -> bool:
    """Return whether a file that begins so is encrypted."""
    return start.startswith(VERSION_LINE)


class EncryptingWriter:
    """Writes an encrypted file; `finish` writes its last chunk, without which the file counts as truncated."""

    def __init__(self, file: BinaryIO, passphrase: str, work_factor: int = WORK_FACTOR) -> None:
        self._file, self._pending, self._chunks = file, bytearray(), 0
        file_key, salt, nonce = os.urandom(FILE_KEY_BYTES), os.urandom(SALT_BYTES), os.urandom(SALT_BYTES)
        wrapped = ChaCha20Poly1305(_derive_wrap_key(passphrase, salt, work_factor)).encrypt(bytes(12), file_key, None)
        head = b"%s\n-> scrypt %s %d\n%s\n---" % (VERSION_LINE, _encode(salt), work_factor, _encode(wrapped))
        file.write(b"%s %s\n" % (head, _encode(_compute_mac(file_key, head))))
        file.write(nonce)
        self._cipher = ChaCha20Poly1305(_derive_key(file_key, b"payload", nonce))

    def write(self, piece: bytes) -> None:
        self._pending += piece
        while len(self._pending) > CHUNK_BYTES:  # the last chunk is full or short, never empty
            self._seal(bytes(self._pending[:CHUNK_BYTES]), is_last=False)
            del self._pending[:CHUNK_BYTES]

    def finish(self) -> None:
        self._seal(bytes(self._pending), is_last=True)
        self._pending.clear()

    def _seal(self, chunk: bytes, *, is_last: bool) -> None:
        self._file.write(self._cipher.encrypt(_make_nonce(self._chunks, is_last=is_last), chunk, None))
        self._chunks += 1


def open_encrypted(file: BinaryIO, passphrase: str) -> BinaryIO:
    """Return the decrypted content of a file as a stream; raises InvalidParameter for a wrong passphrase."""
    lines = [_read_header_line(file) for _ in range(HEADER_LINES)]
    salt, work_factor, wrapped, mac = _parse_header(lines)
    try:
        file_key = ChaCha20Poly1305(_derive_wrap_key(passphrase, salt, work_factor)).decrypt(bytes(12), wrapped, None)
    except InvalidTag:
        raise InvalidParameter(
            "The passphrase does not open this backup",
            hint="Check KNOWLEDGE_BACKUP_PASSPHRASE or KNOWLEDGE_BACKUP_PASSPHRASE_FILE, or type it again.",
            parameter="passphrase",
        ) from None
    head = b"\n".join([*lines[:3], b"---"])
    if not hmac.compare_digest(_compute_mac(file_key, head), mac):
        raise Damaged(f"{NOT_READABLE}: its header was changed", hint=OTHER_COPY_HINT)
    nonce = _read_exactly(file, SALT_BYTES)
    cipher = ChaCha20Poly1305(_derive_key(file_key, b"payload", nonce))
    return cast(BinaryIO, io.BufferedReader(_ChunkReader(_decrypt_chunks(file, cipher)), CHUNK_BYTES))


def _decrypt_chunks(file: BinaryIO, cipher: ChaCha20Poly1305) -> Iterator[bytes]:
    """Yield the content chunk by chunk; raises Damaged for a chunk that is missing, changed or out of order."""
    sealed, number = _read_exactly(file, CHUNK_BYTES + TAG_BYTES), 0
    while True:
        following = _read_exactly(file, CHUNK_BYTES + TAG_BYTES)
        try:
            yield cipher.decrypt(_make_nonce(number, is_last=not following), sealed, None)
        except InvalidTag:
            raise Damaged(
                f"{NOT_READABLE}: it was cut off or changed in or before chunk {number + 1}", hint=OTHER_COPY_HINT
            ) from None
        if not following:
            return
        sealed, number = following, number + 1


class _ChunkReader(io.RawIOBase):
    """Reads the pieces of an iterator as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer)
        if not self._rest:
            self._rest = next(self._pieces, b"")
        count = min(len(target), len(self._rest))
        target[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _parse_header(lines: list[bytes]) -> tuple[bytes, int, bytes, bytes]:
    """Return salt, work factor, wrapped file key and MAC."""
    version, stanza, wrapped, end = lines
    words = stanza.split(b" ")
    if version != VERSION_LINE or len(words) != 4 or words[:2] != [b"->", b"scrypt"] or not end.startswith(b"--- "):
        raise Damaged(
            f"{NOT_READABLE}: it was not encrypted with a passphrase", hint="Decrypt it with 'age --decrypt' first."
        )
    try:
        work_factor = int(words[3])
        salt, key, mac = _decode(words[2]), _decode(wrapped), _decode(end[4:])
    except ValueError as error:
        raise Damaged(f"{NOT_READABLE}: its header is damaged", hint=OTHER_COPY_HINT) from error
    if not 1 <= work_factor <= MAX_WORK_FACTOR or len(salt) != SALT_BYTES or len(key) != FILE_KEY_BYTES + TAG_BYTES:
        raise Damaged(f"{NOT_READABLE}: its header has values that are not allowed", hint=OTHER_COPY_HINT)
    return salt, work_factor, key, mac


def _read_header_line(file: BinaryIO) -> bytes:
    line = file.readline(MAX_HEADER_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise Damaged(f"{NOT_READABLE}: its header is incomplete", hint=OTHER_COPY_HINT)
    return line[:-1]


def _read_exactly(file: BinaryIO, count: int) -> bytes:
    """Return this many bytes, less only at the end of the file: a pipe may give fewer at once."""
    found = bytearray()
    while len(found) < count and (piece := file.read(count - len(found))):
        found += piece
    return bytes(found)


def _derive_wrap_key(passphrase: str, salt: bytes, work_factor: int) -> bytes:
    scrypt = Scrypt(salt=SCRYPT_LABEL + salt, length=KEY_BYTES, n=1 << work_factor, r=8, p=1)
    return scrypt.derive(passphrase.encode())


def _derive_key(file_key: bytes, purpose: bytes, salt: bytes | None) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=purpose).derive(file_key)


def _compute_mac(file_key: bytes, head: bytes) -> bytes:
    return hmac.digest(_derive_key(file_key, b"header", None), head, "sha256")


def _make_nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if is_last else b"\x00")


def _encode(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
