/* program.c -- see program.h: choosing steps. Every step is built once on names (weft_input) when it is chosen, and weft says
 * what form it has; what weft refuses is not taken. So a row of the table says how to choose and how to build, nothing else. */
#include "program.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "graph/scope.h"
#include "program_kinds.h"

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))
enum { MOST_ELEMENTS = 20000, DEEPEST = 3 };

static weft_array *shadow[PROGRAM_STEPS]; /* of the program that is being made */

/* ---- chance ---- */

uint32_t any(struct program *p, uint32_t below) {
  p->state = p->state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = p->state ^ p->state >> 29;
  return (uint32_t)((x * 0xbf58476d1ce4e5b9u >> 33) % (below ? below : 1));
}
bool once_in(struct program *p, uint32_t n) { return any(p, n) == 0; }

int64_t any_length(struct program *p) {
  static const int small[] = { 0, 1, 1, 2, 2, 3, 3, 3, 4, 5 }, edges[] = { 16, 32, 64, 128, 512, 4096 };
  if (!once_in(p, 8)) return small[any(p, COUNT(small))];
  return edges[any(p, once_in(p, 3) ? 6 : 4)] + (int)any(p, 3) - 1;
}

static double any_number(struct program *p, bool is_odd) {
  static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0, 0x1p-149, -0x1p-140, 0x1p-1074, 1e38, 65504, 0.0, 1 };
  if (is_odd && once_in(p, 6)) return odd[any(p, COUNT(odd))];
  return ((double)any(p, 1u << 24) / (1 << 23) - 1) * 2;
}

/* ---- forms ---- */

bool is_known(const struct form *f) {
  for (int k = 0; k < f->rank; k++) if (f->dims[k] < 0) return false;
  return true;
}
int64_t count_of(const struct form *f) {
  int64_t n = 1;
  for (int k = 0; k < f->rank; k++) n *= f->dims[k] < 0 ? 64 : f->dims[k];
  return n;
}
static int64_t bulk_of(const struct form *f) {
  int64_t n = 1;
  for (int k = 0; k < f->rank; k++) n *= f->dims[k] < 0 ? 64 : f->dims[k] ? f->dims[k] : 1;
  return n;
}
bool same_form(const struct form *a, const struct form *b) {
  return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}
static struct form form_of(weft_array *a) {
  struct form f = { weft_dtype_of(a), weft_rank(a), { 0 } };
  for (int k = 0; k < f.rank && k < PLAIN_RANK; k++) f.dims[k] = dim_is_known(a->node->dims[k]) ? a->node->dims[k] : PROGRAM_OPEN;
  return f;
}
static weft_array *name_of(const struct form *f) { return weft_input(f->dtype, f->rank, f->dims); }

/* ---- steps ---- */

bool is_visible(const struct program *p, int i) {
  for (int b = p->block; b >= 0; b = p->blocks[b].parent) {
    if (b == p->step[i].block) return true;
    if (p->blocks[b].is_closed) return false;
  }
  return false;
}

static bool has_value(const struct step *s) { return s->form.rank >= 0; } /* constructs have items instead */

static bool is_what(const struct form *f, int wanted) {
  bool is_float = plain_is_float(f->dtype), is_complex = plain_is_complex(f->dtype);
  if (wanted & KNOWN && !is_known(f)) return false;
  if (wanted & FLOAT && !is_float) return false;
  if (wanted & REAL && is_complex) return false;
  if (wanted & INTEGER && (is_float || is_complex || f->dtype == WEFT_BOOL)) return false;
  if (wanted & RANK_1 && f->rank < 1) return false;
  if (wanted & RANK_2 && f->rank < 2) return false;
  if (wanted & FULL && count_of(f) == 0) return false;
  if (wanted & SMALL && bulk_of(f) > 600) return false;
  return true;
}

