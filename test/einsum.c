/* einsum.c -- sums of products by names, against loops over all names at once. */
#include <stdlib.h>
#include "base/mem.h"
#include "run/plan.h"
#include "test.h"
#include "values.h"
#include "weft.h"

enum { MOST = 6 };
static const int64_t sizes[] = { 3, 4, 5, 2, 6, 7 }; /* of a, b, c .. */

/* Numbers that are sums of few powers of two: any order of adding gives the same. */
static double number(int which, int64_t i) { return (double)((i * 37 + which * 11) % 16 - 7) / 4; }

struct operand { char names[16]; int rank; int64_t dims[8]; double *x; weft_array *a; };

static struct operand operand(int which, const char *names, int n) {
  struct operand o = { .rank = n };
  int64_t count = 1;
  memcpy(o.names, names, (size_t)n);
  for (int i = 0; i < n; i++) count *= o.dims[i] = sizes[names[i] - 'a'];
  o.x = malloc(sizeof *o.x * (size_t)count);
  for (int64_t i = 0; i < count; i++) o.x[i] = number(which, i);
  o.a = weft_from(WEFT_F64, n, o.dims, o.x);
  return o;
}

static double at(const struct operand *o, const int64_t index[]) {
  int64_t i = 0;
  for (int k = 0; k < o->rank; k++) i = i * o->dims[k] + index[o->names[k] - 'a'];
  return o->x[i];
}

/* The sum over all names that are not in `out`, by counting through everything. */
static double right(int n, const struct operand *in, const char *out, const int64_t fixed[]) {
  int64_t index[MOST] = { 0 };
  bool is_used[MOST] = { 0 };
  double sum = 0;
  for (int k = 0; k < n; k++) for (int i = 0; i < in[k].rank; i++) is_used[in[k].names[i] - 'a'] = true;
  for (const char *c = out; *c; c++) index[*c - 'a'] = fixed[*c - 'a'], is_used[*c - 'a'] = false;
  for (;;) {
    double product = 1;
    for (int k = 0; k < n; k++) product *= at(&in[k], index);
    sum += product;
    int a = 0;
    for (; a < MOST; a++) {
      if (!is_used[a]) continue;
      if (++index[a] < sizes[a]) break;
      index[a] = 0;
    }
    if (a == MOST) return sum;
  }
}

static void check(const char *text) {
  weft_scope *s = weft_scope_open();
  struct operand in[4];
  weft_array *x[4];
  int n = 0;
  const char *out = strstr(text, "->") + 2;
  for (const char *p = text; p < out - 2; n++) {
    size_t length = strcspn(p, ",-");
    in[n] = operand(n, p, (int)length), x[n] = in[n].a;
    p += length + 1;
  }
  int64_t count = 1, index[MOST] = { 0 };
  for (const char *c = out; *c; c++) count *= sizes[*c - 'a'];
  double *y = malloc(sizeof *y * (size_t)count);
  EXPECT_OK(weft_read(weft_einsum(text, n, x), WEFT_F64, y, sizeof *y * (size_t)count));
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i;
    for (size_t k = strlen(out); k--;) index[out[k] - 'a'] = rest % sizes[out[k] - 'a'], rest /= sizes[out[k] - 'a'];
    double want = right(n, in, out, index);
    if (y[i] == want) continue;
    test_fail(__FILE__, __LINE__, "%s: element %d is %.17g, not %.17g", text, (int)i, y[i], want);
    break;
  }
  for (int k = 0; k < n; k++) free(in[k].x);
  free(y);
  weft_scope_discard(s);
}

