"""Lengths that are known only later: integers that record what is computed of them and what is decided by them.

A graph that was put together for some lengths is put together for others by computing the record again, and is the
graph that one would get by starting anew, as long as every decision falls as it did::

    record = Record()
    height = record.free(224)                  # an integer of 224, as far as anyone can tell
    rows = (height + 2 - 3) // 2 + 1           # 112, and recorded
    if rows > 100: ...                         # True, and recorded as a decision
    record.again([320]).of(rows)               # 160
    record.again([64])                         # None: 32 rows are not more than 100

What the record does not follow, such as numpy's functions, asks a length for its value and so binds it: the record is
then one for this value alone. So whatever is done with a length, the worst is a record of little use.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

__all__ = ["Derived", "Length", "Record", "RecordedFunction", "Replay"]

# Where the result goes, the function, the places of its arguments, and what it decided. Of two arguments, as most have,
# each stands by itself: that takes half of the time of a list of them.
_Operation = tuple[int, Callable[..., Any], int | None, Any, bool | None]


class Derived:
    """What a function makes of lengths, such as an array; a record computes it again for others.

    Attributes:
        record: Where it is an entry.
        place: Its place there.
    """

    __slots__ = ("place", "record")

    def __init__(self, record: Record, place: int) -> None:
        self.record, self.place = record, place

    @property
    def value(self) -> Any:
        """What it is for the lengths that the record began with, None if forgotten; decides nothing."""
        return self.record.values[self.place]

    @property
    def bound(self) -> Any:
        """The same, and binds the record to it."""
        value = self.value
        self.record.decided(_are_same, self, value)
        return value


def _are_same(a: Any, b: Any) -> bool:
    """Return whether numbers or arrays are the same to the last bit: 0 is not -0, and what is no number may be."""
    left, right = np.asarray(a), np.asarray(b)
    return (left.dtype, left.shape) == (right.dtype, right.shape) and left.tobytes() == right.tobytes()


def _computed(function: Callable[..., Any]) -> Any:
    """Return the two methods of an operator, for a length on the left and on the right."""

    def left(self: Length, other: Any) -> Any:
        if isinstance(other, _INTEGERS):
            return self.record.length(function, self, _plain(other))
        return function(int(self), other)

    def right(self: Length, other: Any) -> Any:
        if isinstance(other, _INTEGERS):
            return self.record.length(function, _plain(other), self)
        return function(other, int(self))

    return left, right


def _compared(function: Callable[[Any, Any], bool]) -> Any:
    def compare(self: Length, other: Any) -> Any:
        if type(other) is int or isinstance(other, _INTEGERS):
            return self.record.compared(function, self, _plain(other))
        return function(int(self), other)

    return compare


class Length(Derived):
    """An integer of a record. It is none to ``isinstance``: what takes nothing but an int would not be recorded.

    To the type checker lengths are ``int``, as most are.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers leave arithmetic to the methods below, which bind

    __add__, __radd__ = _computed(operator.add)
    __sub__, __rsub__ = _computed(operator.sub)
    __mul__, __rmul__ = _computed(operator.mul)
    __floordiv__, __rfloordiv__ = _computed(operator.floordiv)
    __mod__, __rmod__ = _computed(operator.mod)

    __eq__ = _compared(operator.eq)
    __ne__ = _compared(operator.ne)
    __lt__ = _compared(operator.lt)
    __le__ = _compared(operator.le)
    __gt__ = _compared(operator.gt)
    __ge__ = _compared(operator.ge)

    def __neg__(self) -> Any:
        """Return the negative length, recorded."""
        return self.record.length(operator.neg, self)

    def __pos__(self) -> Any:
        """Return the length."""
        return self

    def __abs__(self) -> Any:
        """Return the length without its sign, recorded."""
        return self.record.length(abs, self)

    def __divmod__(self, other: Any) -> Any:
        """Return quotient and rest, recorded."""
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        """Return quotient and rest, recorded."""
        return other // self, other % self

    def __bool__(self) -> bool:
        """Decide whether it is 0."""
        return self.record.decided(operator.ne, self, 0)

    def __index__(self) -> int:
        """Return the value, and bind the length to it."""
        value: int = self.value
        self.record.decided(operator.eq, self, value)
        return value

    __int__ = __index__

    def __float__(self) -> float:
        """Return the value, and bind the length to it."""
        return float(int(self))

    def __truediv__(self, other: Any) -> Any:
        """Return the quotient, and bind the length."""
        return int(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        """Return the quotient, and bind the length."""
        return other / int(self)

    def __hash__(self) -> int:
        """Return the value's hash, and bind the length: what equals it is looked up by it."""
        return hash(int(self))

    def __repr__(self) -> str:
        """Return the value's, and bind the length: a name may be made of it."""
        return repr(int(self))


_INTEGERS: Final = (int, np.integer, Length)


def _plain(number: Any) -> Any:
    """Return a number of numpy's as Python's, any other as it is."""
    return int(number) if isinstance(number, np.integer) else number


_LARGEST_KEY: Final = 64  # bytes


def _constant_key(constant: Any) -> tuple[Any, ...]:
    """Return what a record, which keeps a constant, has entered it under; layers have small arrays of their own."""
    if type(constant) is np.ndarray and constant.nbytes <= _LARGEST_KEY and not constant.dtype.hasobject:
        return constant.dtype, constant.shape, constant.tobytes()
    return "is", id(constant)


# Of free lengths that change together: those of a text's next token, of another batch, of another text.
_MOST_SETS: Final = 8


class Record:
    """What is computed of free lengths and decided by them.

    Attributes:
        values: Of all entries, for the lengths that the record began with; None of those that ``keep`` has forgotten.
            Constants are entries, too.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._free: list[int] = []
        # By function, whether it decides, and the places of its arguments, in order. There are thousands, whose objects
        # the garbage collector walks: an operation is made of one when it is needed.
        self._entries: dict[tuple[Any, ...], int] = {}
        self._kept: list[_Operation] = []  # of entries that have been forgotten
        self._numbers: dict[int, int] = {}  # the places of constants that are integers
        self._places: dict[tuple[Any, ...], int] = {}  # of others
        self._lengths: dict[int, Length] = {}  # by place: of one object it is seen at once that it equals itself
        # Of the lengths that everything was computed for last, all decided as here; arrays among them stay with it.
        self._latest = self.values
        self._following: dict[frozenset[int], Sequence[_Operation]] = {}  # operations by the free places they depend on

    def free(self, value: int) -> int:
        """Return a length that may be another when the record is computed again."""
        self._free.append(len(self.values))
        self.values.append(value)
        self._begin_anew()
        return self._length_at(self._free[-1])

    def call(self, function: Callable[..., Any], *arguments: Any) -> int:
        """Return the place of what a function makes of lengths and constants.

        The function depends on nothing but its arguments, and gives what nobody writes to.
        """
        return self._entered(function, arguments, False)

    def length(self, function: Callable[..., int], *arguments: Any) -> int:
        """Return the length that a function makes of others."""
        return self._length_at(self._entered(function, arguments, False))

    def decided(self, function: Callable[..., bool], *arguments: Any) -> bool:
        """Return what a function says of lengths. A record is of use only to those of which it says the same."""
        decision: bool = self.values[self._entered(function, arguments, True)]
        return decision

    def compared(self, function: Callable[..., bool], length: Length, other: Any) -> bool:
        """Return what :meth:`decided` does of a length and another one or a number, sooner if it was asked before."""
        place = other.place if type(other) is Length else self._numbers.get(other)
        known = self._entries.get((function, True, length.place, place))
        return self.decided(function, length, other) if known is None else bool(self.values[known])

    def _length_at(self, place: int) -> int:
        length = self._lengths.get(place)
        if length is None:
            length = self._lengths[place] = Length(self, place)
        return cast(int, length)

    def _entered(self, function: Callable[..., Any], arguments: Sequence[Any], decides: bool) -> int:
        # Most arguments are lengths and numbers met before: a call of a method each would take half of the time.
        numbers, places = self._numbers, []
        for each in arguments:
            kind = type(each)
            place = each.place if kind is Length else numbers.get(each) if kind is int else None
            places.append(self._place(each) if place is None else place)
        key = function, decides, *places
        known = self._entries.get(key)
        if known is None:
            value = function(*[self.values[place] for place in places])
            known = self._entries[key] = len(self.values)
            if self._following:
                self._begin_anew()
            self.values.append(value)
        return known

    def _place(self, argument: Any) -> int:
        if type(argument) is int:
            return self._place_of(argument, argument, self._numbers)
        if isinstance(argument, Derived):
            assert argument.record is self
            return argument.place
        return self._place_of(argument, _constant_key(argument), self._places)

    def _place_of(self, constant: Any, key: Any, places: dict[Any, int]) -> int:
        place = places.get(key)
        if place is None:
            place = places[key] = len(self.values)
            self.values.append(constant)
        return place

    def _begin_anew(self) -> None:
        """Compute everything at the next replay, since there is more of it."""
        self._latest = self.values
        self._following.clear()

    def keep(self, needed: Iterable[Derived]) -> None:
        """Forget what neither decides nor leads to these values, arrays included; nothing is recorded any more."""
        places = {value.place for value in needed}
        self._kept = self._leading_to(places, with_decisions=True)
        places.update(self._free)
        self.values[:] = [value if place in places else None for place, value in enumerate(self.values)]
        self._following.clear()
        self._entries.clear()
        self._places.clear()
        self._numbers.clear()
        self._lengths.clear()  # each has the record

    def function_of(self, made: Derived) -> RecordedFunction:
        """Return what makes an entry, which is not forgotten, of free lengths, whatever else is recorded."""
        places = {made.place}
        operations = self._leading_to(places, with_decisions=False)
        free = tuple(place for place in self._free if place in places)
        known = places.difference(free, (operation[0] for operation in operations))
        constants = {place: self.values[place] for place in known}
        return RecordedFunction(made.place, free, constants, operations)

    def _backwards(self) -> Iterator[_Operation]:
        """Yield what has been recorded, the latest first."""
        for (function, decides, *places), place in reversed(self._entries.items()):
            left, right = places if len(places) == 2 else (None, tuple(places))
            yield place, function, left, right, self.values[place] if decides else None
        yield from reversed(self._kept)

    def _leading_to(self, places: set[int], *, with_decisions: bool) -> list[_Operation]:
        """Return the operations that make entries, and, if asked, those that decide; add what they read to places."""
        leading: list[_Operation] = []
        for operation in self._backwards():
            place, _, left, right, decision = operation
            if place in places or (with_decisions and decision is not None):
                leading.append(operation)
                places.update(right if left is None else (left, right))
        return leading[::-1]

    def again(self, free: Sequence[int]) -> Replay | None:
        """Compute everything again for other free lengths; None where something is decided otherwise.

        Args:
            free: In the order in which they were made.
        """
        values = [*self._latest]
        changed = frozenset(place for place, value in zip(self._free, free, strict=True) if values[place] != value)
        for place, value in zip(self._free, free, strict=True):
            values[place] = value
        try:
            for place, function, left, right, decision in self._operations_on(changed):
                if left is not None:
                    value = function(values[left], values[right])
                else:
                    value = function(*[values[argument] for argument in right])
                if decision is None:
                    values[place] = value
                elif value is not decision:
                    return None
        except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError):
            # Of lengths that a function does not take.
            return None
        self._latest = values
        return Replay(values)

    def _operations_on(self, changed: frozenset[int]) -> Sequence[_Operation]:
        """Return what depends on some free lengths; the rest comes to what it came to with the others of the latest."""
        operations = self._following.get(changed)
        if operations is None:
            places = set(changed)
            operations = []
            for operation in reversed([*self._backwards()]):
                place, _, left, right, _ = operation
                if not places.isdisjoint(right if left is None else (left, right)):
                    places.add(place)
                    operations.append(operation)
            if len(self._following) == _MOST_SETS:
                self._following.clear()
            self._following[changed] = operations
        return operations


class RecordedFunction:
    """What an entry of a record is of free lengths.

    Attributes:
        free: The places of the lengths that it is called with, in the order of the record.
    """

    __slots__ = ("_constants", "_operations", "_place", "free")

    def __init__(
        self, place: int, free: tuple[int, ...], constants: Mapping[int, Any], operations: Sequence[_Operation]
    ) -> None:
        self._place, self.free = place, free
        self._constants, self._operations = constants, operations

    def __call__(self, *lengths: int) -> Any:
        """Compute it."""
        values = {**self._constants, **dict(zip(self.free, lengths, strict=True))}
        for place, function, left, right, _ in self._operations:
            values[place] = function(*[values[argument] for argument in (right if left is None else (left, right))])
        return values[self._place]


class Replay:
    """What a record comes to for some lengths."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def of(self, value: Any) -> Any:
        """Return what a length or another entry is, and anything else as it is."""
        return self._values[value.place] if isinstance(value, Derived) else value

    def at_places(self, places: Iterable[int]) -> list[Any]:
        """Return the entries at some places of the record."""
        return [self._values[place] for place in places]

    def lengths(self, shape: Iterable[int]) -> tuple[int, ...]:
        """Return a shape with all lengths known."""
        return tuple(map(self.of, shape))