int pick(struct program *p, int wanted) { /* the newer, the likelier */
  if (p->wanted) return is_what(&p->step[p->wanted - 1].form, wanted) ? p->wanted - 1 : -1;
  for (int tries = 0; tries < 24; tries++) {
    int back = (int)(any(p, 3) ? any(p, 5) : any(p, (uint32_t)p->n)), i = p->n - 1 - back;
    if (i >= 0 && has_value(&p->step[i]) && is_visible(p, i) && is_what(&p->step[i].form, wanted)) return i;
  }
  return -1;
}

static struct step *add(struct program *p, struct step s) {
  s.block = p->block;
  p->step[p->n] = s;
  return &p->step[p->n++];
}

/* A body that is full still gets its results, as do those around it: some 24 steps each. */
static bool is_room(const struct program *p) { return p->n + 88 < PROGRAM_STEPS && p->n_blocks + 3 < PROGRAM_BLOCKS; }

int grow_many(struct program *p, const struct kind *kind, struct step s) {
  s.row = kind;
  s.form.rank = -1;
  add(p, s);
  return p->n - 1;
}

static int grow_step(struct program *p, struct step s) {
  weft_array *in[PROGRAM_INS];
  int open = -1;
  for (int k = 0; k < s.n_in; k++) {
    in[k] = shadow[s.in[k]];
    if (is_known(&p->step[s.in[k]].form)) continue;
    if (open >= 0 && open != s.in[k]) return -1; /* sizes that may differ in the end */
    open = s.in[k];
  }
  weft_array *y = s.row->one(in, &s);
  if (!y || weft_check(y) || weft_rank(y) > 5) return -1;
  s.form = form_of(y);
  if (bulk_of(&s.form) > MOST_ELEMENTS || (p->is_smooth && s.form.dtype != WEFT_F64 && s.form.dtype != WEFT_BOOL && s.form.dtype != WEFT_I64)) return -1;
  for (int k = 0; open >= 0 && k < s.n_in; k++) /* beside an open size stand numbers: 1 might be stretched, or not */
    if (s.in[k] != open && p->step[s.in[k]].form.rank) return -1;
  shadow[p->n] = y;
  add(p, s);
  return p->n - 1;
}

int grow(struct program *p, const struct kind *kind, int n, const int in[], int n_p, const int64_t params[]) {
  struct step s = { .row = kind, .n_in = n };
  for (int k = 0; k < n; k++) if ((s.in[k] = in[k]) < 0) return -1;
  if (n_p) memcpy(s.p, params, (size_t)n_p * sizeof *params);
  return grow_step(p, s);
}

int grow_number(struct program *p, const struct kind *kind, int a, int n_p, const int64_t params[], double number) {
  struct step s = { .row = kind, .n_in = 1, .in = { a }, .number = number };
  memcpy(s.p, params, (size_t)n_p * sizeof *params);
  return a < 0 ? -1 : grow_step(p, s);
}

int item(struct program *p, int many, int k, struct form f) {
  shadow[p->n] = name_of(&f);
  add(p, (struct step){ .row = &kind_item, .n_in = 1, .in = { many }, .p = { k }, .form = f });
  return p->n - 1;
}

int leaf(struct program *p, weft_dtype t, int rank, const int64_t dims[]) {
  struct step s = { .row = &kind_leaf, .form = { t, rank, { 0 } }, .value = plain_new(t, rank, dims) };
  struct plain parts = plain_parts(&s.value);
  bool is_odd = !p->is_smooth && once_in(p, 4);
  if (rank) memcpy(s.form.dims, dims, (size_t)rank * sizeof *dims);
  for (int64_t i = 0; i < parts.count; i++) {
    if (plain_is_float(parts.dtype)) plain_set_f(&parts, i, any_number(p, is_odd));
    else plain_set_i(&parts, i, t == WEFT_BOOL ? (int64_t)any(p, 2) : (int64_t)any(p, 19) - 9);
  }
  s.p[0] = any(p, 5);
  shadow[p->n] = name_of(&s.form);
  add(p, s);
  return p->n - 1;
}

