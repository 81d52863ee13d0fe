/* convolve.c -- convolution, of products of matrices and views.
 *
 *   y[n, i.., o] = sum over j.., c of x[n, i stride + j dilation - before.., c] w[o, j.., c]
 *
 * Windows of x are a view (windows.c), so for one place j of the leading kernel axes the rest is a product
 * [rows, k C] x [k C, O] whose left operand is read where it is: along the last axis windows and channels are neighbours.
 * There are as many products as leading places, and their results are added. Where rows are few, or k C is small, windows are
 * copied side by side first, and there is one product. One channel a group is no product but a sum of shifted arrays; of two axes
 * a library step has the same sums.
 *
 * Which of these it is depends on sizes: where one but the batch is not known yet, all of it is written later (later.h).
 *
 * Derivatives are convolutions again: by x of dy, spread by the stride, with the flipped kernel; by w of x with dy, stride
 * and dilation changing places. So they are own rules, and derivatives of derivatives follow. */
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "op/convolve.h"
#include "op/later.h"
#include "op/library.h"
#include "op/operand.h"
#include "op/stencil.h"

enum {
  FEW_ROWS = 28,        /* fewer than the rows of two patches: windows of several rows are copied together. 256 channels of 14^2
                           took 18.9 ms, then 11.4; 128 of 28^2 14.8, then 14.3; 64 of 56^2 13.7, then 19.6 */
  FEW_TERMS = 48,       /* shorter sums of products are worth a copy too */
  MANY_PLACES = 64,     /* so many products are too many */
  MOST_COPIED = 2       /* axes between whose windows, with groups, batch and channels, are not more than 8 */
};

/* Along an axis, with its padding: no memory has so many, and sums of them fit. */
static const int64_t MOST_PLACES = INT64_C(1) << 48;

static const char fn[] = "weft_conv";

static weft_array *conv(const struct convolution *, weft_array *x, weft_array *w);
static struct failure *check_all(const struct convolution *, const struct node *x, const struct node *w);
static weft_array *by_x(const struct convolution *, weft_array *x, weft_array *w, weft_array *dy);
static weft_array *by_w(const struct convolution *, weft_array *x, weft_array *w, weft_array *dy);
static dim size_of(weft_array *x, int axis) { return x->node->dims[axis]; }

/* ---- What x looks like to the windows ---- */

/* Zeros between the elements of an axis. */
static weft_array *spread(weft_array *x, int axis, int64_t by) {
  if (by == 1) return x;
  weft_array *apart = weft_pad(weft_unsqueeze(x, axis + 1), axis + 1, 0, by - 1, weft_integer(0));
  return weft_slice(weft_flatten(apart, axis, axis + 1), axis, 0, 1 - by, 1);
}

static int64_t above_zero(int64_t n) { return n > 0 ? n : 0; }

/* Elements less at the ends of an axis. */
static weft_array *shortened(weft_array *x, int axis, int64_t before, int64_t after) {
  return before || after ? weft_slice(x, axis, before, after ? -after : WEFT_END, 1) : x;
}

/* Zeros before and after an axis; below 0: elements less, of x, or of the zeros where x has not so many. */
static weft_array *padded(weft_array *x, int axis, int64_t before, int64_t after) {
  if (weft_check(x)) return x;
  int64_t zeros[2] = { above_zero(before), above_zero(after) }, less[2] = { above_zero(-before), above_zero(-after) };
  bool has_so_many = less[0] + less[1] <= size_of(x, axis);
  if (has_so_many) x = shortened(x, axis, less[0], less[1]); /* what is left out is not read at all */
  if (zeros[0] || zeros[1]) x = weft_pad(x, axis, zeros[0], zeros[1], weft_integer(0));
  return has_so_many ? x : shortened(x, axis, less[0], less[1]);
}

static weft_array *surrounded(const struct convolution *c, weft_array *x) {
  for (int k = 0; k < c->n; k++) x = padded(spread(x, k + 1, c->spread[k]), k + 1, c->before[k], c->after[k]);
  return x;
}