TEST(einsum_sums_over_the_names_the_result_does_not_have) {
  static const char *const texts[] = {
    "ab,bc->ac", "ab,bc->ca", "ab,cb->ac", "ba,bc->ac", "abc,bcd->ad", "abc,cbd->ad", "abc,dbc->da", "ab->ba", "ab->b", "ab->",
    "a,a->", "a,b->ab", "a,b->ba", "abc,abd->acd", "abcd,abed->abce", "acbd,aebd->abce", "ab,ab->ab", "ab,ab->a", "ab,ab->",
    "abc,ac->bac", "ab,bc,cd->ad", "ab,bc,cd,de->ae", "ab,cd,bc->ad", "abc,bd,ce->ade", "a,ab,b->", "aa->a", "aa->", "aab,b->a", "aba,bc->ac",
    "abc,d->abcd", "ab,ac,ad->bcd", "abc,ade->bcde", "abc,abc->cba", "abe,bc->ec",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check(texts[i]);
}

TEST(einsum_knows_dots_and_results_that_are_implied) {
  weft_scope *s = weft_scope_open();
  double x[24], w[20], v[2 * 3 * 5];
  for (int i = 0; i < 24; i++) x[i] = number(0, i);
  for (int i = 0; i < 20; i++) w[i] = number(1, i);
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(2, 3, 4), x), *b = weft_from(WEFT_F64, WEFT_DIMS(4, 5), w);
  weft_array *in[] = { a, b }, *y[] = { weft_einsum("...i,ij->...j", 2, in), weft_einsum("...i,ij", 2, in), weft_einsum("abi,ij", 2, in) };
  for (int k = 0; k < 3; k++) {
    EXPECT_OK(weft_read(y[k], WEFT_F64, v, sizeof v));
    for (int i = 0; i < 30; i++) {
      double want = 0;
      for (int j = 0; j < 4; j++) want += x[i / 5 * 4 + j] * w[j * 5 + i % 5];
      EXPECT(v[i] == want);
    }
  }
  weft_scope_discard(s);
}

TEST(attention_scores_are_one_product_without_a_copy) {
  weft_scope *s = weft_scope_open();
  weft_array *q = weft_full(WEFT_F32, WEFT_DIMS(2, 16, 4, 8), 1), *k = weft_full(WEFT_F32, WEFT_DIMS(2, 24, 4, 8), 2), *in[] = { q, k };
  EXPECT_OK(weft_eval(2, in));
  weft_array *y = weft_einsum("bqhd,bkhd->bhqk", 2, in);
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.kernels, 1);
  EXPECT_INT(cost.peak_bytes - cost.scratch_bytes, 2 * 4 * 16 * 24 * 4);
  weft_scope_discard(s);
}

/* Steps, and bytes of temporaries: a copy only where the summed names of an operand cannot be walked through as one. */
TEST(einsum_copies_nothing_that_strides_can_reach) {
  static const struct { const char *text; int64_t a[4], b[4]; int steps; int64_t copied; } t[] = {
    { "ab,bc->ac", { 32, 40 }, { 40, 48 }, 1, 0 }, { "ab,bc->ca", { 32, 40 }, { 40, 48 }, 1, 0 }, { "ab,cb->ac", { 32, 40 }, { 48, 40 }, 1, 0 },
    { "ba,bc->ac", { 40, 32 }, { 40, 48 }, 1, 0 }, { "abc,bcd->ad", { 32, 8, 10 }, { 8, 10, 48 }, 1, 0 },
    { "abc,dbc->da", { 32, 8, 10 }, { 48, 8, 10 }, 1, 0 }, { "abc,abd->acd", { 6, 30, 20 }, { 6, 30, 24 }, 1, 0 },
    { "abcd,abed->abce", { 3, 4, 20, 16 }, { 3, 4, 24, 16 }, 1, 0 }, { "acbd,aebd->abce", { 3, 20, 4, 16 }, { 3, 24, 4, 16 }, 1, 0 },
    { "abc,ac->bac", { 8, 30, 40 }, { 8, 40 }, 1, 0 }, { "abc,d->abcd", { 8, 8, 8 }, { 8 }, 1, 0 },
    { "abc,ade->bcde", { 30, 8, 9 }, { 30, 7, 10 }, 1, 0 }, { "abc,cd->abd", { 8, 30, 40 }, { 40, 48 }, 1, 0 },
    { "abc,ad->dbc", { 30, 8, 9 }, { 30, 40 }, 1, 0 }, { "ab,ab->a", { 32, 40 }, { 32, 40 }, 1, 0 }, { "abc,bd->acd", { 8, 30, 40 }, { 30, 48 }, 1, 0 },
    { "abcd,cd->ab", { 8, 9, 20, 16 }, { 20, 16 }, 1, 0 }, { "abcd,bc->ad", { 8, 9, 20, 16 }, { 9, 20 }, 1, 0 },
    { "abc,cbd->ad", { 32, 8, 10 }, { 10, 8, 48 }, 2, 32 * 80 * 4 }, { "abc,cbd->ad", { 64, 8, 10 }, { 10, 8, 48 }, 2, 48 * 80 * 4 } };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    weft_scope *s = weft_scope_open();
    int ra = (int)strcspn(t[i].text, ","), rb = (int)strcspn(t[i].text + ra + 1, "-");
    weft_array *in[] = { weft_iota(weft_full(WEFT_F32, ra, t[i].a, 1), 0), weft_iota(weft_full(WEFT_F32, rb, t[i].b, 1), 0) };
    EXPECT_OK(weft_eval(2, in));
    weft_array *y = weft_einsum(t[i].text, 2, in);
    weft_cost cost;
    int64_t bytes = 4;
    EXPECT_OK(weft_plan(1, &y, &cost));
    for (int k = 0; k < weft_rank(y); k++) bytes *= weft_dim(y, k);
    int64_t copied = cost.peak_bytes - cost.scratch_bytes - bytes;
    if (cost.kernels != t[i].steps || copied != t[i].copied)
      test_fail(__FILE__, __LINE__, "%s: %d steps, %lld bytes copied", t[i].text, cost.kernels, (long long)copied);
    weft_scope_discard(s);
  }
}