int index_leaf(struct program *p, int rank, const int64_t dims[], int64_t n) {
  int i = leaf(p, p->is_smooth || n > 100 || once_in(p, 2) ? WEFT_I64 : once_in(p, 2) ? WEFT_I32 : WEFT_I8, rank, dims);
  p->step[i].is_index = true;
  for (int64_t j = 0; j < p->step[i].value.count; j++) plain_set_i(&p->step[i].value, j, (int64_t)any(p, (uint32_t)n) - (once_in(p, 3) ? n : 0));
  return i;
}

static int any_leaf(struct program *p) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F32, WEFT_F32, WEFT_F64, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_BOOL, WEFT_BF16, WEFT_F16, WEFT_U8,
                                       WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_U64, WEFT_C64, WEFT_C128, WEFT_E4M3, WEFT_E5M2 };
  struct form f = { p->is_smooth ? WEFT_F64 : dtypes[any(p, COUNT(dtypes))], (int)any(p, 4), { 0 } };
  if (p->favoured >= 0 && once_in(p, 2)) f.dtype = (weft_dtype)p->favoured;
  if (once_in(p, 4)) f.rank = 1;
  do {
    for (int k = 0; k < f.rank; k++) f.dims[k] = any_length(p);
  } while (bulk_of(&f) > 6000);
  return leaf(p, f.dtype, f.rank, f.dims);
}

/* ---- blocks ---- */

int block_depth(const struct program *p) {
  int d = 0;
  for (int b = p->block; p->blocks[b].parent >= 0; b = p->blocks[b].parent) d++;
  return d;
}

int block_open(struct program *p, bool is_closed, int n, const struct form param[]) {
  int b = p->n_blocks++;
  p->blocks[b] = (struct block){ .parent = p->block, .n_params = n, .is_closed = is_closed };
  p->block = b;
  for (int k = 0; k < n; k++) {
    shadow[p->n] = name_of(&param[k]);
    p->blocks[b].param[k] = p->n;
    add(p, (struct step){ .row = &kind_param, .form = param[k], .p = { k } });
  }
  return b;
}

void block_close(struct program *p, int block) { p->block = p->blocks[block].parent; }

static bool kind_is_simple(const struct kind *k) {
  static const char *const simple[] = { "weft_add", "weft_mul", "weft_sub", "weft_scalar", "weft_flip", "weft_slice", "weft_at", "weft_transpose", "weft_roll", "weft_where",
    "weft_tanh", "weft_sin", "weft_sum", "weft_broadcast", "weft_as_strided", "weft_window", NULL };
  for (int i = 0; simple[i]; i++) if (!strcmp(k->name, simple[i])) return true;
  return false;
}

static const struct kind *kind_named(const char *name) {
  for (int k = 0; program_kinds[k]; k++) if (!strcmp(program_kinds[k]->name, name)) return program_kinds[k];
  return NULL;
}

/* What hardly meets in a body, or meets others of its sort, by chance alone. */
static const char *const themes[][16] = {
  { "weft_sort", "weft_argsort", "weft_unique", "weft_compress", "weft_flatnonzero", "weft_nonzero", "weft_topk", "weft_partition", "weft_quantile", "weft_searchsorted", NULL },
  { "weft_random_key", "weft_random_split", "weft_random_bits", "weft_random_uniform", "weft_random_normal", "weft_random_gamma", "weft_random_poisson",
    "weft_random_permutation", "weft_random_choice", "weft_random_categorical", "weft_random_randint", "weft_random_bernoulli", NULL },
  { "weft_quantize", "weft_dequantize", "weft_quantized_matmul", "weft_gather_qmm", "weft_matmul", "weft_cholesky", "weft_solve", "weft_inverse", "weft_det", "weft_slogdet", NULL },
  { "weft_host", "weft_host_like", "weft_to", "weft_assert", "weft_depends", "weft_alias", "weft_stop_gradient", "weft_checkpoint", "weft_custom", "weft_choose", NULL },
  { "weft_full_like", "weft_iota", "weft_size", "weft_sized", "weft_broadcast_like", "weft_reshape_like", "weft_cut", "weft_compress", "weft_unique", "weft_windows", NULL },
  { "weft_shl", "weft_shr", "weft_floor_divide", "weft_remainder", "weft_fmod", "weft_gcd", "weft_lcm", "weft_bit_count", "weft_mul", "weft_cumprod", "weft_prod", "weft_bincount", NULL },
  { "weft_complex", "weft_real", "weft_imag", "weft_conj", "weft_cumprod", "weft_prod", "weft_pow", "weft_matmul", "weft_einsum", "weft_div", "weft_exp", NULL },
  { "weft_loop_open", "weft_cond_open", "weft_call", "weft_map", "weft_grad", "weft_vjp", "weft_jvp", "weft_checkpoint", "weft_put", NULL },
};