static weft_array *flipped(const struct convolution *c, weft_array *w) {
  for (int k = 0; k < c->n && c->is_flipped; k++) w = weft_flip(w, k + 1);
  return w;
}

/* ---- The sums ---- */

static int64_t kernel_size(weft_array *w, int k) { return w->node->dims[k + 1]; }

static int64_t n_places(const struct convolution *c, weft_array *w) {
  int64_t n = 1;
  for (int k = 0; k + 1 < c->n; k++) n *= kernel_size(w, k);
  return n;
}

/* [N, s.., C] -> [N, t.., C, k..] */
static weft_array *windows(const struct convolution *c, weft_array *x, weft_array *w) {
  for (int k = 0; k < c->n; k++) x = weft_windows(x, k + 1, kernel_size(w, k), c->stride[k], c->dilation[k]);
  return x;
}

/* What stands at place p, counted row by row, of the first n - 1 of the n axes from `axis` on, which go. */
static weft_array *at_place(const struct convolution *c, weft_array *x, weft_array *w, int axis, int64_t p) {
  for (int k = c->n - 2; k >= 0; k--) {
    x = weft_at(x, axis + k, weft_integer(p % kernel_size(w, k)));
    p /= kernel_size(w, k);
  }
  return x;
}

/* How many of `all` channels a group has. They may be a batch, whose size is not known; DIM_BAD: groups do not divide them. */
static dim in_a_group(dim all, int64_t groups) {
  dim n;
  return dim_divide(all, groups, &n) ? n : DIM_BAD;
}

/* The axis becomes two: [.., G C, ..] -> [.., G, C, ..] */
static weft_array *groups_apart(weft_array *x, int axis, int64_t groups) {
  dim d[WEFT_RANK_MAX + 1];
  const struct node *n = x->node;
  int rank = n->rank;
  if (rank == WEFT_RANK_MAX) return array_bad(WEFT_ERR_SHAPE, "%s: the rank would be %d", fn, rank + 1);
  for (int k = 0; k < rank; k++) d[k + (k > axis)] = n->dims[k];
  d[axis] = groups;
  d[axis + 1] = in_a_group(n->dims[axis], groups);
  return array_reshape(fn, x, rank + 1, d);
}

/* One product for a place: v [N, t.., C, k] and u [O, k, C] are summed over k and C. */
static weft_array *by_product(weft_array *v, weft_array *u) {
  return weft_matmul(weft_flatten(weft_moveaxis(v, -1, -2), -2, -1), weft_moveaxis(weft_flatten(u, -2, -1), 0, 1));
}

/* The same group by group, of one place or of all: v [N, t.., G C, k..], u [G O, k.., C] -> [N, t.., G O]. */
static weft_array *by_groups(const struct convolution *c, weft_array *v, weft_array *u) {
  int n = c->n;
  weft_array *rows = weft_moveaxis(groups_apart(v, n + 1, c->groups), n + 1, 0);                        /* [G, N, t.., C, k..] */
  weft_array *columns = weft_moveaxis(weft_flatten(groups_apart(u, 0, c->groups), 2, -1), -1, -2);      /* [G, k.. C, O] */
  rows = weft_flatten(weft_flatten(weft_moveaxis(rows, n + 2, -1), n + 2, -1), 1, n + 1);               /* [G, N t.., k.. C] */
  dim d[WEFT_RANK_MAX + 1] = { c->groups };
  for (int k = 0; k <= n; k++) d[k + 1] = v->node->dims[k];
  d[n + 2] = in_a_group(u->node->dims[0], c->groups);
  weft_array *y = array_reshape(fn, weft_matmul(rows, columns), n + 3, d);
  return weft_flatten(weft_moveaxis(y, 0, -2), -2, -1);
}

/* [C O, k.., 1] as one row, place by place with channels side by side: the loop over channels reads its factors together. */
static weft_array *factors_in_a_row(weft_array *u) { return weft_flatten(weft_moveaxis(u, 0, -1), 0, -1); }