TEST(einsum_takes_together_first_what_stays_small) {
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { weft_full(WEFT_F32, WEFT_DIMS(100, 100), 1), weft_full(WEFT_F32, WEFT_DIMS(100, 100), 2),
                       weft_full(WEFT_F32, WEFT_DIMS(2, 100), 3) };
  EXPECT_OK(weft_eval(3, in));
  weft_array *y = weft_einsum("bc,cd,ab->ad", 3, in);
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT(cost.operations <= 2 * 2 * 2 * 100 * 100 + 1000); /* (ab,bc),cd: 2x100 by 100x100, twice */
  weft_scope_discard(s);
}

TEST(einsum_is_differentiated) {
  weft_scope *s = weft_scope_open();
  double x[] = { 1, 2, 3, 4, 5, 6 }, w[] = { 2, 3, 5 }, d[6];
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(2, 3), x), *b = weft_from(WEFT_F64, WEFT_DIMS(3), w), *in[] = { a, b }, *da;
  weft_grad(weft_einsum("ij,j->", 2, in), 1, &a, &da);
  EXPECT_OK(weft_read(da, WEFT_F64, d, sizeof d));
  for (int i = 0; i < 6; i++) EXPECT(d[i] == w[i % 3]);
  weft_scope_discard(s);
}

TEST(tensordot_keeps_the_axes_of_a_then_those_of_b) {
  weft_scope *s = weft_scope_open();
  double x[24], w[40], y[10], want;
  for (int i = 0; i < 24; i++) x[i] = number(0, i);
  for (int i = 0; i < 40; i++) w[i] = number(1, i);
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(4, 2, 3), x), *b = weft_from(WEFT_F64, WEFT_DIMS(4, 5, 2), w); /* over 4, 2 */
  EXPECT_OK(weft_read(weft_tensordot(a, b, 2, (int[]){ 0, 1 }, (int[]){ 0, -1 }), WEFT_F64, (double[15]){ 0 }, 15 * sizeof *y));
  weft_array *t = weft_tensordot(weft_slice(a, 2, 0, 2, 1), b, 2, (int[]){ 1, 0 }, (int[]){ 2, 0 });
  EXPECT_OK(weft_read(t, WEFT_F64, y, sizeof y));
  for (int i = 0; i < 10; i++) {
    want = 0;
    for (int p = 0; p < 4; p++) for (int q = 0; q < 2; q++) want += x[(p * 2 + q) * 3 + i / 5] * w[(p * 5 + i % 5) * 2 + q];
    EXPECT(y[i] == want);
  }
  weft_scope_discard(s);
}

TEST(einsum_says_what_is_wrong) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_full(WEFT_F32, WEFT_DIMS(2, 3), 1), *b = weft_full(WEFT_F32, WEFT_DIMS(4, 5), 1), *in[] = { a, b };
  EXPECT_INT(weft_check(weft_einsum("ij,jk->ik", 2, in)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_einsum("ij->i", 2, in)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_einsum("ijk,lm->i", 2, in)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_einsum("ij,kl->x", 2, in)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_einsum("ij,kl->ii", 2, in)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_einsum("i1,kl->i", 2, in)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_einsum(NULL, 2, in)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_einsum("", 0, in)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_tensordot(a, b, 1, (int[]){ 1 }, (int[]){ 0 })), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

/* Two u32 alone would wrap around. */
SCOPED(operands_of_several_dtypes_meet_before_they_are_multiplied) {
  static const uint32_t large[] = { 6, 4294967290u };
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(2, 1), (double[]){ 0.5, 2 }), *u = weft_from(WEFT_U32, WEFT_DIMS(1, 2), large);
  weft_array *one = weft_full(WEFT_U32, WEFT_DIMS(2, 1), 6), *y = weft_einsum("ij,jk,kl->il", 3, (weft_array *[]){ x, u, one });
  EXPECT_F64(y, 3 * 4294967296.0, 12 * 4294967296.0);
}

