"""Files of arrays are what the safetensors library says they are, and a header that lies is refused before anything is read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from conftest import examples
from fuzz.mutate import spoil_bytes, spoil_safetensors
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open

from unmix.storage import tensors

ARRAYS = {
    f"{dtype}{i}": np.arange(i * 6).astype(dtype).reshape(-1, 2, 3)
    for i in (0, 1, 2)
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
}
ARRAYS |= {"flat": np.ones(5, "f4")}


def same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    def shown(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}

    return shown(one) == shown(two)


def a_file(told: Any, content: bytes = b"", *, size: int | None = None) -> bytes:
    header = told if isinstance(told, bytes) else json.dumps(told).encode()
    return (len(header) if size is None else size).to_bytes(8, "little") + header + content


def entry(shape: Any = (2,), offsets: Any = (0, 2), dtype: Any = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_the_library_and_unmix_read_each_others_files(tmp_path: Path) -> None:
    path, meta = tmp_path / "x.safetensors", {"a": [1, None, "ü"]}
    tensors.write(path, ARRAYS, meta)
    assert same(safetensors.numpy.load_file(path), ARRAYS)
    with safe_open(path, framework="numpy") as file:
        assert json.loads(file.metadata()["unmix"]) == meta
    arrays, again = tensors.read(path)
    assert same(arrays, ARRAYS)
    assert again == meta
    safetensors.numpy.save_file(ARRAYS, path, metadata={"unmix": json.dumps(meta)})
    arrays, again = tensors.read(path)
    assert same(arrays, ARRAYS)
    assert again == meta
    assert same(tensors.parsed(tensors.serialized(ARRAYS)), ARRAYS)
    assert tensors.read_block(path, "flat") == ARRAYS["flat"].tobytes()
    assert tensors.read_block(path, "none") is None


HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "longer than the file"),
    "half a length": (b"\x08\0\0", "longer than the file"),
    "a header beyond the end": (a_file({}, size=10**6), "longer than the file"),
    "a header beyond all bounds": (a_file({}, size=2**64 - 1), "longer than the file"),
    "no JSON": (a_file(b"hello"), "header is damaged"),
    "no table": (a_file([1, 2]), "header is damaged"),
    "deep": (a_file(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "header is damaged"),
    "not UTF-8": (a_file(b'{"\xff": 1}'), "header is damaged"),
    "an array of nothing": (a_file({"a": None}), "header is damaged"),
    "no offsets": (a_file({"a": {"dtype": "U8", "shape": [2]}}, b"12"), "header is damaged"),
    "texts that are none": (a_file({"__metadata__": {"unmix": 3}}), "header is damaged"),
    "a type of another library": (a_file({"a": entry(dtype="BF16")}, b"12"), "numbers of the type BF16"),
    "a negative shape": (a_file({"a": entry((-2,))}, b"12"), "header is damaged"),
    "half a shape": (a_file({"a": entry((2.5,))}, b"12"), "header is damaged"),
    "a shape of truth": (a_file({"a": entry((True, 2))}, b"12"), "header is damaged"),
    "a huge shape": (a_file({"a": entry((2**40, 2**40))}, b"12"), "a has impossible offsets"),
    "a shape that wraps around": (a_file({"a": entry((2**63, 4, 2))}, b"12"), "header is damaged|impossible offsets"),
    "an end beyond the file": (a_file({"a": entry((9,), (0, 9))}, b"12"), "end at byte"),
    "an end before the beginning": (a_file({"a": entry((2,), (2, 0))}, b"12"), "impossible offsets"),
    "a negative beginning": (a_file({"a": entry((2,), (-2, 0))}, b"12"), "header is damaged"),
    "too few bytes": (a_file({"a": entry((3,))}, b"12"), "impossible offsets"),
    "two arrays in one place": (a_file({"a": entry(), "b": entry()}, b"12"), "b has impossible offsets"),
    "a gap": (a_file({"a": entry((1,), (1, 2))}, b"12"), "impossible offsets"),
    "more than it says": (a_file({"a": entry()}, b"123"), "end at byte"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_header_that_lies_is_refused(what: str, tmp_path: Path) -> None:
    content, said = HOSTILE[what]
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        tensors.parsed(content)
    with pytest.raises(ValueError, match=rf"x\.safetensors: not a readable safetensors file .*({said})") as refused:
        tensors.read(path)
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match=said):
        tensors.read_block(path, "a")


@examples(200)
@given(seed=st.integers(0, 2**32), structure=st.booleans())
def test_what_the_library_refuses_is_refused(seed: int, structure: bool) -> None:
    rng = random.Random(seed)
    content = (spoil_safetensors if structure else spoil_bytes)(tensors.serialized(ARRAYS, {"unmix": "{}"}), rng)
    try:
        found = tensors.parsed(content)
    except ValueError:
        return
    try:
        assert same(found, safetensors.numpy.load(content))
    except SafetensorError as error:
        pytest.fail(f"the library says {error}")


def test_arrays_are_aligned_wherever_the_header_ends() -> None:
    header = json.dumps({"a": entry((2,), (0, 16), "F64")}).encode()
    for blanks in range(8):
        content = a_file(header + b" " * blanks, np.arange(2.0).tobytes())
        array = tensors.parsed(content)["a"]
        assert array.flags.aligned
        assert array.tolist() == [0, 1]


def test_a_file_that_is_longer_or_shorter_than_expected_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert bytes(tensors.read_bytes(path)) == bytes(tensors.read_bytes(path, 5)) == b"12345"
    with pytest.raises(ValueError, match="it has but 5 bytes"):
        tensors.read_bytes(path, 6)
    with pytest.raises(ValueError, match="it has more than 5 bytes"):
        tensors.read_bytes(path, 4)


def test_a_checksum_tells_names_types_shapes_and_bits_apart() -> None:
    a = np.arange(6.0)
    others = [{"a": a}, {"b": a}, {"a": a.reshape(2, 3)}, {"a": a.reshape(3, 2)}, {"a": a.view("i8")}, {"a": -a}]
    others += [{"a": a, "b": a}, {"a": a.astype("f4")}]
    assert len({tensors.digest(arrays) for arrays in others}) == len(others)
    assert tensors.digest({"a": a, "b": -a}) == tensors.digest({"b": -a, "a": a})
    assert tensors.digest({"a": a, "b": -a}, ["a"]) == tensors.digest({"a": a})


def test_a_file_in_which_any_byte_changed_is_refused(tmp_path):
    path, rng = tmp_path / "a.safetensors", random.Random(0)
    arrays, meta = {"x": np.arange(6.0).reshape(2, 3), "names": tensors.as_bytes(["ant", "bee"])}, {"tol": 1e-6}
    tensors.write(path, arrays, meta)
    found, said = tensors.read(path)
    assert same(found, arrays)
    assert said == meta
    content = path.read_bytes()
    name = content.index(b"crc32")  # where another name stands in its place, nobody looks for the checksum
    for place in {*range(len(content))} - {*range(name, name + 5)}:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"a\.safetensors: "):
            tensors.read(path)