/* Place p of them: [k, C, O]. */
static weft_array *factors_at(const struct convolution *c, weft_array *row, weft_array *w, int64_t p) {
  int64_t k = kernel_size(w, c->n - 1);
  dim all = w->node->dims[0], d[] = { n_places(c, w), k, c->groups, in_a_group(all, c->groups) };
  if (!dim_is_known(all)) return weft_at(array_reshape(fn, row, 4, d), 0, weft_integer(p));
  return array_reshape(fn, weft_slice(row, 0, p * k * all, (p + 1) * k * all, 1), 3, d + 1);
}

/* A group is one channel: v [N, t.., C, k], factor [k, C, O] -> [N, t.., C O], a sum over k with channels side by side. */
static weft_array *by_channel(weft_array *v, weft_array *factor) {
  weft_array *x = weft_unsqueeze(weft_moveaxis(v, -1, -2), -1);               /* [N, t.., k, C, 1] */
  return weft_flatten(weft_squeeze(weft_sum(weft_mul(x, factor), -3), -3), -2, -1);
}

static weft_array *at_one_place(const struct convolution *c, weft_array *v, weft_array *u) {
  return c->groups == 1 ? by_product(v, u) : by_groups(c, v, u);
}

/* ---- One channel a group, two axes: a library step (stencil.h), with the bits of by_channel ---- */

/* Whatever the device: what is traced for one may be called on another. */
static bool fits_step(const struct convolution *c, weft_array *x, weft_array *w) {
  const struct node *n = x->node, *m = w->node;
  if (c->n != 2 || n->dtype != WEFT_F32 || m->dtype != WEFT_F32) return false;
  if (!dim_is_known(n->dims[0])) return false;
  return c->spread[0] == 1 && c->spread[1] == 1;
}

/* Whether x shows an array whose last axis is the last of those between: channels, which are last here, are planes there. */
static bool shows_planes(const struct convolution *c, weft_array *x) {
  const struct node *n = x->node;
  return n->op == &op_transpose && ((const struct transpose_attr *)n->attr)->axes[c->n] == n->rank - 1;
}

static weft_array *planes_of(weft_array *x) { return weft_moveaxis(x, -1, -3); }
static weft_array *channels_of(weft_array *x) { return weft_moveaxis(x, -3, -1); }

static weft_array *step(const struct depthwise_attr *a, weft_array *x, weft_array *w) {
  return library_one(&op_depthwise, 2, (weft_array *[]){ x, w }, a, sizeof *a, 1, 0);
}

static weft_array *by_step(const struct convolution *c, weft_array *x, weft_array *w) {
  struct depthwise_attr a;
  memset(&a, 0, sizeof a);
  a.c = *c, a.c.is_flipped = 0, a.are_planes = shows_planes(c, x);
  return a.are_planes ? channels_of(step(&a, planes_of(x), w)) : step(&a, x, w);
}

static int64_t places_along(const struct convolution *c, int k, int64_t size, int64_t kernel) {
  return (size + c->before[k] + c->after[k] - (kernel - 1) * c->dilation[k] - 1) / c->stride[k] + 1;
}

static struct stencil stencil_of(const struct library_call *l, int64_t problem) {
  const struct depthwise_attr *a = l->attr;
  const struct convolution *c = &a->c;
  const struct library_array *x = &l->in[0], *w = &l->in[1];
  const dim *d = x->dims + x->rank - 4, *f = w->dims + w->rank - 4;
  struct stencil s = { .are_planes = a->are_planes, .n = d[0], .c = d[a->are_planes ? 1 : 3], .h = d[1 + a->are_planes],
                       .w = d[2 + a->are_planes], .kh = f[1], .kw = f[2], .sh = c->stride[0], .sw = c->stride[1],
                       .dh = c->dilation[0], .dw = c->dilation[1], .top = c->before[0], .left = c->before[1] };
  s.o = s.c ? f[0] / s.c : 0;
  s.oh = places_along(c, 0, s.h, s.kh), s.ow = places_along(c, 1, s.w, s.kw);
  s.x = (const void *)(x->data + problem * x->each), s.f = (const void *)(w->data + problem * w->each);
  s.y = (void *)(l->out[0].data + problem * l->out[0].each);
  return s;
}