static const struct kind *any_of_theme(struct program *p, const char *const theme[]) {
  uint32_t n = 0;
  while (theme[n]) n++;
  return kind_named(theme[any(p, n)]);
}

void fill(struct program *p, int steps) {
  int total = 0, n_kinds = 0;
  bool is_simple = p->block && once_in(p, 2); /* bodies that become one kernel */
  const char *const *theme = once_in(p, p->block ? 3 : 6) ? themes[any(p, COUNT(themes))] : NULL;
  for (; program_kinds[n_kinds]; n_kinds++) total += program_kinds[n_kinds]->weight;
  for (int n = 0, tries = 0; n < steps && tries < (is_simple ? 200 : 60) && is_room(p); tries++) {
    int at = (int)any(p, (uint32_t)total), k = 0, before = p->n;
    while (at >= program_kinds[k]->weight) at -= program_kinds[k++]->weight;
    const struct kind *kind = theme && once_in(p, 2) ? any_of_theme(p, theme) : program_kinds[k];
    if (kind->build && block_depth(p) >= DEEPEST) continue;
    if (p->is_smooth && !kind->is_smooth) continue;
    if (is_simple && !kind_is_simple(kind)) continue;
    if (kind->make(p, kind) && p->n > before) n++;
    if (once_in(p, 20) && is_room(p)) any_leaf(p);
  }
}

static int row(struct program *p, const char *name, int n, const int in[], int n_p, const int64_t params[]) {
  return grow(p, kind_named(name), n, in, n_p, params);
}

/* A number made of v: an element, or a sum of all. */
static int number_of(struct program *p, int v) {
  const struct form *f = &p->step[v].form;
  if (is_known(f) && f->rank == 1 && f->dims[0] && once_in(p, 2)) {
    int i = index_leaf(p, 0, NULL, p->step[v].form.dims[0]);
    return row(p, "weft_at", 2, (int[]){ v, i }, 1, (int64_t[]){ 0 });
  }
  return f->rank ? row(p, "weft_sum", 1, &v, 1, (int64_t[]){ WEFT_ALL }) : v;
}

int fitted(struct program *p, int v, const struct form *f) {
  if (v < 0) return -1;
  if (same_form(&p->step[v].form, f)) return v;
  if (!is_known(f)) return -1;
  if (p->step[v].form.rank) v = number_of(p, v);
  if (v >= 0 && p->step[v].form.dtype != f->dtype) v = row(p, "weft_cast", 1, &v, 1, (int64_t[]){ f->dtype });
  if (v >= 0 && f->rank) {
    int64_t params[PROGRAM_PARAMS] = { f->rank };
    memcpy(params + 1, f->dims, (size_t)f->rank * sizeof *f->dims);
    v = row(p, "weft_broadcast", 1, &v, 1 + f->rank, params);
  }
  return v >= 0 && same_form(&p->step[v].form, f) ? v : -1;
}

/* ---- whole programs ---- */

static void mark_dead(struct program *);

