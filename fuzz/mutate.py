"""Ways to spoil bytes, JSON and safetensors. All chance comes from one generator, so that a case is its seed."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable
from typing import Any

INTERESTING = (b"\x00", b"\xff", b"\x7f", b"\x80", b"-", b"9", b"1e308", b"nan", b"\n", b",", b'"', b"[" * 3000, b"%n")
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    2**70,
    10**400,
    1.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[2J\x00",
    "=1+1",
    "é" * 300,
    [],
    [[]],
    [None],
    [[1], [2, 3]],
    {},
    {"a": 1},
    {"columns": ["a"], "data": [[1]]},
)
DTYPES = (
    "BOOL",
    "U8",
    "I8",
    "U16",
    "I16",
    "F16",
    "BF16",
    "U32",
    "I32",
    "F32",
    "U64",
    "I64",
    "F64",
    "F8_E4M3",
    "F8_E5M2",
    "X",
)


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bits turned, bytes replaced, parts left out, doubled, moved or filled; or only the beginning of it all."""
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        if not spoiled:
            break
        first = rng.randrange(len(spoiled))
        last = min(len(spoiled), first + rng.choice((1, 2, 4, 8, 64, 512)))
        match rng.randrange(7):
            case 0:
                spoiled[first] ^= 1 << rng.randrange(8)
            case 1:
                spoiled[first:last] = rng.randbytes(last - first)
            case 2:
                del spoiled[first:last]
            case 3:
                spoiled[first:first] = spoiled[first:last]
            case 4:
                spoiled[first:last] = bytes([rng.choice((0, 255))]) * (last - first)
            case 5:
                spoiled[first:last] = rng.choice(INTERESTING)
            case 6:
                del spoiled[first:]
    return bytes(spoiled)


def spoil_gzip(data: bytes, rng: random.Random) -> bytes:
    """What is inside is spoiled rather than the compressed bytes, which a checksum guards."""
    return gzip.compress(spoil_bytes(gzip.decompress(data), rng), mtime=0)


def spoil_json(value: Any, rng: random.Random) -> Any:
    """Another value somewhere in the tree: of another type, missing, renamed, doubled, very deep."""
    places = list(_places(value))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not places:
            return rng.choice(ODD_VALUES)
        holder, key = rng.choice(places)
        try:
            _spoil_entry(holder, key, rng)
        except (KeyError, IndexError):  # gone since, with what held it
            continue
    return value


def _spoil_entry(holder: Any, key: Any, rng: random.Random) -> None:
    old = holder[key]
    match rng.randrange(8):
        case 0 | 1 | 2:
            holder[key] = rng.choice(ODD_VALUES)
        case 3:
            del holder[key]
        case 4 if isinstance(holder, dict):
            holder[f"{key}{rng.choice('_ x.')}"] = holder.pop(key)
        case 4:
            holder.insert(key, old)
        case 5:
            holder[key] = nested(rng.choice((2, 50, 3000)))
        case 6 if isinstance(old, int | float) and not isinstance(old, bool):
            holder[key] = rng.choice((-old, old * 1e9, old + 0.5, str(old), old - 1, old + 1))
        case 6 if isinstance(old, str):
            holder[key] = rng.choice((old[:-1], old + old, old.upper(), [old], "LDA", "converged"))
        case _:
            others = list(holder.values()) if isinstance(holder, dict) else holder
            holder[key] = rng.choice(others)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _places(value: Any, depth: int = 0) -> Any:
    """Every entry of the tree as (holder, key); of long lists some."""
    if depth > 20 or not isinstance(value, dict | list):
        return
    keys = list(value) if isinstance(value, dict) else range(min(len(value), 6))
    for key in keys:
        yield value, key
        yield from _places(value[key], depth + 1)


def deep_json(value: Any) -> str:
    """As JSON, however deep: `json.dumps` gives up at the depth at which readers must."""
    try:
        return json.dumps(value)
    except RecursionError:
        return "[" * 100_000 + "]" * 100_000