static int64_t step_parts(const struct library_call *l) {
  struct stencil s = stencil_of(l, 0);
  return stencil_parts(&s);
}

static size_t step_scratch(const struct library_call *l) {
  struct stencil s = stencil_of(l, 0);
  return stencil_room(&s);
}

static double step_operations(const struct library_call *l) {
  struct stencil s = stencil_of(l, 0);
  return (double)l->n_problems * (double)(s.n * s.c * s.o) * (double)(s.oh * s.ow) * (double)(s.kh * s.kw) / 4;
}

static struct failure *step_run(const struct library_call *l, int64_t from, int64_t to, void *room) {
  int64_t each = step_parts(l);
  for (int64_t i = from, end; i < to; i = end) {
    struct stencil s = stencil_of(l, i / each);
    end = (i / each + 1) * each < to ? (i / each + 1) * each : to;
    stencil_run(&s, i % each, i % each + end - i, room);
  }
  return NULL;
}

static void step_numbers(const struct library_call *l, int64_t number[]) {
  const struct depthwise_attr *a = l->attr;
  const struct convolution *c = &a->c;
  number[0] = a->are_planes;
  for (int k = 0; k < 2; k++) number[1 + k] = c->stride[k], number[3 + k] = c->dilation[k], number[5 + k] = c->before[k];
}

static const struct library step_library = { .core = 4, .parts = step_parts, .operations = step_operations,
                                             .scratch = step_scratch, .run = step_run, .routine = "stencil",
                                             .numbers = step_numbers };

static int step_results(const struct node *n) { return (void)n, 1; }

static weft_dtype step_type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct depthwise_attr *a = n->attr;
  const struct node *x = n->in[0], *w = n->in[1];
  dim *d = dims + x->rank - 4;
  (void)k;
  *rank = x->rank;
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  for (int i = 0; i < 2; i++)
    d[1 + a->are_planes + i] = places_along(&a->c, i, d[1 + a->are_planes + i], w->dims[w->rank - 3 + i]);
  d[a->are_planes ? 1 : 3] = w->dims[w->rank - 4];
  return WEFT_F32;
}

/* Rows of a map are rows of the step alone; derivatives are those of the convolution. */
static void step_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  const struct depthwise_attr *a = r->node->attr;
  if (!dy[0]) return;
  weft_array *x = a->are_planes ? channels_of(r->in[0]) : r->in[0], *d = a->are_planes ? channels_of(dy[0]) : dy[0];
  if (is_wanted[0]) dx[0] = a->are_planes ? planes_of(by_x(&a->c, x, r->in[1], d)) : by_x(&a->c, x, r->in[1], d);
  if (is_wanted[1]) dx[1] = by_w(&a->c, x, r->in[1], d);
}

static void step_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  const struct depthwise_attr *a = r->node->attr;
  weft_array *one = dx[0] ? step(a, dx[0], r->in[1]) : NULL, *two = dx[1] ? step(a, r->in[0], dx[1]) : NULL;
  dy[0] = one && two ? weft_add(one, two) : one ? one : two;
}

static const struct many step_many = { step_results, step_type, step_vjp, step_jvp, library_batch };
const struct op op_depthwise = { .name = "depthwise", .kind = OP_LIBRARY, .again = library_again, .many = &step_many,
                                 .library = &step_library };

/* ---- Sums of several channels a group ---- */

/* Whether windows are better copied side by side, for one product. It depends on what a group and a row have, so that a map,
 * whose rows are groups, adds in the order of one row. */
