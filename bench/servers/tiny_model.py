"""Writes a tiny random model in the GGUF format, version 3: the `llama` architecture, two layers, and a vocabulary of bytes.

The file is a header, metadata as typed key-value pairs, a description of each tensor, and the tensors' data. All of it is little-endian;
tensors begin at multiples of 32 bytes. The weights are seeded, so the file is the same every time.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VERSION: Final = 3
ALIGNMENT: Final = 32
LAYERS: Final = 2
WIDTH: Final = 64
HEADS: Final = 4
INNER: Final = 128
CONTEXT: Final = 4096
SEED: Final = 20

#: Types of metadata values, and the type of tensors of 32-bit floats.
_UINT32, _INT32, _FLOAT32, _STRING, _ARRAY = 4, 5, 6, 8, 9
_F32: Final = 0
#: Types of tokens.
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6

_TOKENS: Final = (
    ("<unk>", _UNKNOWN),
    ("<s>", _CONTROL),
    ("</s>", _CONTROL),
    *((f"<0x{byte:02X}>", _BYTE) for byte in range(256)),
    *((chr(letter), _NORMAL) for letter in range(ord("a"), ord("z") + 1)),
)
_TEMPLATE: Final = "{% for message in messages %}{{ message.content }} {% endfor %}"


def write(path: Path) -> None:
    """Write the model."""
    pairs, tensors = list(_metadata()), list(_tensors())
    infos, data = [], bytearray()
    for name, shape, values in tensors:
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        infos.append(_text(name) + dimensions + struct.pack("<IQ", _F32, len(data)))
        data += values.tobytes()
        data += bytes(-len(data) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", VERSION, len(tensors), len(pairs)) + b"".join([*pairs, *infos])
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _metadata() -> Iterator[bytes]:
    def number(key: str, value: int) -> bytes:
        return _text(key) + struct.pack("<II", _UINT32, value)

    def text(key: str, value: str) -> bytes:
        return _text(key) + struct.pack("<I", _STRING) + _text(value)

    def many(key: str, kind: int, items: list[bytes]) -> bytes:
        return _text(key) + struct.pack("<IIQ", _ARRAY, kind, len(items)) + b"".join(items)

    yield text("general.architecture", "llama")
    yield number("llama.context_length", CONTEXT)
    yield number("llama.embedding_length", WIDTH)
    yield number("llama.block_count", LAYERS)
    yield number("llama.feed_forward_length", INNER)
    yield number("llama.attention.head_count", HEADS)
    yield number("llama.rope.dimension_count", WIDTH // HEADS)
    yield _text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", _FLOAT32, 1e-5)
    yield text("tokenizer.ggml.model", "llama")
    yield many("tokenizer.ggml.tokens", _STRING, [_text(token) for token, _ in _TOKENS])
    yield many("tokenizer.ggml.scores", _FLOAT32, [struct.pack("<f", 0.0)] * len(_TOKENS))
    yield many("tokenizer.ggml.token_type", _INT32, [struct.pack("<i", kind) for _, kind in _TOKENS])
    yield number("tokenizer.ggml.unknown_token_id", 0)
    yield number("tokenizer.ggml.bos_token_id", 1)
    yield number("tokenizer.ggml.eos_token_id", 2)
    yield text("tokenizer.chat_template", _TEMPLATE)


def _tensors() -> Iterator[tuple[str, tuple[int, ...], array[float]]]:
    """Name, shape (the fastest dimension first) and values of each tensor."""
    rng = random.Random(SEED)

    def matrix(name: str, columns: int, rows: int) -> tuple[str, tuple[int, ...], array[float]]:
        return name, (columns, rows), array("f", (rng.gauss(0.0, 0.05) for _ in range(columns * rows)))

    def ones(name: str) -> tuple[str, tuple[int, ...], array[float]]:
        return name, (WIDTH,), array("f", [1.0] * WIDTH)

    yield matrix("token_embd.weight", WIDTH, len(_TOKENS))
    yield ones("output_norm.weight")
    yield matrix("output.weight", WIDTH, len(_TOKENS))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        yield ones(f"{block}attn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield matrix(f"{block}{name}.weight", WIDTH, WIDTH)
        yield ones(f"{block}ffn_norm.weight")
        yield matrix(f"{block}ffn_gate.weight", WIDTH, INNER)
        yield matrix(f"{block}ffn_up.weight", WIDTH, INNER)
        yield matrix(f"{block}ffn_down.weight", INNER, WIDTH)
