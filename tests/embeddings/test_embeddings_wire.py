import pytest

from localrag.models.embeddings.wire import field_bytes, field_integer, fields


def test_what_is_written_is_read_back() -> None:
    inner = field_integer(1, 7) + field_integer(2, 300)
    message = field_bytes(3, inner) + field_bytes(200, b"x" * 500)

    first, second = fields(message, 0, len(message))
    assert (first.number, message[first.start : first.end]) == (3, inner)
    assert (second.number, message[second.start : second.end]) == (200, b"x" * 500)
    assert message[second.record_start : second.end] == field_bytes(200, b"x" * 500)
    assert [(f.number, f.integer) for f in fields(message, first.start, first.end)] == [
        (1, 7),
        (2, 300),
    ]


def test_fixed_width_fields_are_stepped_over() -> None:
    message = b"\x0d" + b"\0" * 4 + b"\x11" + b"\0" * 8 + field_integer(3, 5)
    assert [(f.number, f.end - f.start) for f in fields(message, 0, len(message))][:2] == [
        (1, 4),
        (2, 8),
    ]
    assert list(fields(message, 0, len(message)))[2].integer == 5


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(field_bytes(1, b"whole")[:-1], id="a value is cut off"),
        pytest.param(b"\x0b\x00", id="a group, which nobody writes any more"),
        pytest.param(b"\x00\x00", id="field number 0"),
        pytest.param(b"\xff\xff", id="a key without end"),
    ],
)
def test_damage_is_an_error(damaged: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        list(fields(damaged, 0, len(damaged)))