static bool wants_copy(const struct convolution *c, weft_array *v, weft_array *w) {
  dim rows = v->node->dims[c->n];
  int64_t terms = kernel_size(w, c->n - 1) * w->node->dims[c->n + 1];
  if (c->n > MOST_COPIED) return false;
  return rows < FEW_ROWS || terms < FEW_TERMS || c->dilation[c->n - 1] != 1 ||
         n_places(c, w) > MANY_PLACES;
}

static weft_array *sums(const struct convolution *c, weft_array *x, weft_array *w) {
  if (weft_check(x) || weft_check(w)) return weft_check(x) ? x : w; /* what was raised: there may have been no memory for it */
  bool is_of_channels = c->groups > 1 && !c->is_of_products && w->node->dims[c->n + 1] == 1;
  if (is_of_channels && fits_step(c, x, w)) return by_step(c, x, flipped(c, w));
  weft_array *v = windows(c, surrounded(c, x), w), *u = flipped(c, w), *y = NULL;
  if (weft_check(v) || weft_check(u)) return weft_check(v) ? v : u;
  if (!is_of_channels && wants_copy(c, v, w)) return by_groups(c, v, u);
  if (is_of_channels) u = factors_in_a_row(u);
  for (int64_t p = 0; p < n_places(c, w); p++) {
    weft_array *x_p = at_place(c, v, w, c->n + 2, p);
    weft_array *t = is_of_channels ? by_channel(x_p, factors_at(c, u, w, p)) : at_one_place(c, x_p, at_place(c, u, w, 1, p));
    y = y ? weft_add(y, t) : t;
  }
  return y;
}

/* ---- Derivatives ---- */

/* [G O, k.., C] -> [G C, k.., O] */
static weft_array *turned_kernel(const struct convolution *c, weft_array *w) {
  weft_array *apart = groups_apart(w, 0, c->groups);                          /* [G, O, k.., C] */
  int last = c->n + 2, axes[WEFT_RANK_MAX + 1];
  for (int k = 0; k <= last; k++) axes[k] = k;
  axes[1] = last, axes[last] = 1;
  return weft_flatten(weft_transpose(apart, axes), 0, 1);
}

/* dx: of all i, j with i stride + j dilation - before = spread t. */
static weft_array *by_x(const struct convolution *c, weft_array *x, weft_array *w, weft_array *dy) {
  struct convolution d = *c;
  for (int k = 0; k < c->n; k++) {
    int64_t reach = (kernel_size(w, k) - 1) * c->dilation[k];
    d.stride[k] = c->spread[k], d.spread[k] = c->stride[k];
    d.before[k] = reach - c->before[k];
    d.after[k] = (size_of(x, k + 1) - 1) * c->spread[k] + reach - (size_of(dy, k + 1) - 1) * c->stride[k] - d.before[k];
  }
  d.is_flipped = !c->is_flipped;
  return conv(&d, dy, turned_kernel(c, w));
}

/* dw: x's channels are the batch, the batch is summed over: [C, s.., G N] and [G O, t.., N] -> [C, k.., G O]. */
static weft_array *by_w(const struct convolution *c, weft_array *x, weft_array *w, weft_array *dy) {
  struct convolution d = *c;
  weft_array *apart = groups_apart(x, c->n + 1, c->groups);                   /* [N, s.., G, C] */
  apart = weft_moveaxis(weft_moveaxis(apart, 0, -1), -2, 0);                  /* [C, s.., G, N] */
  weft_array *left = weft_flatten(apart, -2, -1), *right = weft_moveaxis(weft_moveaxis(dy, -1, 0), 1, -1);
  for (int k = 0; k < c->n; k++) {
    int64_t size = (size_of(x, k + 1) - 1) * c->spread[k] + 1;
    int64_t reach = (size_of(dy, k + 1) - 1) * c->stride[k] + (kernel_size(w, k) - 1) * c->dilation[k] + 1;
    d.stride[k] = c->dilation[k], d.dilation[k] = c->stride[k];
    d.after[k] = reach - size - c->before[k];
  }
  d.is_flipped = 0;
  weft_array *dw = weft_moveaxis(weft_moveaxis(conv(&d, left, right), 0, -1), -2, 0); /* [G O, k.., C] */
  return flipped(c, dw);
}

