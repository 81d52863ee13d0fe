/* gpu_bins.c -- in which bin elements are, and how many there are in each, on a GPU: what op/bins.c does on the host.
 *
 * Counts are integers, so they may be added in any order: blocks of threads count few bins in shared memory first. Where the
 * host counts parts of a row apart, all counts stand in the first part. */
#include "backend/cuda/routine.h"

enum { FEW_BINS = 4096, FEW_EDGES = 1024 }; /* are counted, and searched, in shared memory */
enum { AT_A_TIME = 4 };                     /* elements of a thread whose loads are under way together */

static const char bins_text[] =
  WRITTEN(
entry bins_clear(u64* to, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) { to[i] = 0; }
}
  )
  /* Edges ascend; one that does not is the second check. */
  WRITTEN(
entry bins_edges(E* edges, s64* checks, u64 each, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) {
    E x = edges[i];
    E before = x;
    if (i % each != 0) { before = edges[i - 1]; }
    bool is_good = x >= before;
    if (!is_good) { atom_min(checks[4], s64(i)); }
  }
}
  )
  /* x [.., length] to bins [.., length] or counts, of which a problem has `counts_each`. The bin is the last one that begins at the
   * element or before it, as in op/bins_loops.h: where the bins may all be as wide it is guessed, and searched for if the edges on
   * both sides say that it is another. */
  WRITTEN(
entry bins_of(T* x, E* edges, s64* bins, u64* counts, s64* checks, u64 length, u64 n, u64 edges_each, u64 counts_each, u32 cuts) {
  shared u32 own[IN_SHARED ? 4096 : 1];
  shared E ruler[EDGES_IN_SHARED ? 1024 : 1];
  u64 problem = u64(block / cuts);
  T* a = x + problem * length;
  E* e = edges + problem * edges_each;
  s64* to = bins + problem * length;
  u64* c = counts + problem * counts_each;
  if (IN_SHARED) {
    u32 k = tid;
    while (u64(k) < n) { own[k] = 0; k = k + 256; }
    bar;
  }
  if (EDGES_IN_SHARED) {
    u32 k = tid;
    while (u64(k) <= n) { ruler[k] = e[k]; k = k + 256; }
    bar;
  }
  E start;
  E scale;
  u32 at;
  if (EDGES_IN_SHARED) {
    start = ruler[0];
    scale = E(n) / (ruler[u32(n)] - start);
  }
  u64 step = u64(cuts) * 256;
  u64 i = u64(block % cuts) * 256 + u64(tid);
  T v[AT_A_TIME];
  while (i < length) {
    repeat (k, AT_A_TIME) { if (i + k * step < length) { v[k] = a[i + k * step]; } }
    repeat (k, AT_A_TIME) {
      if (i + k * step < length) {
        u64 bin = n;
        if (HAS_EDGES) {
          E z = E(v[k]);
          if (EDGES_IN_SHARED) {
            if (z >= start && z <= ruler[u32(n)]) {
              at = min(u32((z - start) * scale), u32(n) - 1);
              if (!(ruler[at] <= z && (at + 1 == u32(n) || z < ruler[at + 1]))) {
                at = 0;
                u32 left = u32(n);
                while (left > 1) {
                  u32 half = left / 2;
                  at = ruler[at + half] <= z ? at + half : at;
                  left = left - half;
                }
              }
              bin = u64(at);
            }
          } else if (n > 0) {
            if (z >= e[0] && z <= e[n]) {
              u64 far = 0;
              u64 many = n;
              while (many > 1) {
                u64 part = many / 2;
                far = e[far + part] <= z ? far + part : far;
                many = many - part;
              }
              bin = far;
            }
          }
        } else {
          bin = u64(s64(v[k]));
          if (bin >= n) {
            s64 place = s64(problem * length + i + k * step);
            atom_min(checks[0], place);
            repeat (w, 3) { atom_min(checks[1 + w], (place << 22) | s64((bin >> (22 * w)) & 4194303)); }
            bin = n;
          }
        }
        if (IS_COUNT) {
          if (bin < n) {
            if (IN_SHARED) { atom_add(own[u32(bin)], 1); } else { atom_add(c[bin], 1); }
          }
        } else { to[i + k * step] = s64(bin); }
      }
    }
    i = i + AT_A_TIME * step;
  }
  if (IN_SHARED) {
    bar;
    u32 k = tid;
    while (u64(k) < n) {
      if (own[k] != 0) { atom_add(c[k], u64(own[k])); }
      k = k + 256;
    }
  }
}
  );

