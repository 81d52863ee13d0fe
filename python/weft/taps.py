"""Scans in the kinds that PyTensor's Scan knows, as loops of weft.

A Scan is described by counts and taps, and an inner graph that maps lists of arrays to lists of arrays. Rows of a buffer
are steps of time. With i the step, t a tap, m the number of rows a buffer begins with:

    sequence       reads x[i]
    mit-mot        reads and writes b[i + t - least tap read]; the whole buffer counts from the start
    mit-sot        reads row i + m + t, writes row i + m; m = -(least tap)
    sit-sot        the same with the one tap -1
    nit-sot        writes row i; m = 0
    untraced       what the step before gave; no axis of time
    non-sequence   itself

A buffer may be shorter than what passes through it: it then ends with the last rows, oldest first. If it is longer, rows
that were not written are 0; a scan that its condition ends has no such rows.

Numbers of steps and of rows may be open: arithmetic of the sizes of arguments of a function that is being traced. The scan is
then written once for all of them; where it matters how two compare, both cases are. The number of steps may also be a name, an
integer among the arguments: what depends on it is known when the scan has run, and so is where rows go.
"""
from typing import Callable, List, NamedTuple, Sequence, Tuple

from . import _core
from ._core import array, zeros
from ._size import settled as _settled

MOST_ROWS_CARRIED = 8  # the last rows of a shorter buffer are carried along if they are so few


class ScanInfo(NamedTuple):
    """How many of each kind there are, in the order in which inputs and outputs are listed; a tuple of taps for each."""

    n_seqs: int = 0
    mit_mot_in_slices: Tuple[Tuple[int, ...], ...] = ()
    mit_mot_out_slices: Tuple[Tuple[int, ...], ...] = ()
    mit_sot_in_slices: Tuple[Tuple[int, ...], ...] = ()
    sit_sot_in_slices: Tuple[Tuple[int, ...], ...] = ()
    n_nit_sot: int = 0
    n_untraced_sit_sot: int = 0
    n_non_seqs: int = 0
    as_while: bool = False


def scan(info: ScanInfo, inner: Callable[..., Sequence[array]], outer: Sequence) -> List[array]:
    """The outputs of a Scan.

    outer: n_steps; sequences; mit-mot, mit-sot and sit-sot buffers; first untraced values; lengths of nit-sot buffers;
    non-sequences. inner takes one element of each sequence, then taps and states in the same order, then
    non-sequences; it returns what is written (mit-mot, mit-sot, sit-sot, nit-sot), untraced values and, as_while, the
    condition that ends the scan after its step. Outputs are mit-mot, mit-sot, sit-sot and nit-sot buffers, then
    the last untraced values.
    """
    n, kinds = _kinds(info, outer)
    with _core.Scope("scan"):
        loop = _core.Loop(n)
        seqs, non_seqs = _elements(loop, info, n, outer), [_as_array(x) for x in outer[len(outer) - info.n_non_seqs:]]
        for kind in kinds:
            kind.open(loop, n, info.as_while)
        results = list(inner(*seqs, *(x for kind in kinds for x in kind.inputs()), *non_seqs))
        expected = sum(kind.n_results for kind in kinds) + info.as_while
        if len(results) != expected:
            raise ValueError(f"scan: the inner graph gives {len(results)} results, not {expected}")
        if info.as_while:
            loop.until(_core.not_equal(results.pop(), 0))
        for kind in kinds:
            kind.step(loop, results[:kind.n_results])
            del results[:kind.n_results]
        loop.close()
        return [kind.result(n) for kind in kinds]


def _count(x):
    """The number in an integer, or in an array of one; the array itself if it is open or a name."""
    dtype = str(getattr(x, "dtype", type(x).__name__)).rpartition(".")[2]
    if not dtype.startswith(("int", "uint")):
        raise TypeError(f"scan: {x!r} is not a number of steps")
    return _settled(x)


def _is_open(n):
    return isinstance(n, array)


def _rows(x):
    """How many there are: a number, or open."""
    return _settled(_core.size(x, 0))


def _above_zero(n):
    return _settled(_core.maximum(n, 0)) if _is_open(n) else max(n, 0)


def _shape(x):
    try:
        return tuple(x.shape)
    except _core.NoValueError:
        return None


def _zeros(n, rows):
    """n rows of zeros, like these."""
    return zeros((n, *(_settled(_core.size(rows, axis)) for axis in range(1, rows.ndim))), dtype=rows.dtype)


def _as_array(x):
    return x if isinstance(x, array) else _core.asarray(x)


