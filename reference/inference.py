"""Which dtype a new tensor takes when nobody says: a table, by what it is made from.

Names are those of the dtypes in torch and NumPy. Nothing here looks at either.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

PYTHON_ORDER: tuple[type, ...] = (bool, int, float, complex)
"""The Python types a list may hold, weakest first: the strongest one in it decides."""

COMPLEX_OF: Mapping[str, str] = MappingProxyType(
    {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
)
"""The complex dtype whose two halves are the default dtype's; torch.tensor knows none for bfloat16."""

NUMPY_KEPT: frozenset[str] = frozenset(
    {"bool", "float16", "float32", "float64", "complex64", "complex128"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""The NumPy dtypes that torch has too, by name: an array or scalar of one of them keeps it."""

SCALARS_REFUSED: frozenset[str] = frozenset({"uint64"})
"""NumPy scalars that torch.tensor refuses although it takes arrays of the same dtype."""

SCALARS_UNSETTLED: frozenset[str] = frozenset({"bool"})
"""NumPy scalars that some releases take and some refuse: torch 2.6 knew no booleans of NumPy 2."""


def from_python(values: Iterable[object], default: str) -> str:
    """Dtype of torch.tensor(values) for Python numbers, where ``default`` is the default floating-point dtype.

    The strongest type decides: booleans stay booleans, integers are int64, floats take the default dtype, complex
    numbers its complex counterpart; nothing at all takes the default dtype. Raises ValueError for a complex number
    under a default without a complex counterpart, and for anything that is no Python number.
    """
    kinds: list[type] = []
    for value in values:
        if type(value) not in PYTHON_ORDER:
            raise ValueError(f"{value!r} is no Python number: ask for NumPy's dtype with from_numpy")
        kinds.append(type(value))
    strongest = max(kinds, key=PYTHON_ORDER.index, default=float)
    if strongest is complex:
        if default not in COMPLEX_OF:
            raise ValueError(f"{default} has no complex counterpart: set another default dtype")
        return COMPLEX_OF[default]
    return {bool: "bool", int: "int64", float: default}[strongest]


def from_numpy(dtype: str, byteorder: str) -> str | None:
    """Dtype of a tensor made from a NumPy array, or None where torch refuses the array.

    ``dtype`` is the array's dtype by name and ``byteorder`` its byte order as NumPy writes it: "=" and "|" are the
    machine's own; every other order is refused, and so is every dtype that torch does not have.
    """
    return dtype if byteorder in "=|" and dtype in NUMPY_KEPT else None


def from_numpy_scalar(dtype: str) -> str | None:
    """Dtype of torch.tensor(x) for a NumPy scalar x, or None where torch refuses it."""
    return dtype if dtype in NUMPY_KEPT - SCALARS_REFUSED else None


FACTORIES: Mapping[str, str] = MappingProxyType(
    {
        "zeros": "default",
        "ones": "default",
        "empty": "default",
        "rand": "default",
        "randn": "default",
        "eye": "default",
        "linspace": "default",
        "logspace": "default",
        "scalar_tensor of an integer": "default",
        "full of a float": "default",
        "arange of floats": "default",
        "full of an integer": "int64",
        "arange of integers": "int64",
        "randint": "int64",
        "randperm": "int64",
        "tril_indices": "int64",
        "full of a boolean": "bool",
    }
)
"""What a factory makes when no dtype is named: the default dtype, or always the same one."""


def from_factory(factory: str, default: str) -> str:
    """Dtype of what a factory makes, where ``default`` is the default floating-point dtype."""
    made = FACTORIES[factory]
    return default if made == "default" else made