static int conv_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)y;
  if (!dy[0]) return 0;
  dx[0] = by_x(ctx, x[0], x[1], dy[0]);
  dx[1] = by_w(ctx, x[0], x[1], dy[0]);
  return 0;
}

static int conv_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  weft_array *a = dx[0] ? conv(ctx, dx[0], x[1]) : NULL, *b = dx[1] ? conv(ctx, x[0], dx[1]) : NULL;
  dy[0] = a && b ? weft_add(a, b) : a ? a : b;
  return 0;
}

/* As places_along, of sizes that are not known; what is too long a kernel is found when they are. */
static dim places_open(const struct convolution *c, int k, dim size, dim kernel) {
  dim room = dim_reckon(DIM_PLUS, dim_reckon(DIM_TIMES, dim_above(size, 1), c->spread[k]), dim_min(size, 1));
  dim reach = dim_reckon(DIM_PLUS, dim_reckon(DIM_TIMES, dim_above(kernel, 1), c->dilation[k]), 1);
  dim more = dim_reckon(DIM_MINUS, dim_reckon(DIM_PLUS, room, dim_integer(c->before[k] + c->after[k])), reach);
  return dim_reckon(DIM_PLUS, dim_reckon(DIM_FLOOR, more, c->stride[k]), 1);
}

/* Rows of x alone are more of its batch. */
static weft_array *map_x(const struct convolution *c, weft_array *xs, weft_array *w) {
  dim d[WEFT_RANK_MAX];
  weft_array *y = conv(c, weft_flatten(xs, 0, 1), w);
  if (weft_check(y)) return y;
  d[0] = size_of(xs, 0), d[1] = size_of(xs, 1);
  memcpy(d + 2, y->node->dims + 1, (size_t)(c->n + 1) * sizeof *d);
  return array_reshape(fn, y, c->n + 3, d);
}

static weft_array *map_w(const struct convolution *, weft_array *x, weft_array *ws, bool has_rows);
static weft_array *write_map_shared(const void *c, weft_array *const in[]) { return map_w(c, in[0], in[1], false); }
static weft_array *write_map_both(const void *c, weft_array *const in[]) { return map_w(c, in[0], in[1], true); }

/* No kernels are no groups; where it is not known yet how many there are, what is one convolution of so many groups is written
 * later. */
static weft_array *map_w_apart(const struct convolution *c, weft_array *x, weft_array *ws, bool has_rows) {
  weft_dtype to = weft_dtype_promote((weft_dtype)x->node->dtype, (weft_dtype)ws->node->dtype);
  dim d[WEFT_RANK_MAX];
  d[0] = size_of(ws, 0), d[1] = size_of(x, has_rows), d[c->n + 2] = size_of(ws, 1);
  for (int k = 0; k < c->n; k++) d[k + 2] = places_open(c, k, size_of(x, has_rows + k + 1), size_of(ws, k + 2));
  if (d[0] == 0) return array_sized_by(zeros_of(&(struct node){ .dtype = to, .rank = (uint8_t)(c->n + 3), .dims = d }), x);
  return array_later(has_rows ? write_map_both : write_map_shared, c, sizeof *c, 2, (weft_array *[]){ x, ws }, to, c->n + 3, d);
}

/* Rows of w, and perhaps of x, are groups: [R, N, s.., C] -> [N, s.., R C], [R, O, k.., C] -> [R O, k.., C]. */
static weft_array *map_w(const struct convolution *c, weft_array *x, weft_array *ws, bool has_rows) {
  struct convolution d = *c;
  dim rows = size_of(ws, 0);
  bool is_shared = !has_rows && c->groups == 1; /* all rows read the same channels */
  if (rows <= 0) return map_w_apart(c, x, ws, has_rows); /* below 0: not known */
  if (!has_rows && !is_shared) {
    dim dims[WEFT_RANK_MAX];
    dims[0] = rows;
    memcpy(dims + 1, x->node->dims, (size_t)(c->n + 2) * sizeof *dims);
    x = array_broadcast(fn, x, c->n + 3, dims);
  }
  if (!is_shared) x = weft_flatten(weft_moveaxis(x, 0, -2), -2, -1), d.groups = c->groups * rows;
  d.is_of_products |= c->groups == 1;
  weft_array *y = conv(&d, x, weft_flatten(ws, 0, 1));
  return weft_check(y) ? y : weft_moveaxis(groups_apart(y, c->n + 1, rows), -2, 0);
}