def _kinds(info, outer):
    """The number of steps, and what has a state or a result, in the order of PyTensor's lists."""
    if len(info.mit_mot_in_slices) != len(info.mit_mot_out_slices):
        raise ValueError("scan: mit-mot buffers have taps to read and taps to write")
    makers = [(_MitMot, taps) for taps in zip(info.mit_mot_in_slices, info.mit_mot_out_slices)]
    makers += [(_Sot, (taps,)) for taps in (*info.mit_sot_in_slices, *info.sit_sot_in_slices)]
    makers += [(_Untraced, ())] * info.n_untraced_sit_sot + [(_NitSot, ())] * info.n_nit_sot
    if len(outer) != 1 + info.n_seqs + len(makers) + info.n_non_seqs:
        raise ValueError(f"scan: {len(outer)} inputs, not {1 + info.n_seqs + len(makers) + info.n_non_seqs}")
    n = _count(outer[0])
    if not _is_open(n) and n < 0:
        raise IndexError(f"scan: {n} steps")
    kinds = [make(x, *taps) for (make, taps), x in zip(makers, outer[1 + info.n_seqs:])]
    traced = len(kinds) - info.n_untraced_sit_sot - info.n_nit_sot
    return n, kinds[:traced] + kinds[traced + info.n_untraced_sit_sot:] + kinds[traced:traced + info.n_untraced_sit_sot]


def _elements(loop, info, n, outer):
    seqs = [_as_array(x) for x in outer[1:1 + info.n_seqs]]
    for k, seq in enumerate(seqs):
        rows = _rows(seq)
        if not _is_open(n) and not _is_open(rows) and rows < n:
            raise ValueError(f"scan: sequence {k} has {rows} rows, the scan {n} steps")
    return [loop.each(seq) for seq in seqs]


class _MitMot:
    """A window of rows that moves along the buffer: what enters it is read as a sequence, what leaves it is final."""

    def __init__(self, buffer, taps_in, taps_out):
        self.buffer = _as_array(buffer)
        self.first = min(taps_in, default=0)
        if not taps_in or min(taps_out, default=self.first) < self.first:
            raise ValueError(f"scan: a mit-mot buffer writes taps {taps_out}, below the taps {taps_in} it reads")
        self.reads = [tap - self.first for tap in taps_in]
        self.writes = [tap - self.first for tap in taps_out]
        self.width = max(self.reads + self.writes) + 1
        self.n_results = len(self.writes)

    def open(self, loop, n, is_while):
        self.counter = _Counter(loop) if is_while else None
        rows, held = _rows(self.buffer), self.width - 1
        if not _is_open(n) and not _is_open(rows) and n and rows < n + held:
            raise ValueError(f"scan: a mit-mot buffer has {rows} rows, its taps need {n + held}")
        buffer = self.buffer if _is_open(n) or n else _zeros(held, self.buffer)
        self.carries = [loop.carry(row) for row in _first_rows(buffer, held)]
        self.window = self.carries + [loop.each(buffer[held:])]

    def inputs(self):
        return [self.window[k] for k in self.reads]

    def step(self, loop, results):
        window = list(self.window)
        for k, value in zip(self.writes, results):
            window[k] = value
        for carry, value in zip(self.carries, window[1:]):
            loop.next(carry, value)
        self.left = loop.all(window[0])
        self.last = [loop.last(carry) for carry in self.carries]
        if self.counter:
            self.steps, self.executed = loop.all(self.counter.name), self.counter.step(loop)

    def result(self, n):
        if not _is_open(n) and n == 0:
            return self.buffer
        if not self.counter:
            rest = self.buffer[n + (self.width - 1):]
            return _core.concatenate([self.left, *(_core.expand_dims(row, 0) for row in self.last), rest], 0)
        buffer = self.buffer.at[self.steps].set(self.left)
        for k, row in enumerate(self.last):
            buffer = buffer.at[self.executed + k].set(row)
        return buffer


class _Counter:
    """The number of the step, for what cannot be counted before the scan has run."""

    def __init__(self, loop):
        self.name = loop.carry(_core.asarray(0))

    def step(self, loop):
        loop.next(self.name, self.name + 1)
        return loop.last(self.name)