static weft_array *sum_of_products(weft_array *x) {
  int axis = 0;
  return weft_tensordot(x, weft_full(WEFT_F64, WEFT_DIMS(1, 2), -3), 1, &axis, &axis);
}
/* As where the size is known: no axis of one element is stretched, and 0 times -3 is summed to 0. */
SCOPED(tensordot_of_an_open_size_and_1_is_that_of_two_equal_sizes) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = sum_of_products(x);
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  weft_call(f, 1, (weft_array *[]){ f64s(1, (double[]){ 0 }) }, 1, &y);
  EXPECT_SAME(y, sum_of_products(f64s(1, (double[]){ 0 })));
  weft_call(f, 1, (weft_array *[]){ f64s(2, (double[]){ 1, 2 }) }, 1, &y);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_SHAPE);
}

/* ---- paths ---- */

/* Terms as texts of names; multiplications to join two, and the cheapest order of all, by trying every one. */
static double length_of(char c) { return (double)sizes[c - 'a']; }

static bool occurs(const char *names, char c) { return strchr(names, c) != NULL; }

/* What is left of a term: names that others, or the result, have. */
static void trim(char term[], int n, char all[][32], int k, int also, const char *out) {
  char kept[32] = { 0 };
  for (const char *c = term; *c; c++) {
    bool is_needed = occurs(out, *c);
    for (int i = 0; i < n; i++) is_needed |= i != k && i != also && occurs(all[i], *c);
    if (is_needed && !occurs(kept, *c)) kept[strlen(kept)] = *c;
  }
  strcpy(term, kept);
}

/* Joins i and j of `all`, to `next`; returns what it costs. */
static double join_two(int n, char all[][32], int i, int j, const char *out, char next[][32]) {
  char a[32], b[32], both[64];
  double cost = 1;
  int m = 0;
  strcpy(a, all[i]), strcpy(b, all[j]);
  trim(a, n, all, i, -1, out), trim(b, n, all, j, -1, out);
  strcpy(both, a);
  for (const char *c = b; *c; c++) if (!occurs(both, *c)) both[strlen(both) + 1] = 0, both[strlen(both)] = *c;
  for (const char *c = both; *c; c++) cost *= length_of(*c);
  trim(both, n, all, i, j, out);
  for (int k = 0; k < n; k++) if (k != i && k != j) strcpy(next[m++], all[k]);
  strcpy(next[m], both);
  return cost;
}

static double cheapest(int n, char all[][32], const char *out) {
  double least = n > 1 ? INFINITY : 0;
  for (int j = 1; j < n; j++)
    for (int i = 0; i < j; i++) {
      char next[8][32];
      double cost = join_two(n, all, i, j, out, next);
      least = fmin(least, cost + cheapest(n - 1, next, out));
    }
  return least;
}

/* What the path costs, step by step as it says. */
static double cost_of(int n, char all[][32], const char *out, int pairs[][2]) {
  double sum = 0;
  for (int k = 0; n > 1; k++, n--) {
    char next[40][32];
    EXPECT(pairs[k][0] >= 0 && pairs[k][0] < pairs[k][1] && pairs[k][1] < n);
    sum += join_two(n, all, pairs[k][0], pairs[k][1], out, next);
    memcpy(all, next, sizeof *all * (size_t)(n - 1));
  }
  return sum;
}

/* text: terms of names a .. f, an arrow, the result. */
static double path_of(const char *text, int pairs[][2], int *n, char term[][32], char out[]) {
  const char *arrow = strstr(text, "->");
  weft_array *x[32];
  double products;
  *n = 0;
  for (const char *c = text; c < arrow; c += *c == ',') {
    int64_t dims[8];
    int rank = 0;
    memset(term[*n], 0, sizeof term[*n]);
    for (; c < arrow && *c != ','; c++) dims[rank] = sizes[*c - 'a'], term[*n][rank++] = *c;
    x[(*n)++] = weft_full(WEFT_F64, rank, dims, 1);
  }
  strcpy(out, arrow + 2);
  EXPECT_OK(weft_einsum_path(text, *n, x, pairs, &products));
  return products;
}