static int conv_map(void *ctx, weft_array *const xs[], const int is_mapped[], weft_array *ys[]) {
  ys[0] = is_mapped[1] ? map_w(ctx, xs[0], xs[1], is_mapped[0]) : map_x(ctx, xs[0], xs[1]);
  return 0;
}

/* ---- One convolution ---- */

/* Narrow floats: sums of several products are rounded once. */
static weft_array *wide(weft_array *x) {
  weft_dtype d = (weft_dtype)x->node->dtype;
  return dtype_is_narrow_float(d) ? weft_cast(x, WEFT_F32) : x;
}

/* All but the batch. */
static bool are_known(const struct convolution *c, weft_array *x, weft_array *w) {
  bool known = dim_is_known(size_of(w, 0));
  for (int k = 1; k <= c->n + 1; k++) known &= dim_is_known(size_of(x, k)) && dim_is_known(size_of(w, k));
  return known;
}

static weft_array *write_conv(const void *options, weft_array *const in[]) {
  const struct convolution *c = options;
  struct failure *why = check_all(c, in[0]->node, in[1]->node);
  return why ? array_failed(why) : COMPOSED(conv(c, in[0], in[1]));
}

static weft_array *conv_later(const struct convolution *c, weft_array *x, weft_array *w) {
  weft_dtype to = weft_dtype_promote((weft_dtype)x->node->dtype, (weft_dtype)w->node->dtype);
  dim d[WEFT_RANK_MAX];
  d[0] = size_of(x, 0), d[c->n + 1] = size_of(w, 0);
  for (int k = 0; k < c->n; k++) d[k + 1] = places_open(c, k, size_of(x, k + 1), size_of(w, k + 1));
  return array_later(write_conv, c, sizeof *c, 2, (weft_array *[]){ x, w }, to, c->n + 2, d);
}

static weft_array *conv(const struct convolution *c, weft_array *x, weft_array *w) {
  if (weft_check(x) || weft_check(w)) return weft_check(x) ? x : w;
  if (!are_known(c, x, w)) return conv_later(c, x, w);
  weft_dtype to = weft_dtype_promote((weft_dtype)x->node->dtype, (weft_dtype)w->node->dtype);
  weft_array *in[] = { x, w }, *y = weft_cast(sums(c, wide(x), wide(w)), to);
  if (weft_check(y)) return y;
  struct convolution *own = mem_alloc(sizeof *own);
  if (!own) return array_bad(WEFT_ERR_MEMORY, "%s: out of memory", fn);
  *own = *c;
  weft_custom(2, in, 1, &y, &(weft_rules){ own, conv_vjp, conv_jvp, conv_map, mem_free });
  return y;
}

/* ---- weft_conv ---- */

static void take(int n, const int64_t given[], int64_t otherwise, int64_t out[]) {
  for (int k = 0; k < n; k++) out[k] = given ? given[k] : otherwise;
}

static struct failure *check_options(const struct convolution *c) {
  for (int k = 0; k < c->n; k++)
    if (c->stride[k] < 1 || c->dilation[k] < 1 || c->spread[k] < 1)
      return fail(WEFT_ERR_ARG, scope_origin(), "%s: stride %lld, dilation %lld, spread %lld on axis %d: all are at least 1", fn,
                  (long long)c->stride[k], (long long)c->dilation[k], (long long)c->spread[k], k + 1);
  for (int k = 0; k < c->n; k++)
    if (llabs(c->before[k] / 2) > MOST_PLACES / 2 || llabs(c->after[k] / 2) > MOST_PLACES / 2)
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: padding %lld before and %lld after on axis %d: more than any array has", fn,
                  (long long)c->before[k], (long long)c->after[k], k + 1);
  return NULL;
}

