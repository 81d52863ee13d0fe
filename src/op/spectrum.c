/* spectrum.c -- the Fourier transform along the last axis: a library step with two results, real and imaginary parts.
 *
 * Its operands are the same of x, the imaginary part only if there is one, and the turns (fourier.h), which a device reads as they
 * are: so all have the same bits. The other way round is the same step with real and imaginary parts exchanged. Of a length that is
 * not known yet it is written later (later.h); in the body of a loop, which has no arrays of its own, a step writes the turns. */
#include <pthread.h>
#include <string.h>
#include "base/mem.h"
#include "graph/caller.h"
#include "op/composed.h"
#include "op/fourier.h"
#include "op/later.h"

struct fourier_attr { dim n; }; /* which the turns are of */

/* ---- the step: in re[.., n], im[.., n] if any, turns; out re[.., n], im[.., n]. All rows are one problem, a row a part ---- */

static int batch_axes(const void *attr) { return (void)attr, 0; }
static int64_t length(const struct library_call *c) { return c->in[0].dims[c->in[0].rank - 1]; }

static int64_t rows(const struct library_call *c) {
  int64_t n = 1;
  for (int k = 0; k + 1 < c->in[0].rank; k++) n *= c->in[0].dims[k];
  return n;
}

static bool is_wide(const struct library_call *c) { return c->in[0].dtype == WEFT_F64; }
static size_t scratch(const struct library_call *c) { return fourier_room(length(c), is_wide(c)); }

/* Twice as many where r is 4; of an odd r 8 r for each. */
static double operations(const struct library_call *c) {
  double each = 1;
  for (int64_t l = 1, n = length(c), r; l < n; l *= r) r = radix_next(n / l), each += radix_is_prime(r) ? 8 * (double)r : 6;
  return (double)rows(c) * (double)length(c) * each / 4;
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = length(c), row = n * (int64_t)weft_dtype_bytes(c->in[0].dtype);
  const struct library_array *im = c->n_in == 3 ? &c->in[1] : NULL;
  fourier_rows(n, is_wide(c), c->in[c->n_in - 1].data, to - from, c->in[0].data + from * row, im ? im->data + from * row : NULL,
               c->out[0].data + from * row, c->out[1].data + from * row, room);
  return NULL;
}

static const struct library step = { .batch_axes = batch_axes, .parts = rows, .operations = operations, .scratch = scratch,
                                     .run = run, .routine = "fourier" };

/* ---- rules: a linear map, which transposed is the one of the other way ---- */

static int count(const struct node *n) { return (void)n, 2; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0];
  (void)k;
  *rank = x->rank;
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  return (weft_dtype)x->dtype;
}

/* Both parts of the transform of re + i im. */
static void apply(weft_array *re, weft_array *im, weft_array *turns, weft_array *out[2]) {
  weft_array *x[3] = { re, im ? im : turns, turns };
  struct node *in[3];
  int n = im ? 3 : 2;
  for (int k = 0; k < n; k++)
    if (!(in[k] = array_good_node(x[k]))) { nodes_release(k, in), out[0] = out[1] = x[k]; return; }
  struct fourier_attr a = { in[0]->dims[in[0]->rank - 1] };
  library_apply(&op_fourier, n, in, &a, sizeof a, 2, out);
  nodes_release(n, in);
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  weft_array *like = r->in[0], *d[2];
  if (!dy[0] && !dy[1]) return;
  apply(dy[1] ? dy[1] : zeros_like(like), dy[0] ? dy[0] : zeros_like(like), r->in[r->n_in - 1], d);
  if (is_wanted[0]) dx[0] = d[1];
  if (r->n_in == 3 && is_wanted[1]) dx[1] = d[0];
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  weft_array *im = r->n_in == 3 ? dx[1] : NULL;
  if (dx[0] || im) apply(dx[0] ? dx[0] : zeros_like(r->in[0]), im, r->in[r->n_in - 1], dy);
}

/* Rows of a map are rows of the step. */
static weft_array *in_rows(weft_array *x, weft_array *mapped) {
  dim dims[WEFT_RANK_MAX + 1] = { mapped->node->dims[0] };
  if (x->node->rank == WEFT_RANK_MAX)
    return array_bad(WEFT_ERR_SHAPE, "weft_map: an operand of fourier has rank %d already", WEFT_RANK_MAX);
  for (int k = 0; k < x->node->rank; k++) dims[k + 1] = x->node->dims[k];
  return array_broadcast("weft_map", x, x->node->rank + 1, dims);
}

static void map(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  weft_array *re = r->in[0], *im = r->n_in == 3 ? r->in[1] : NULL;
  if (im && is_mapped[0] != is_mapped[1]) is_mapped[0] ? (im = in_rows(im, re)) : (re = in_rows(re, im));
  apply(re, im, r->in[r->n_in - 1], ys);
  is_mapped_out[0] = is_mapped_out[1] = true;
}