SCOPED(no_order_of_pairs_takes_fewer_multiplications_than_that_of_einsum) {
  static const char *const texts[] = { "ab,bc->ac", "ab,bc,cd->ad", "ab,bc,cd,de->ae", "abc,cd,de,ef->abf", "ab,cd->", "abc,abd,acd->bcd",
    "a,b,c,d->abcd", "ab,ab,ab->", "abc,bcd,cde,def->af", "ab,bc,cd,de,ef->af", "ace,bdf,ab,cd,ef->", "aab,bc,cc->a", "f,ef,def->" };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char term[32][32], out[32];
    int pairs[32][2], n;
    double products = path_of(texts[i], pairs, &n, term, out), least = cheapest(n, term, out);
    if (products != least) test_fail(__FILE__, __LINE__, "%s: %g, not %g", texts[i], products, least);
    EXPECT(cost_of(n, term, out, pairs) == products);
  }
}

/* The pair first that is cheapest alone (ac, 2 x 3 ..) would be the wrong one here. */
SCOPED(a_cheap_pair_does_not_come_first_where_it_makes_the_rest_dear) {
  char term[32][32], out[32];
  int pairs[32][2], n;
  double products = path_of("ab,cd,bc,de->ae", pairs, &n, term, out);
  EXPECT(cost_of(n, term, out, pairs) == products);
  EXPECT(pairs[0][0] != 0 || pairs[0][1] != 1); /* ab and cd share nothing */
}

SCOPED(a_path_of_many_operands_tells_what_it_costs) {
  char term[40][32], out[32], text[128] = "";
  int pairs[32][2], n;
  for (int i = 0; i < 20; i++) strcat(text, i ? ",xy" : "xy"), text[3 * i] = (char)('a' + i % 6), text[3 * i + 1] = (char)('a' + (i + 1) % 6);
  strcat(text, "->a");
  double products = path_of(text, pairs, &n, term, out);
  EXPECT_INT(n, 20);
  EXPECT(cost_of(n, term, out, pairs) == products);
}

SCOPED(einsum_path_says_what_is_wrong_and_takes_one_operand) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(3, 4), 1), *two[] = { x, x };
  int pairs[1][2] = { { -1, -1 } };
  double products = -1;
  EXPECT_OK(weft_einsum_path("ij->j", 1, &x, NULL, &products));
  EXPECT(products == 0);
  EXPECT_OK(weft_einsum_path("ij,ij", 2, two, pairs, NULL));
  EXPECT_INT(pairs[0][0], 0);
  EXPECT_INT(pairs[0][1], 1);
  EXPECT_INT(weft_einsum_path(NULL, 1, &x, pairs, NULL), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_einsum_path: the subscripts are NULL");
  EXPECT_INT(weft_einsum_path("ij,jk", 2, two, pairs, NULL), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_einsum_path: \"ij,jk\": the axis j has 4 elements, and 3 elsewhere");
  EXPECT_INT(weft_einsum_path("ij", 0, two, pairs, NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_einsum_path("ij,jk->", 1, two, pairs, NULL), WEFT_ERR_ARG);
  int64_t live = mem_live();
  for (int i = 0; i < 10; i++) EXPECT_INT(weft_einsum_path("ij,jk->", 1, two, pairs, NULL), WEFT_ERR_ARG);
  EXPECT_INT(mem_live(), live); /* the message of the last one, and of none before it */
}

/* ij,jk,kl: a b first, then its result by c, turned; the plan has the products in that order, with their sizes. */
SCOPED(a_plan_shows_in_which_order_einsum_takes_operands_together) {
  weft_array *x[] = { weft_full(WEFT_F32, WEFT_DIMS(64, 512), 1), weft_full(WEFT_F32, WEFT_DIMS(512, 48), 2), weft_full(WEFT_F32, WEFT_DIMS(48, 256), 3) };
  EXPECT_OK(weft_eval(3, x));
  weft_array *y = weft_einsum("ij,jk,kl->il", 3, x);
  const char *plan = weft_show(1, &y, "plan"), *first = plan ? strstr(plan, "M=64, N=48, K=512") : NULL;
  EXPECT(first && strstr(first, "M=256, N=64, K=48"));
}