/* What is not known yet is looked at when it is. */
static bool may_be_in_groups(dim n, int64_t groups) { return !dim_is_known(n) || n % groups == 0; }

static struct failure *check_channels(const struct convolution *c, const struct node *x, const struct node *w) {
  struct shape_text a, b;
  dim channels = x->dims[c->n + 1], of_group = w->dims[c->n + 1], out = w->dims[0];
  if (c->groups < 1 || !may_be_in_groups(channels, c->groups) || !may_be_in_groups(out, c->groups))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %lld groups do not divide the channels of %s and %s", fn, (long long)c->groups,
                shape_show(x, &a), shape_show(w, &b));
  if (!dim_is_known(channels) || !dim_is_known(of_group) || channels == of_group * c->groups) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s has %lld channels, and %s wants %lld in %lld groups", fn, shape_show(x, &a),
              (long long)channels, shape_show(w, &b), (long long)(of_group * c->groups), (long long)c->groups);
}

/* A kernel is not longer than what it slides along. */
static struct failure *check_sizes(const struct convolution *c, const struct node *x, const struct node *w) {
  struct shape_text a, b;
  for (int k = 0; k < c->n; k++) {
    dim size = x->dims[k + 1], kernel = w->dims[k + 1];
    if (kernel == 0)
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the kernel %s has no size on axis %d", fn, shape_show(w, &b), k + 1);
    if (!dim_is_known(size) || !dim_is_known(kernel)) continue;
    __int128 room = (size ? (__int128)(size - 1) * c->spread[k] + 1 : 0) + c->before[k] + c->after[k];
    if (room > MOST_PLACES)
      return fail(WEFT_ERR_SHAPE, scope_origin(),
                  "%s: axis %d of %s, spread by %lld and with %lld before and %lld after, is longer than any array", fn, k + 1,
                  shape_show(x, &a), (long long)c->spread[k], (long long)c->before[k], (long long)c->after[k]);
    if (room < 1 || (__int128)(kernel - 1) * c->dilation[k] >= room)
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: on axis %d the kernel %s is longer than %s with its padding", fn, k + 1,
                  shape_show(w, &b), shape_show(x, &a));
  }
  return NULL;
}

static struct failure *check_all(const struct convolution *c, const struct node *x, const struct node *w) {
  struct shape_text a, b;
  if (x->rank != w->rank || x->rank < 3)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: x is [N, s.., C] and w [O, k.., C/groups]: %s and %s", fn, shape_show(x, &a),
                shape_show(w, &b));
  struct failure *why = check_options(c);
  if (!why) why = check_channels(c, x, w);
  return why ? why : check_sizes(c, x, w);
}

static weft_array *convolved(weft_array *x, weft_array *w, const weft_conv_options *options) {
  struct node *n[2];
  weft_array *bad;
  weft_conv_options o = options ? *options : (weft_conv_options){ 0 };
  if (!operands(fn, 2, (weft_array *[]){ x, w }, n, &bad)) return bad;
  struct convolution c = { .n = n[0]->rank - 2, .groups = o.groups ? o.groups : 1, .is_flipped = o.is_flipped };
  take(c.n, o.stride, 1, c.stride);
  take(c.n, o.dilation, 1, c.dilation);
  take(c.n, o.before, 0, c.before);
  take(c.n, o.after, 0, c.after);
  take(c.n, o.spread, 1, c.spread);
  struct failure *why = check_all(&c, n[0], n[1]);
  if (why) return array_of_bad(why, 2, n);
  nodes_release(2, n);
  return conv(&c, x, w);
}

weft_array *weft_conv(weft_array *x, weft_array *w, const weft_conv_options *options) { return COMPOSED(convolved(x, w, options)); }
