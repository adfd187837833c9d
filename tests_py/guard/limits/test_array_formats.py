"""What arrays are charged with, by their format: the bytes of all planes."""

from pathlib import Path

from conftest_guard import MIB, job

# CUarray_format, channels, and bytes of 2 x 2 elements.
FORMATS = {
    "UNSIGNED_INT8": (0x01, 4, 16),
    "HALF": (0x10, 2, 16),
    "FLOAT": (0x20, 4, 64),
    "UNORM_INT_101010_2": (0x50, 4, 16),
    "UINT8_PACKED_444": (0x52, 4, 16),
    "UINT8_SEMIPLANAR_420": (0x53, 3, 6),
    "UINT16_SEMIPLANAR_420": (0x54, 3, 12),
    "UINT8_PLANAR_422": (0x5B, 3, 8),
    "UINT16_PLANAR_444": (0x5E, 3, 24),
    "P010": (0x9F, 3, 12),
    "NV16": (0xA2, 3, 8),
    "P216": (0xA4, 3, 16),
    "YUY2": (0xA5, 2, 8),
    "Y210": (0xA6, 2, 16),
    "AYUV": (0xA8, 4, 16),
    "Y416": (0xB1, 4, 32),
    "Y444_PLANAR8": (0xB2, 3, 12),
    "Y444_PLANAR10": (0xB3, 3, 24),
    "BC1": (0x91, 4, 2),
    "unknown": (0xF0, 4, 64),
}
CREATE = """
class Shape(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", ctypes.c_uint)]
array = c_void_p()
begin()
"""


def test_an_array_is_charged_with_what_its_format_takes(driver: Path) -> None:
    with job(driver, 512 * MIB, FAKECUDA_LENIENT="1", prelude=CREATE) as one:
        told = one.python(f"""
for name, (number, channels, _) in {FORMATS!r}.items():
    before = info()[0]
    assert cuda.cuArrayCreate_v2(byref(array), byref(Shape(1024, 1024, number, channels))) == 0, name
    print(name, before - info()[0])
    assert cuda.cuArrayDestroy(array) == 0 and info()[0] == before
""")
        assert dict(line.split() for line in told.splitlines()) == {
            name: str(1024 * 1024 // 4 * size) for name, (_, _, size) in FORMATS.items()
        }
        assert [line.partition(": ")[2] for line in one.budget.log()] == [
            "arrays of format 0xf0 are charged with 16 bytes per element"
        ]


def test_an_array_that_the_driver_refuses_leaves_nothing(driver: Path) -> None:
    with job(driver, 512 * MIB, prelude=CREATE) as one:
        told = one.python("print(cuda.cuArrayCreate_v2(byref(array), byref(Shape())), info()[0] // MIB)")
        assert (told.split(), one.budget.log()) == (["1", "512"], [])