static struct node *again(const struct node *n, struct node *const in[], struct failure **why) {
  const struct fourier_attr *a = n->attr;
  struct shape_text s;
  if (dim_resolve(in[0]->dims[in[0]->rank - 1]) == a->n) return library_again(n, in, why);
  *why = fail(WEFT_ERR_SHAPE, n->origin, "weft_fft: made for %lld elements, not for %s", (long long)a->n, shape_show(in[0], &s));
  return NULL;
}

static const struct many results = { count, type, vjp, jvp, map };
const struct op op_fourier = { .name = "fourier", .kind = OP_LIBRARY, .again = again, .many = &results, .library = &step };

/* ---- turns of lengths that were asked for lately, so that many short transforms do not write them each time. Whoever finds the
 * lock taken writes his own. When the room is full, it is emptied ---- */

enum { KEPT_BYTES = 1 << 18, KEPT_MOST = 64 };
static struct {
  pthread_mutex_t lock;
  int n;
  size_t used;
  struct { int64_t n; weft_dtype d; size_t at; } of[KEPT_MOST];
  _Alignas(64) uint8_t room[KEPT_BYTES];
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const void *turns_kept(int64_t n, weft_dtype d) {
  for (int k = 0; k < kept.n; k++)
    if (kept.of[k].n == n && kept.of[k].d == d) return kept.room + kept.of[k].at;
  return NULL;
}

static void keep_turns(int64_t n, weft_dtype d, const void *turns, size_t bytes) {
  if (bytes > KEPT_BYTES / 2) return;
  if (kept.n == KEPT_MOST || kept.used + bytes > KEPT_BYTES) kept.n = 0, kept.used = 0;
  memcpy(kept.room + kept.used, turns, bytes);
  kept.of[kept.n].n = n, kept.of[kept.n].d = d, kept.of[kept.n++].at = kept.used;
  kept.used += (bytes + 63) / 64 * 64;
}

static weft_array *turns_written(const char *fn, int64_t n, weft_dtype d, bool are_kept) {
  int64_t count = 2 * fourier_turns(n);
  double *room = mem_alloc(sizeof *room * (size_t)n * 2);
  void *turns = mem_alloc(weft_dtype_bytes(d) * (size_t)(count + 1));
  weft_array *found;
  if (room && turns) {
    fourier_write_turns(n, room, d == WEFT_F64, turns);
    found = weft_from(d, 1, &count, turns);
    if (are_kept) keep_turns(n, d, turns, weft_dtype_bytes(d) * (size_t)count);
  } else found = array_bad(WEFT_ERR_MEMORY, "%s: out of memory for the turns of %lld elements", fn, (long long)n);
  return mem_free(room), mem_free(turns), found;
}

/* As a step: in any number, out turns. It reads those that are kept, too, and keeps none. */
struct turns_attr { int64_t n; weft_dtype dtype; };

static struct failure *write_turns(const struct library_call *c, int64_t from, int64_t to, void *room) {
  const struct turns_attr *a = c->attr;
  bool is_mine = to > from && !pthread_mutex_trylock(&kept.lock);
  const void *turns = is_mine ? turns_kept(a->n, a->dtype) : NULL;
  if (turns) memcpy(c->out[0].data, turns, weft_dtype_bytes(a->dtype) * (size_t)(2 * fourier_turns(a->n)));
  if (is_mine) pthread_mutex_unlock(&kept.lock);
  if (!turns && to > from) fourier_write_turns(a->n, room, a->dtype == WEFT_F64, c->out[0].data);
  return NULL;
}

static size_t turns_room(const struct library_call *c) {
  return sizeof(double) * 2 * (size_t)((const struct turns_attr *)c->attr)->n;
}
static double turns_operations(const struct library_call *c) { return 40 * (double)((const struct turns_attr *)c->attr)->n; }

static const struct library turns_step = { .operations = turns_operations, .scratch = turns_room, .run = write_turns };

static int turns_count(const struct node *n) { return (void)n, 1; }
static weft_dtype turns_type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct turns_attr *a = n->attr;
  return (void)k, *rank = 1, dims[0] = 2 * fourier_turns(a->n), a->dtype;
}

/* They are numbers: nothing is differentiated by them, and no operand has rows. */
static void turns_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  (void)r, (void)is_wanted, (void)dy, (void)dx;
}
static void turns_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) { (void)r, (void)dx, (void)dy; }

static const struct many turns_many = { turns_count, turns_type, turns_vjp, turns_jvp, library_batch };
const struct op op_turns = { .name = "turns", .kind = OP_LIBRARY, .again = library_again, .many = &turns_many,
                             .library = &turns_step };

static weft_array *turns_stepped(int64_t n, weft_dtype d) {
  struct turns_attr a;
  memset(&a, 0, sizeof a);
  a.n = n, a.dtype = d;
  return library_one(&op_turns, 1, (weft_array *[]){ array_of(scalar_node(WEFT_I32, 0, false)) }, &a, sizeof a, 1, 0);
}

static weft_array *turns_of(const char *fn, int64_t n, weft_dtype d) {
  int64_t count = 2 * fourier_turns(n);
  if (caller()->n_bodies) return turns_stepped(n, d);
  bool is_mine = !pthread_mutex_trylock(&kept.lock);
  const void *turns = is_mine ? turns_kept(n, d) : NULL;
  weft_array *found = turns ? weft_from(d, 1, &count, turns) : turns_written(fn, n, d, is_mine);
  if (is_mine) pthread_mutex_unlock(&kept.lock);
  return found;
}