class _Rows:
    """A buffer whose row m + i step i writes; the m rows before are its own. Of so many rows its length is the last; if there are
    fewer, rows of zeros follow.

    How: a buffer hardly longer than m is a window of carries. Of one that may be cut the rows that fit are kept, and placed where
    they are counted to go. Of a scan that ends itself, what leaves a window of m rows are the first ones, in order, however many
    steps there are, so the last rows are the last that left and the window. Else all rows are kept."""

    n_results = 1

    def __init__(self, length, initial):
        self.length, self.m, self.initial = length, len(initial), initial

    def open(self, loop, n, is_while):
        if not _is_open(self.length) and self.length < self.m:
            raise ValueError(f"scan: a buffer of {self.length} rows for a state of {self.m}")
        excess = 0 if self.length is n and not self.m else n + self.m - self.length
        self.excess, self.is_while = _settled(excess), is_while
        self.may_be_cut = _is_open(self.excess) or self.excess > 0
        self.may_be_long = not is_while and (_is_open(self.excess) or self.excess < 0)
        self.way = self.choose()
        self.carries = [loop.carry(row) for row in self.initial]
        self.counter = _Counter(loop) if self.way == "placed" else None

    def choose(self):
        if _is_open(self.length) or not self.may_be_cut:
            return "whole"
        if self.is_while:
            return "window" if self.m else "tail"
        is_short = self.length == self.m or (self.m and self.length - self.m <= MOST_ROWS_CARRIED)
        return "carried" if is_short else "placed" if self.may_be_long else "tail"

    def step(self, loop, results):
        value, = results
        for row in self.initial[:1]:
            shapes = _shape(value), _shape(row)
            if value.dtype != row.dtype or (None not in shapes and shapes[0] != shapes[1]):
                error = TypeError if value.dtype != row.dtype else ValueError
                raise error(f"scan: a state of {row.dtype} {shapes[1]} becomes {value.dtype} {shapes[0]}")
        more = self.length - self.m if self.way in ("carried", "window") else 0
        rows = [loop.carry(_core.zeros_like(self.initial[0])) for _ in range(more if self.way == "carried" else 0)] + self.carries
        for row, next_row in zip(rows, (*rows[1:], value)):
            loop.next(row, next_row)
        self.last = [loop.last(row) for row in rows]
        if self.way == "window":
            self.gone = [loop.tail(self.carries[0], more)] if more else []
        elif self.way != "carried" or not rows:
            self.written = loop.tail(value, self.length) if self.way in ("tail", "placed") and self.length else loop.all(value)
        if self.way == "placed":
            self.steps, self.executed = loop.tail(self.counter.name, self.length), self.counter.step(loop)

    def result(self, n):
        return getattr(self, self.way)()

    def before(self):
        return [_core.expand_dims(row, 0) for row in self.initial]

    def whole(self):
        rows = [*self.before(), self.written]
        if self.may_be_long:
            rows.append(_zeros(_above_zero(-self.excess), self.written))
        rows = rows[0] if len(rows) == 1 else _core.concatenate(rows, 0)
        if not self.may_be_cut:
            return rows
        return rows[_above_zero(_rows(rows) - self.length if self.is_while else self.excess):]

    def tail(self):
        rows = [*self.before(), self.written]
        return (rows[0] if len(rows) == 1 else _core.concatenate(rows, 0))[-self.length:] if self.length else self.written[:0]

    def window(self):
        return _core.concatenate([*self.gone, *(_core.expand_dims(row, 0) for row in self.last)], 0)

    def carried(self):
        """If there were fewer steps than rows, those that were not written yet are in front: they are to be last."""
        if not self.last:
            return self.written[:0]
        rows = _core.stack(self.last, 0)
        if not self.may_be_long:
            return rows
        return rows[(_core.arange(self.length) + _above_zero(-self.excess)) % self.length]

    def placed(self):
        """Rows that do not fit are the first. They go to row 0, which the ones after them then overwrite."""
        buffer = _zeros(self.length, self.written)
        cut = _core.maximum(self.executed + (self.m - self.length), 0)
        for k, row in enumerate(self.initial):
            buffer = buffer.at[_core.maximum(k - cut, 0)].set(row)
        return buffer.at[self.steps + (self.m - cut)].set(self.written)


class _Sot(_Rows):
    def __init__(self, buffer, taps):
        if not taps or max(taps) >= 0:
            raise ValueError(f"scan: taps {taps} of a state are not all negative")
        buffer = _as_array(buffer)
        super().__init__(_rows(buffer), _first_rows(buffer, -min(taps)))
        self.taps = taps

    def inputs(self):
        return [self.carries[self.m + tap] for tap in self.taps]


class _NitSot(_Rows):
    def __init__(self, length):
        super().__init__(_count(length), [])

    def inputs(self):
        return []


class _Untraced:
    n_results = 1

    def __init__(self, initial):
        self.initial = _as_array(initial)

    def open(self, loop, n, is_while):
        self.carry = loop.carry(self.initial)

    def inputs(self):
        return [self.carry]

    def step(self, loop, results):
        loop.next(self.carry, results[0])
        self.last = loop.last(self.carry)

    def result(self, n):
        return self.last


def _first_rows(buffer, m):
    rows = _rows(buffer)
    if not _is_open(rows) and rows < m:
        raise ValueError(f"scan: a buffer of {rows} rows for a state of {m}")
    return [buffer[k] for k in range(m)]
