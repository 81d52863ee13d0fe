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

The number of steps may be a name: an argument of a function that is being traced. What depends on it is then known when the
scan has run, and so is where rows go.
"""
from typing import Callable, List, NamedTuple, Sequence, Tuple

from . import _core
from ._core import array, zeros

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
    """The number in an integer, or in an array of one; the array itself if it is a name."""
    dtype = str(getattr(x, "dtype", type(x).__name__)).rpartition(".")[2]
    if not dtype.startswith(("int", "uint")):
        raise TypeError(f"scan: {x!r} is not a number of steps")
    try:
        return int(x)
    except _core.NoValueError:
        return x


def _is_name(n):
    return isinstance(n, array)


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
    if not _is_name(n) and n < 0:
        raise IndexError(f"scan: {n} steps")
    kinds = [make(x, *taps) for (make, taps), x in zip(makers, outer[1 + info.n_seqs:])]
    traced = len(kinds) - info.n_untraced_sit_sot - info.n_nit_sot
    return n, kinds[:traced] + kinds[traced + info.n_untraced_sit_sot:] + kinds[traced:traced + info.n_untraced_sit_sot]


def _elements(loop, info, n, outer):
    seqs = [_as_array(x) for x in outer[1:1 + info.n_seqs]]
    for k, seq in enumerate(seqs):
        if not _is_name(n) and seq.shape[0] < n:
            raise ValueError(f"scan: sequence {k} has {seq.shape[0]} rows, the scan {n} steps")
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
        self.counter = _Counter(loop) if is_while or _is_name(n) else None
        if not _is_name(n) and n and self.buffer.shape[0] < n + self.width - 1:
            raise ValueError(f"scan: a mit-mot buffer has {self.buffer.shape[0]} rows, its taps need {n + self.width - 1}")
        held = self.width - 1
        buffer = self.buffer if _is_name(n) or n else zeros((held, *self.buffer.shape[1:]), dtype=self.buffer.dtype)
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
        if not _is_name(n) and n == 0:
            return self.buffer
        if not self.counter:
            rest = self.buffer[n + self.width - 1:]
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
    """A buffer whose row m + i step i writes; the last rows are carried, as many as taps or a short buffer need.

    The m carried rows are a window on rows: what leaves it are the first ones, in order, however many steps there are. So the
    last rows of a scan that ends itself are the last ones that left, and the window."""

    n_results = 1

    def __init__(self, length, initial):
        self.length, self.m, self.initial = length, len(initial), initial

    def open(self, loop, n, is_while):
        if _is_name(n) and self.length is n:  # all rows
            self.length, self.is_cut, self.is_placed = None, False, False
        elif _is_name(self.length):
            raise _core.NoValueError("scan: the length of a buffer is a name, and not that of the steps")
        elif self.length < self.m:
            raise ValueError(f"scan: a buffer of {self.length} rows for a state of {self.m}")
        else:
            self.is_cut = _is_name(n) or n + self.m > self.length
            self.is_placed = _is_name(n) and not is_while
        self.is_while = is_while
        self.carries = [loop.carry(row) for row in self.initial]
        self.counter = _Counter(loop) if self.is_placed else None

    def step(self, loop, results):
        value, = results
        for row in self.initial[:1]:
            if (value.shape, value.dtype) != (row.shape, row.dtype):
                error = TypeError if value.dtype != row.dtype else ValueError
                raise error(f"scan: a state of {row.dtype} {row.shape} becomes {value.dtype} {value.shape}")
        more = self.length - self.m if self.is_cut else 0
        is_carried = self.is_cut and not self.is_placed and (more == 0 or (more <= MOST_ROWS_CARRIED and not self.is_while))
        rows = [loop.carry(zeros(value.shape, dtype=value.dtype)) for _ in range(more)] if is_carried else []
        rows += self.carries
        for row, next_row in zip(rows, (*rows[1:], value)):
            loop.next(row, next_row)
        self.last = [loop.last(row) for row in rows]
        self.written = self.left = None
        if is_carried and rows:
            return
        if self.is_cut and self.is_while and self.m:
            self.left = loop.tail(self.carries[0], more)
        else:
            self.written = loop.tail(value, self.length) if self.is_cut and self.length else loop.all(value)
        if self.is_placed:
            self.shape = value.shape
            self.steps = loop.tail(self.counter.name, self.length) if self.length else None
            self.executed = self.counter.step(loop)

    def place(self):
        """The rows of a buffer that has its length whatever the number of steps: those that do not fit are the first. They
        go to row 0, which the ones after them then overwrite."""
        buffer = zeros((self.length, *self.shape), dtype=self.written.dtype)
        if not self.length:
            return buffer
        cut = _core.maximum(self.executed + (self.m - self.length), 0)
        for k, row in enumerate(self.initial):
            buffer = buffer.at[_core.maximum(k - cut, 0)].set(row)
        return buffer.at[self.steps + (self.m - cut)].set(self.written)

    def result(self, n):
        if self.is_placed:
            return self.place()
        if self.left is not None:
            return _core.concatenate([self.left, *(_core.expand_dims(row, 0) for row in self.last)], 0)
        if self.written is None:
            return _core.stack(self.last, 0)
        rows = [_core.expand_dims(row, 0) for row in self.initial] + [self.written]
        if not self.is_while and self.length is not None and n + self.m < self.length:
            rows.append(zeros((self.length - n - self.m, *self.written.shape[1:]), dtype=self.written.dtype))
        trace = rows[0] if len(rows) == 1 else _core.concatenate(rows, 0)
        return trace[max(0, trace.shape[0] - self.length):] if self.is_cut and self.m else trace


class _Sot(_Rows):
    def __init__(self, buffer, taps):
        if not taps or max(taps) >= 0:
            raise ValueError(f"scan: taps {taps} of a state are not all negative")
        buffer = _as_array(buffer)
        super().__init__(buffer.shape[0], _first_rows(buffer, -min(taps)))
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
    if buffer.shape[0] < m:
        raise ValueError(f"scan: a buffer of {buffer.shape[0]} rows for a state of {m}")
    return [buffer[k] for k in range(m)]
