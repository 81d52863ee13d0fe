/* bins_loops.h -- where numbers belong between edges: included by bins.c for each type of edges, with NUMBER and NAME(x). */

struct NAME(ruler) { const NUMBER *edge; int64_t n; NUMBER low, high, scale; bool is_even; };

/* In bins that are even, up to one bin too low or too high. x is not outside. */
ORDER_INLINE int64_t NAME(guess)(const struct NAME(ruler) *r, NUMBER x) {
  int64_t i = (int64_t)((x - r->low) * r->scale);
  return i < r->n ? i : r->n - 1;
}

/* A guess never falls where x grows: so if that of every edge is one of the bins beside it, each is off by one at most. */
static bool NAME(is_even)(const struct NAME(ruler) *r) {
  bool ok = r->scale > 0 && (r->high - r->low) * r->scale < (NUMBER)0x1p62;
  for (int64_t i = 0, g; ok && i <= r->n; i++) {
    g = NAME(guess)(r, r->edge[i]);
    ok = i - 1 <= g && g <= i;
  }
  return ok;
}

/* n_x: of so many numbers the bins are asked for; of few it does not pay to look whether edges are even. */
static struct failure *NAME(ruler_set)(struct NAME(ruler) *r, const void *edges, int64_t n, int64_t n_x, uint64_t origin) {
  *r = (struct NAME(ruler)){ edges, n, 1, 0, 0, false }; /* no number is not below 1 and not above 0 */
  if (n <= 0) return NULL;
  for (int64_t i = 0; i <= n; i++) {
    if (!(r->edge[i] >= r->edge[i ? i - 1 : 0])) return not_above(i, origin);
  }
  r->low = r->edge[0], r->high = r->edge[n], r->scale = (NUMBER)n / (r->high - r->low);
  r->is_even = n_x / 4 >= n && NAME(is_even)(r);
  return NULL;
}

/* The last bin whose edge is not above x, of those but the last edge. */
ORDER_INLINE int64_t NAME(search)(const struct NAME(ruler) *r, NUMBER x) {
  int64_t at = 0;
  for (int64_t n = r->n, half; n > 1; n -= half) {
    half = n / 2;
    at += r->edge[at + half] <= x ? half : 0;
  }
  return at;
}

ORDER_INLINE int64_t NAME(bin)(const struct NAME(ruler) *r, NUMBER x, bool is_even) {
  if (!(x >= r->low && x <= r->high)) return r->n;
  if (!is_even) return NAME(search)(r, x);
  int64_t i = NAME(guess)(r, x);
  i -= x < r->edge[i];
  return i + (i + 1 < r->n && x >= r->edge[i + 1]);
}