static const char *type_of(weft_dtype t) {
  switch (t) {
    case WEFT_BOOL: case WEFT_U8: return "u8";
    case WEFT_I8: return "s8";
    case WEFT_U16: return "u16";
    case WEFT_I16: return "s16";
    case WEFT_U32: return "u32";
    case WEFT_I32: return "s32";
    case WEFT_U64: return "u64";
    case WEFT_I64: return "s64";
    case WEFT_F32: return "f32";
    case WEFT_F64: return "f64";
    case WEFT_F16: case WEFT_BF16: case WEFT_E4M3: case WEFT_E5M2: case WEFT_C64: case WEFT_C128: break;
  }
  return NULL;
}

/* Arrays: x [.., N], edges [.., n + 1] or what has n elements; then counts [.., parts, n] or bins [.., N]. number: whether
 * there are edges, and n. */
static int binned(struct gpu *g, const struct routine_call *c, bool is_count, bool only_asks) {
  const struct routine_array *x = &c->array[0], *ruler = &c->array[1], *y = &c->array[2];
  bool has_edges = c->number[0] != 0;
  int64_t n = c->number[1], length = routine_last(x, 1), problems = c->n_problems;
  int64_t cuts = length < 256 * 16 ? 1 : (length - 1) / (256 * 16) + 1, parts = is_count ? routine_last(y, 2) : 0;
  if (cuts > 1024) cuts = 1024;
  const struct written_name names[] = {
    { "T", 0, type_of(x->dtype) }, { "E", 0, has_edges && ruler->dtype == WEFT_F32 ? "f32" : "f64" }, { "HAS_EDGES",
        has_edges, NULL },
    { "IS_COUNT", is_count, NULL }, { "IN_SHARED", is_count && n <= FEW_BINS, NULL },
    { "EDGES_IN_SHARED", has_edges && n > 0 && n < FEW_EDGES, NULL }, { "AT_A_TIME", AT_A_TIME, NULL },
    { NULL, 0, NULL },
  };
  struct routine_module *m;
  if (!names[0].type || problems > INT32_MAX / 1024) return DEVICE_CANNOT;
  int how = routine_load(g, bins_text, names, &m);
  if (how || only_asks) return how;
  uint64_t checks = (uint64_t)(uintptr_t)c->words;
  int64_t all = problems * parts * n, edges = problems * (n + 1);
  if (is_count && all) how = LAUNCH(g, m, "bins_clear", (all - 1) / 256 + 1, 256, y->at, (uint64_t)all);
  if (!how && has_edges && n)
    how = LAUNCH(g, m, "bins_edges", (edges - 1) / 256 + 1, 256, ruler->at, checks, (uint64_t)(n + 1), (uint64_t)edges);
  if (how || !length) return how;
  return LAUNCH(g, m, "bins_of", problems * cuts, 256, x->at, ruler->at, y->at, y->at, checks, (uint64_t)length, (uint64_t)n,
                (uint64_t)(n + 1), (uint64_t)(parts * n), (uint64_t)cuts);
}

int tally_there(struct gpu *g, const struct routine_call *c, bool only_asks) { return binned(g, c, true, only_asks); }
int bins_there(struct gpu *g, const struct routine_call *c, bool only_asks) { return binned(g, c, false, only_asks); }