void program_make(struct program *p, uint64_t seed) {
  *p = (struct program){ .seed = seed, .state = seed * 0x9e3779b97f4a7c15u + 1, .n_blocks = 1 };
  p->blocks[0].parent = -1;
  weft_scope *scope = weft_scope_open();
  for (int i = 0; i < 4; i++) any(p, 2);
  static const int narrow_or_odd[] = { WEFT_F16, WEFT_BF16, WEFT_C64, WEFT_C128, WEFT_I8, WEFT_U8, WEFT_I64, WEFT_U64 };
  p->is_smooth = once_in(p, 2);
  p->favoured = !p->is_smooth && once_in(p, 4) ? narrow_or_odd[any(p, COUNT(narrow_or_odd))] : -1;
  int n = 1 + (int)any(p, 3);
  for (int i = 0; i < n; i++) any_leaf(p);
  fill(p, 2 + (int)any(p, once_in(p, 4) ? 24 : 9));
  p->blocks[0].n_outs = 0;
  for (int k = 0; k < 3 && p->blocks[0].n_outs < 3; k++) { /* the last, and others */
    int y = -1;
    for (int i = p->n - 1; i >= 0 && y < 0; i--) if (has_value(&p->step[i]) && p->step[i].block == 0 && (k || p->step[i].row != &kind_leaf) && (!k || once_in(p, 4))) y = i;
    for (int j = 0; j < p->blocks[0].n_outs; j++) if (p->blocks[0].out[j] == y) y = -1;
    if (y >= 0) p->blocks[0].out[p->blocks[0].n_outs++] = y;
  }
  if (!p->blocks[0].n_outs) p->blocks[0].out[p->blocks[0].n_outs++] = 0;
  weft_scope_discard(scope);
  mark_dead(p);
}

void program_free(struct program *p) {
  for (int i = 0; i < p->n; i++) plain_free(&p->step[i].value);
}

void program_copy(struct program *to, const struct program *from) {
  *to = *from;
  for (int i = 0; i < to->n; i++) if (to->step[i].value.data) to->step[i].value = plain_cast(&from->step[i].value, from->step[i].value.dtype);
}

/* What no result needs is not built. Parameters stay. */
static void keep_block(struct program *p, int b, bool keep[]);
static void keep_step(struct program *p, int i, bool keep[]) {
  if (keep[i]) return;
  keep[i] = true;
  for (int k = 0; k < p->step[i].n_in; k++) keep_step(p, p->step[i].in[k], keep);
  for (int k = 0; k < 2; k++) if (p->step[i].body[k]) keep_block(p, p->step[i].body[k], keep);
}
static void keep_block(struct program *p, int b, bool keep[]) {
  for (int k = 0; k < p->blocks[b].n_params; k++) keep[p->blocks[b].param[k]] = true;
  for (int k = 0; k < p->blocks[b].n_outs; k++) keep_step(p, p->blocks[b].out[k], keep);
}
static void mark_dead(struct program *p) {
  bool keep[PROGRAM_STEPS] = { false };
  keep_block(p, 0, keep);
  for (int i = 0; i < p->n; i++) p->step[i].is_dead = !keep[i];
}

int program_size(const struct program *p) {
  int n = 0;
  for (int i = 0; i < p->n; i++) n += p->step[i].is_dead ? 0 : 4 + p->step[i].n_in;
  return n * 4 + p->blocks[0].n_outs;
}

/* ---- smaller programs ---- */

static bool replace(struct program *p, int from, int to) {
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->step[i].n_in; k++) if (p->step[i].in[k] == from && i > to) p->step[i].in[k] = to;
  for (int b = 0; b < p->n_blocks; b++)
    for (int k = 0; k < p->blocks[b].n_outs; k++) if (p->blocks[b].out[k] == from) p->blocks[b].out[k] = to;
  mark_dead(p);
  return p->step[from].is_dead;
}

