"""Times of systems that take turns."""
import statistics
import time

TURN = 0.005   # seconds a system should be busy in a round
clock = time.perf_counter  # or time.process_time: that of all threads of this process
REST = 0.02    # seconds before, in which the threads of the last one stop spinning: those of OpenBLAS take the longest


class Row:
    """One work: by system, milliseconds of every round, the first call's, and who came to another result."""

    def __init__(self, work):
        self.name, self.group = work.name, work.group
        self.ms, self.first, self.differs, self.failed = {}, {}, [], {}

    def median(self, system):
        return statistics.median(self.ms[system])

    def ratio(self, system, to="weft"):
        """(median, lower and upper quartile) of the times relative to another's, round by round."""
        r = sorted(a / b for a, b in zip(self.ms[system], self.ms[to]))
        return statistics.median(r), r[len(r) // 4], r[len(r) - 1 - len(r) // 4]

    def as_json(self, at):
        return {"name": self.name, "group": self.group, "at": at, "ms": {n: round(self.median(n), 6) for n in self.ms},
                "ratio": {n: [round(v, 3) for v in self.ratio(n)] for n in self.ms},
                "first_ms": {n: round(v, 3) for n, v in self.first.items()}, "differs": self.differs, "failed": self.failed}


class Kept:
    """A row that was measured before, as it was written."""

    def __init__(self, row):
        self.name, self.group, self.ms, self.differs, self.failed = row["name"], row["group"], row["ms"], row["differs"], row["failed"]
        self.day = row["at"][:10]
        self._ratio = row["ratio"]

    def median(self, system):
        return self.ms[system]

    def ratio(self, system):
        return self._ratio[system]


def leaf(x):
    while isinstance(x, (tuple, list)):
        x = x[0]
    return x


def prepare(row, work, systems):
    """By system: a call without arguments that has run once."""
    import numpy as np
    given = work.inputs()
    ready, reference = {}, None
    for s in systems:
        try:
            f, a = work.on(s, [s.array(*reversed(x)) if isinstance(x, tuple) else s.array(x, work.dtype) for x in given])
            call = lambda f=f, a=a, s=s: s.wait(f(*a))
            start = time.perf_counter()
            result = call()
            row.first[s.name] = 1e3 * (time.perf_counter() - start)
        except (AttributeError, NotImplementedError):
            if s.name == "weft":
                return {}
            continue
        except TypeError as why:
            if "NoneType" not in str(why):
                row.failed[s.name] = f"TypeError: {why}"
            continue
        except Exception as why:
            row.failed[s.name] = f"{type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}"[:120]
            continue
        value = s.numpy(leaf(result))
        if reference is None:
            reference = value
        elif value.shape != reference.shape or not np.nanmax(np.abs(value - reference) / (1 + np.abs(reference)), initial=0) <= work.tolerance:
            row.differs.append(s.name)
        ready[s.name] = call
    return ready


def turns(calls, seconds):
    """By name: seconds of one call, by round. Each name has its turn in every round."""
    repeats, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        start = clock()
        call()
        repeats[name] = max(1, min(2000, int(TURN / max(1e-7, clock() - start))))
    busy, rounds = 0, 0
    while rounds < 3 or (rounds < 31 and busy < seconds):
        rounds += 1
        for name, call in calls.items():
            time.sleep(REST)
            call()
            start = clock()
            for _ in range(repeats[name]):
                call()
            took = clock() - start
            busy += took
            times[name].append(took / repeats[name])
    return times


def measure(work, systems, seconds):
    row = Row(work)
    ready = prepare(row, work, systems)
    for name, t in turns(ready, seconds).items():
        row.ms[name] = [1e3 * x for x in t]
    return row