/* ---- the public calls ---- */

static weft_dtype part_of(weft_dtype t) { return t == WEFT_F64 || t == WEFT_C128 ? WEFT_F64 : WEFT_F32; }

struct fft_options { bool is_inverse; double scale; };

static weft_array *write_fft(const void *options, weft_array *const in[]) {
  const struct fft_options *o = options;
  return weft_fft(in[0], o->is_inverse, o->scale);
}

/* The length is not known: what is written later has the sizes of x. */
static weft_array *transformed_later(weft_array *x, const struct node *n, bool is_inverse, double scale) {
  weft_dtype t = part_of((weft_dtype)n->dtype) == WEFT_F64 ? WEFT_C128 : WEFT_C64;
  struct fft_options o = { is_inverse, scale };
  return array_later(write_fft, &o, sizeof o, 1, &x, t, n->rank, n->dims);
}

static weft_array *transformed(const char *fn, weft_array *x, bool is_inverse, double scale) {
  struct node *n;
  weft_array *bad, *y[2];
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  weft_dtype t = (weft_dtype)n->dtype, d = part_of(t);
  dim size = n->rank ? dim_resolve(n->dims[n->rank - 1]) : 0;
  weft_array *later = dim_is_known(size) ? NULL : transformed_later(x, n, is_inverse, scale);
  node_release(n);
  if (later) return later;
  if (size < 1) return array_bad(WEFT_ERR_SHAPE, "%s: the last axis has %lld elements, not one or more", fn, (long long)size);
  bool is_complex = dtype_is_complex(t);
  weft_array *re = weft_cast(is_complex ? weft_real(x) : x, d), *im = is_complex ? weft_imag(x) : NULL;
  apply(im && is_inverse ? im : re, im && is_inverse ? re : im, turns_of(fn, size, d), y);
  re = y[im && is_inverse], im = im ? y[!is_inverse] : is_inverse ? weft_neg(y[1]) : y[1];
  return scale == 1 ? weft_complex(re, im) : weft_complex(weft_mul(re, weft_scalar(scale)), weft_mul(im, weft_scalar(scale)));
}

weft_array *weft_fft(weft_array *x, int is_inverse, double scale) {
  return COMPOSED(transformed("weft_fft", x, is_inverse != 0, scale));
}

/* True of the frequencies that are there twice, as others below 0: all but 0 and n / 2. */
static weft_array *are_twice(const char *fn, int64_t n, int64_t count) {
  uint8_t *is = mem_alloc((size_t)count);
  if (!is) return array_bad(WEFT_ERR_MEMORY, "%s: out of memory for %lld frequencies", fn, (long long)count);
  for (int64_t k = 0; k < count; k++) is[k] = k && 2 * k != n;
  weft_array *found = weft_from(WEFT_BOOL, 1, &count, is);
  return mem_free(is), found;
}

/* With frequencies below 0 the conjugates of those above, their sum is the real part of that of the others, which count twice. */
static weft_array *of_half(const char *fn, weft_array *x, int64_t n, double scale) {
  struct node *of;
  weft_array *bad = NULL, *y[2];
  struct shape_text text;
  if (!operands(fn, 1, &x, &of, &bad)) return bad;
  weft_dtype t = (weft_dtype)of->dtype, d = part_of(t);
  int64_t count = n / 2 + 1;
  if (n < 1) bad = array_bad(WEFT_ERR_SHAPE, "%s: of %lld elements, not one or more", fn, (long long)n);
  else if (!of->rank || !sizes_meet(fn, of->dims[of->rank - 1], count))
    bad = array_bad(WEFT_ERR_SHAPE, "%s: %s has not the %lld frequencies of %lld elements in its last axis", fn,
                    shape_show(of, &text), (long long)count, (long long)n);
  node_release(of);
  if (bad) return bad;
  x = array_with_size(x, -1, count);
  weft_array *twice = are_twice(fn, n, count), *none = weft_cast(weft_scalar(0), d), *by = weft_scalar(2 * scale);
  weft_array *part[2], *ends[2];
  part[1] = weft_cast(dtype_is_complex(t) ? weft_real(x) : x, d);
  part[0] = dtype_is_complex(t) ? weft_imag(x) : zeros_like(part[1]);
  part[1] = weft_where(twice, weft_mul(part[1], by), weft_mul(part[1], weft_scalar(scale)));
  part[0] = weft_where(twice, weft_mul(part[0], by), none);
  for (int k = 0; k < 2 && n > count; k++)
    ends[0] = part[k], ends[1] = weft_slice(zeros_like(part[k]), -1, 0, n - count, 1), part[k] = weft_concat(-1, 2, ends);
  apply(part[0], part[1], turns_of(fn, n, d), y);
  return y[1];
}

weft_array *weft_irfft(weft_array *x, int64_t n, double scale) { return COMPOSED(of_half("weft_irfft", x, n, scale)); }