/* Ways: a result less; a step is one of the operands that looks like it, an earlier step, or a leaf; fewer rounds. */
bool program_cut(struct program *p, int way) {
  enum { PER_STEP = 8 };
  if (way < p->blocks[0].n_outs) {
    if (p->blocks[0].n_outs < 2) return true;
    for (int k = way; k + 1 < p->blocks[0].n_outs; k++) p->blocks[0].out[k] = p->blocks[0].out[k + 1];
    p->blocks[0].n_outs--;
    mark_dead(p);
    return true;
  }
  int i = p->n - 1 - (way - p->blocks[0].n_outs) / PER_STEP, how = (way - p->blocks[0].n_outs) % PER_STEP;
  if (i < 0) return false;
  struct step *s = &p->step[i];
  if (s->is_dead || s->form.rank < 0 || s->row == &kind_leaf || s->row == &kind_param) return true;
  if (how < 6) { /* another visible step of the same form */
    int before = p->block, seen = 0;
    p->block = s->block;
    for (int j = 0; j < i; j++)
      if (p->step[j].form.rank >= 0 && !p->step[j].is_dead && is_visible(p, j) && same_form(&p->step[j].form, &s->form) && seen++ == how) {
        p->block = before;
        return replace(p, i, j), true;
      }
    p->block = before;
    return true;
  }
  if (how == 6 && is_known(&s->form) && p->step[i].block >= 0) { /* a leaf */
    struct program chance = { .state = (uint64_t)i };
    struct plain v = plain_new(s->form.dtype, s->form.rank, s->form.dims), parts = plain_parts(&v);
    for (int64_t j = 0; j < parts.count; j++) plain_is_float(parts.dtype) ? plain_set_f(&parts, j, (double)any(&chance, 1000) / 500 - 1) : plain_set_i(&parts, j, any(&chance, 2));
    s->row = &kind_leaf, s->n_in = 0, s->value = v, s->body[0] = s->body[1] = 0, s->is_index = false;
    memset(s->p, 0, sizeof s->p);
    mark_dead(p);
  }
  return true;
}

/* ---- printing ---- */

static void print_block(const struct program *p, int b, int indent, FILE *out);

static void print_step(const struct program *p, int i, int indent, FILE *out) {
  const struct step *s = &p->step[i];
  for (int k = 0; k < 2; k++)
    if (s->body[k]) fprintf(out, "%*sblock %d%s {\n", indent, "", s->body[k], p->blocks[s->body[k]].is_closed ? " (sees only its parameters)" : ""), print_block(p, s->body[k], indent + 2, out), fprintf(out, "%*s}\n", indent, "");
  fprintf(out, "%*s%%%d = %s(", indent, "", i, s->row->name);
  for (int k = 0; k < s->n_in; k++) fprintf(out, "%s%%%d", k ? ", " : "", s->in[k]);
  int last = PROGRAM_PARAMS - 1;
  while (last >= 0 && !s->p[last]) last--;
  for (int k = 0; k <= last; k++) fprintf(out, "%s%lld", k ? "," : "; ", (long long)s->p[k]);
  if (s->number != 0) fprintf(out, "; %g", s->number);
  for (int k = 0; k < 2; k++) if (s->body[k]) fprintf(out, "; block %d", s->body[k]);
  fprintf(out, ")");
  if (s->form.rank >= 0) {
    fprintf(out, "  %s [", weft_dtype_name(s->form.dtype));
    for (int k = 0; k < s->form.rank; k++) s->form.dims[k] < 0 ? fprintf(out, "%s?", k ? "," : "") : fprintf(out, "%s%lld", k ? "," : "", (long long)s->form.dims[k]);
    fprintf(out, "]");
  }
  if (s->row == &kind_leaf)
    for (int64_t j = 0; j < s->value.count && j < 6; j++) fprintf(out, " %s", plain_text(&s->value, j));
  fprintf(out, "\n");
}

static void print_block(const struct program *p, int b, int indent, FILE *out) {
  for (int i = 0; i < p->n; i++) if (p->step[i].block == b && !p->step[i].is_dead) print_step(p, i, indent, out);
  fprintf(out, "%*sreturn", indent, "");
  for (int k = 0; k < p->blocks[b].n_outs; k++) fprintf(out, "%s%%%d", k ? ", " : " ", p->blocks[b].out[k]);
  fprintf(out, "\n");
}

void program_print(const struct program *p, FILE *out) {
  fprintf(out, "program %llu%s\n", (unsigned long long)p->seed, p->is_smooth ? ", smooth" : "");
  print_block(p, 0, 2, out);
}