Tensors = dict[str, tuple[dict[str, Any], bytes]]


def parse(data: bytes) -> tuple[Tensors, dict[str, str]]:
    """Every tensor of a safetensors file as (what the header says, bytes), and the metadata."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    metadata = header.pop("__metadata__", {})
    return {name: (told, body[slice(*told["data_offsets"])]) for name, told in header.items()}, metadata


def assemble(tensors: Tensors, metadata: dict[str, str], *, lie: bool = False) -> bytes:
    """A safetensors file; sizes are kept true unless it is to `lie`."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    body = b""
    for name, (told, content) in tensors.items():
        place = told["data_offsets"] if lie else [len(body), len(body) + len(content)]
        header[name] = told | {"data_offsets": place}
        body += content
    text = deep_json(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def spoil_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Sound as safetensors, nonsense as what it should be: the metadata of unmix, names, tables, dtypes, shapes, numbers."""
    tensors, metadata = parse(data)
    metadata.pop("crc32", None)  # or nothing behind the checksum would be reached
    lie = False
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.randrange(10)
        if kind < 5 and metadata.get("unmix"):
            try:
                metadata["unmix"] = deep_json(spoil_json(json.loads(metadata["unmix"]), rng))
            except (ValueError, RecursionError):  # too deep, or too long a number, by now
                continue
        elif tensors:
            lie |= _spoil_tensor(tensors, rng.choice(sorted(tensors)), rng)
    return assemble(tensors, metadata, lie=lie)


def _spoil_tensor(tensors: Tensors, name: str, rng: random.Random) -> bool:
    """Whether offsets are no longer to be believed."""
    told, content = tensors[name]
    size = max(1, len(content) // max(1, math.prod(told["shape"])))
    match rng.randrange(9):
        case 0:
            del tensors[name]
        case 1:
            tensors[f"{name}{rng.choice('_x.')}"] = tensors.pop(name)
        case 2:
            other = rng.choice(sorted(tensors))
            tensors[name], tensors[other] = tensors[other], tensors[name]
        case 3:  # as many bytes, of another type
            dtype = rng.choice(DTYPES)
            width = 8 if dtype.endswith("64") else 4 if dtype.endswith("32") else 2 if dtype.endswith("16") else 1
            tensors[name] = told | {"dtype": dtype, "shape": [len(content) // width]}, content
        case 4:  # another shape of as many numbers, or none
            length = math.prod(told["shape"])
            tensors[name] = (
                told | {"shape": rng.choice(([length], [1, length], [length, 1], [*told["shape"], 1]))},
                content,
            )
        case 5:  # fewer rows
            shape = [0 if rng.random() < 0.3 else max(0, told["shape"][0] - 1), *told["shape"][1:]]
            tensors[name] = told | {"shape": shape}, content[: size * math.prod(shape)]
        case 6:  # huge by its word
            tensors[name] = told | {"shape": [2**40, *told["shape"][1:]]}, content
            return True
        case 7 if told["dtype"] == "U8" and content:  # JSON as bytes
            try:
                text = deep_json(spoil_json(json.loads(content), rng)).encode()
            except (ValueError, RecursionError):
                text = b"{"
            tensors[name] = told | {"shape": [len(text)]}, text
        case _:
            spoiled = spoil_bytes(content, rng)[: len(content)]
            tensors[name] = told, spoiled + bytes(len(content) - len(spoiled))
    return False


def spoil_plain_json(data: bytes, rng: random.Random) -> bytes:
    return deep_json(spoil_json(json.loads(data), rng)).encode()


Spoil = Callable[[bytes, random.Random], bytes]


def ways(name: str) -> dict[str, Spoil]:
    """How a file of this name may be spoiled."""
    found: dict[str, Spoil] = {"bytes": spoil_bytes}
    if name.endswith(".gz"):
        found["inside"] = spoil_gzip
    if name.endswith(".safetensors"):
        found["structure"] = spoil_safetensors
    if name.endswith(".json"):
        found["structure"] = spoil_plain_json
    return found
