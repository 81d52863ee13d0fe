/* einsum_path.c -- in which order operands are taken together: see einsum.h.
 *
 * What a pair costs is its multiplications: the lengths of all names that either has, once those are summed that nobody else needs.
 * For few operands every order is looked at: the cheapest way to join a set of operands is the cheapest over all ways to part it in
 * two. For more, the pair comes first that costs least. Of equal costs, results of fewer elements are better. */
#include "op/einsum.h"
#include <stdbool.h>
#include <string.h>

enum { FEW = 8 }; /* 3^8 ways to part their sets take some tens of microseconds */

static struct name_bits either(struct name_bits a, struct name_bits b) {
  return (struct name_bits){ { a.word[0] | b.word[0], a.word[1] | b.word[1] } };
}
static struct name_bits both(struct name_bits a, struct name_bits b) {
  return (struct name_bits){ { a.word[0] & b.word[0], a.word[1] & b.word[1] } };
}

static double volume(struct name_bits s, const double length[]) {
  double n = 1;
  for (int w = 0; w < 2; w++)
    for (uint64_t rest = s.word[w]; rest; rest &= rest - 1) n *= length[64 * w + __builtin_ctzll(rest)];
  return n;
}

/* Names that are summed by nobody yet: what the operands in `of` have, as far as others or the result need it. */
static struct name_bits kept(int n, const struct name_bits names[], struct name_bits wanted, uint64_t of) {
  struct name_bits inside = { { 0 } }, outside = wanted;
  for (int k = 0; k < n; k++)
    if (of >> k & 1) inside = either(inside, names[k]);
    else outside = either(outside, names[k]);
  return both(inside, outside);
}

/* ---- every order ---- */

struct joined { struct name_bits names; double cost, room; int left; }; /* room: elements of all that is made on the way */

/* A path that is being written: what is left to join at this place of it, each as the set of operands it is made of. */
struct walk { struct einsum_path *path; int n_pairs, n_left; int set[FEW]; };

static int place_of(const struct walk *w, int set) {
  int i = 0;
  while (w->set[i] != set) i++;
  return i;
}

static void add_pair(struct walk *w, int left, int right) {
  int i = place_of(w, left), j = place_of(w, right), *pair = w->path->pair[w->n_pairs++];
  pair[0] = i < j ? i : j, pair[1] = i < j ? j : i;
  for (int k = 1; k >= 0; k--) memmove(&w->set[pair[k]], &w->set[pair[k] + 1], sizeof *w->set * (size_t)(--w->n_left - pair[k]));
  w->set[w->n_left++] = left | right;
}

static void walk_set(struct walk *w, const struct joined best[], int set) {
  if (!(set & (set - 1))) return;
  walk_set(w, best, best[set].left);
  walk_set(w, best, set ^ best[set].left);
  add_pair(w, best[set].left, set ^ best[set].left);
}

/* The cheapest way to part a set; its lowest operand is on the left. */
static void part(struct joined best[], int set, const double length[]) {
  double size = volume(best[set].names, length);
  best[set].left = 0;
  for (int left = (set - 1) & set; left; left = (left - 1) & set) {
    if (!(left & set & -set)) continue;
    const struct joined *a = &best[left], *b = &best[set ^ left];
    double cost = a->cost + b->cost + volume(either(a->names, b->names), length), room = a->room + b->room + size;
    if (best[set].left && (cost > best[set].cost || (cost == best[set].cost && room >= best[set].room))) continue;
    best[set].left = left, best[set].cost = cost, best[set].room = room;
  }
}

static void find_best(struct einsum_path *path, int n, const struct name_bits names[], struct name_bits wanted,
                      const double length[]) {
  struct joined best[1 << FEW];
  struct walk w = { .path = path, .n_left = n };
  for (int k = 0; k < n; k++) w.set[k] = 1 << k;
  for (int set = 1; set < 1 << n; set++) {
    best[set] = (struct joined){ .names = kept(n, names, wanted, (uint64_t)set) };
    if (set & (set - 1)) part(best, set, length);
  }
  walk_set(&w, best, (1 << n) - 1);
  path->products = best[(1 << n) - 1].cost;
}

/* ---- the cheapest pair first ---- */

static void find_next(int n, const struct name_bits names[], struct name_bits wanted, const double length[], int pair[2],
                      double *products) {
  double least_growth = 0;
  for (int j = 1; j < n; j++)
    for (int i = 0; i < j; i++) {
      struct name_bits a = kept(n, names, wanted, UINT64_C(1) << i), b = kept(n, names, wanted, UINT64_C(1) << j);
      struct name_bits made = kept(n, names, wanted, UINT64_C(1) << i | UINT64_C(1) << j);
      double cost = volume(either(a, b), length), growth = volume(made, length) - volume(a, length) - volume(b, length);
      bool is_first = i == 0 && j == 1;
      if (!is_first && (cost > *products || (cost == *products && growth >= least_growth))) continue;
      *products = cost, least_growth = growth, pair[0] = i, pair[1] = j;
    }
}

static void find_greedily(struct einsum_path *path, int n, const struct name_bits names[], struct name_bits wanted,
                          const double length[]) {
  struct name_bits left[EINSUM_OPERANDS];
  memcpy(left, names, sizeof *left * (size_t)n);
  for (int k = 0; n > 1; k++, n--) {
    int *pair = path->pair[k];
    double products = 0;
    find_next(n, left, wanted, length, pair, &products);
    path->products += products;
    struct name_bits made = kept(n, left, wanted, UINT64_C(1) << pair[0] | UINT64_C(1) << pair[1]);
    memmove(&left[pair[1]], &left[pair[1] + 1], sizeof *left * (size_t)(n - 1 - pair[1]));
    memmove(&left[pair[0]], &left[pair[0] + 1], sizeof *left * (size_t)(n - 2 - pair[0]));
    left[n - 2] = made;
  }
}

void einsum_find_path(struct einsum_path *path, int n, const struct name_bits names[], struct name_bits wanted,
                      const double length[]) {
  path->products = 0;
  if (n < 2) return;
  if (n <= FEW) find_best(path, n, names, wanted, length);
  else find_greedily(path, n, names, wanted, length);
}
