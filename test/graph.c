/* graph.c -- nodes, handles and scopes: who lives how long, and what is noticed. */
#include "test.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/mem.h"
#include "graph/dtype.h"
#include "graph/function.h"
#include "op/op.h"
#include "weft.h"

static weft_array *ones(int n) {
  float data[64];
  for (int i = 0; i < n; i++) data[i] = 1;
  return weft_from(WEFT_F32, WEFT_DIMS(n), data);
}

TEST(discarding_a_scope_frees_what_was_made_in_it) {
  int64_t before = node_live();
  weft_scope *s = weft_scope_open();
  weft_array *a = ones(3);
  for (int i = 0; i < 100; i++) a = weft_add(a, a);
  EXPECT_INT(node_live() - before, 101);
  weft_scope_discard(s);
  EXPECT_INT(node_live() - before, 0);
}

TEST(a_chain_of_a_million_nodes_is_freed_without_recursion) {
  weft_scope *s = weft_scope_open();
  weft_array *a = ones(3), *b = ones(3);
  for (int i = 0; i < 1000000; i++) {
    weft_scope *inner = weft_scope_open();
    a = weft_keep(weft_add(a, b));
    weft_scope_discard(inner);
  }
  EXPECT_OK(weft_check(a));
  EXPECT(node_live() >= 1000000);
  weft_scope_discard(s);
  EXPECT_INT(node_live(), 0);
}

TEST(a_kept_array_lives_in_the_scope_outside) {
  weft_scope *outer = weft_scope_open(), *inner = weft_scope_open();
  weft_array *a = weft_keep(weft_add(ones(2), ones(2)));
  weft_scope_discard(inner);
  EXPECT_OK(weft_check(a));
  EXPECT_TEXT(weft_op(a), "add");
  weft_scope_discard(outer);
  EXPECT_INT(weft_check(a), WEFT_ERR_SCOPE);
}

TEST(an_array_used_after_its_scope_is_noticed) {
  weft_scope *s = weft_scope_open(), *inner = weft_scope_open();
  weft_array *a = ones(2);
  weft_scope_discard(inner);
  weft_array *y = weft_exp(a);
  EXPECT_INT(weft_check(y), WEFT_ERR_SCOPE);
  EXPECT_TEXT(weft_message(), "weft_exp: the array is used after the end of its scope");
  EXPECT_INT(weft_rank(a), -1);
  weft_scope_discard(s);
}

TEST(an_array_used_long_after_its_scope_is_noticed_in_the_hard_build) {
#ifdef WEFT_HARD
  weft_scope *s = weft_scope_open(), *inner = weft_scope_open();
  weft_array *a = ones(2);
  for (int i = 0; i < 60; i++) {
    weft_scope_discard(inner);
    inner = weft_scope_open();
    for (int k = 0; k < 1000; k++) weft_scalar(k);
  }
  EXPECT_INT(weft_check(weft_exp(a)), WEFT_ERR_SCOPE);
  EXPECT_TEXT(weft_message(), "weft_exp: the array is used after the end of its scope");
  weft_scope_discard(s);
#else
  test_skip("not the hard build");
#endif
}

TEST(ending_a_scope_twice_is_noticed) {
  weft_scope *s = weft_scope_open();
  weft_scope_discard(s);
  weft_scope_discard(s);
  EXPECT_TEXT(weft_message(), "weft_scope_discard: the scope has ended already");
}

static void *end_it(void *s) {
  weft_scope_discard(s);
  return strstr(weft_message(), "opened by another thread") ? s : NULL;
}

TEST(a_scope_is_ended_by_the_thread_that_opened_it) {
  weft_scope *s = weft_scope_open();
  pthread_t t;
  void *noticed;
  pthread_create(&t, NULL, end_it, s);
  pthread_join(t, &noticed);
  EXPECT(noticed == s);
  weft_scope_discard(s);
}

TEST(ending_a_scope_discards_inner_ones_left_open) {
  weft_scope *s = weft_scope_open(), *a = weft_scope_open(), *b = weft_scope_open();
  ones(2);
  (void)a;
  weft_scope_discard(s);
  EXPECT_INT(node_live(), 0);
  weft_scope_discard(b);
  EXPECT(strstr(weft_message(), "ended already"));
}

TEST(an_owner_keeps_an_array_beside_and_after_its_scope) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_own(ones(2));
  weft_own(a);
  weft_disown(a);
  weft_scope_discard(s);
  EXPECT_OK(weft_check(a));
  EXPECT_INT(weft_dim(a, 0), 2);
  weft_disown(a);
  EXPECT_INT(weft_check(a), WEFT_ERR_SCOPE);
  EXPECT_INT(node_live(), 0);
  weft_disown(NULL);
}

TEST(disowning_too_often_does_not_take_the_array_from_its_scope) {
  weft_scope *s = weft_scope_open();
  weft_array *a = ones(2);
  weft_disown(a);
  EXPECT_OK(weft_check(a));
  weft_scope_discard(s);
}

static void *work_in_root(void *arg) {
  (void)arg;
  weft_array *a = ones(8);
  for (int i = 0; i < 1000; i++) a = weft_mul(a, a);
  weft_scope_open();
  ones(4);
  return NULL;
}

TEST(what_a_thread_leaves_behind_goes_with_it) {
  pthread_t t;
  for (int i = 0; i < 3; i++) {
    pthread_create(&t, NULL, work_in_root, NULL);
    pthread_join(t, NULL);
    EXPECT_INT(node_live(), 0);
  }
}

static void *build_on(void *a) {
  for (int i = 0; i < 2000; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = weft_mul(weft_add(a, weft_scalar(1)), a);
    if (weft_rank(y) != 1) return a;
    weft_scope_discard(s);
  }
  return NULL;
}

TEST(any_thread_builds_on_an_array_whose_scope_is_open) {
  weft_scope *s = weft_scope_open();
  weft_array *a = ones(8);
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, build_on, a);
  for (int i = 0; i < 200; i++)
    node_release(array_swap(a, node_make(&op_input, WEFT_F32, 1, (dim[]){ 8 }, 0, NULL, NULL, 0)));
  for (int i = 0; i < 4; i++) {
    void *wrong;
    pthread_join(t[i], &wrong);
    EXPECT(!wrong);
  }
  weft_scope_discard(s);
  EXPECT_INT(node_live(), 0);
}

static void *disown_all(void *list) {
  for (int i = 0; i < 500; i++) weft_disown(((weft_array **)list)[i]);
  return NULL;
}

TEST(another_thread_may_disown_while_the_scope_ends) {
  weft_array *list[500];
  for (int round = 0; round < 20; round++) {
    weft_scope *s = weft_scope_open();
    pthread_t t;
    for (int i = 0; i < 500; i++) list[i] = weft_own(weft_exp(weft_scalar(i)));
    pthread_create(&t, NULL, disown_all, list);
    weft_scope_discard(s);
    pthread_join(t, NULL);
    EXPECT_INT(node_live(), 0);
  }
}

/* ---- What a scope is for ---- */

TEST(updates_and_fetches_are_recorded_and_the_last_update_counts) {
  weft_scope *s = weft_scope_open();
  weft_array *w = ones(3);
  weft_scope *step = weft_scope_open();
  float x[3];
  weft_array *v1 = weft_add(w, w), *v2 = weft_mul(w, w);
  weft_update(w, v1);
  weft_update(w, v2);
  weft_fetch(v1, WEFT_F32, x, sizeof x);
  EXPECT_INT(step->n_updates, 1);
  EXPECT(step->updates[0].value == v2);
  EXPECT_INT(step->n_fetches, 1);
  EXPECT(!step->failure);
  weft_scope_discard(step);
  weft_scope_discard(s);
}

static const char *blamed(weft_scope *s) { return s->failure ? failure_message(s->failure) : "nothing"; }

TEST(wrong_updates_and_fetches_are_remembered_by_the_scope) {
  weft_scope *s = weft_scope_open();
  weft_array *w = ones(3);
  float x[3];
  const char *expected[] = {
    "weft_update: the array is [3], the value [2]",
    "weft_update: the array is f32, the value i32",
    "weft_update: the array is of the scope that would end; it must be of one further out",
    "weft_fetch: the array is f32, not i32",
    "weft_fetch: the array has 12 bytes, the destination 8",
    "weft_fetch: the destination is NULL",
  };
  for (int i = 0; i < 6; i++) {
    weft_scope *step = weft_scope_open();
    if (i == 0) weft_update(w, ones(2));
    if (i == 1) weft_update(w, weft_cast(w, WEFT_I32));
    if (i == 2) weft_update(ones(3), w);
    if (i == 3) weft_fetch(w, WEFT_I32, x, sizeof x);
    if (i == 4) weft_fetch(w, WEFT_F32, x, 8);
    if (i == 5) weft_fetch(w, WEFT_F32, NULL, sizeof x);
    EXPECT_TEXT(blamed(step), expected[i]);
    EXPECT_INT(step->n_updates + step->n_fetches, 0);
    weft_scope_discard(step);
  }
  weft_scope_discard(s);
}

TEST(an_error_somebody_looked_at_is_not_held_against_the_scope) {
  weft_scope *s = weft_scope_open();
  weft_array *bad = weft_add(ones(2), ones(3));
  EXPECT(s->failure && !failure_seen(s->failure, false));
  EXPECT_INT(weft_check(bad), WEFT_ERR_SHAPE);
  EXPECT(failure_seen(s->failure, false));
  weft_sum(ones(2), 7);
  EXPECT_TEXT(blamed(s), "weft_sum: there is no axis 7 in [2]");
  EXPECT(!failure_seen(s->failure, false));
  weft_scope_discard(s);
}

TEST(an_alias_makes_its_scope_a_trace) {
  EXPECT(!scope_trace_open());
  weft_scope *s = weft_scope_open();
  weft_array *a = ones(2), *b = weft_alias(a);
  EXPECT(scope_trace_open());
  EXPECT(weft_id(a) != weft_id(b));
  EXPECT_TEXT(weft_op(b), "alias");
  weft_scope_discard(s);
  EXPECT(!scope_trace_open());
}

/* ---- Looking inside ---- */

TEST(operands_of_a_node_can_be_walked) {
  weft_scope *s = weft_scope_open();
  weft_array *a = ones(2), *b = ones(2), *y = weft_sub(a, b), *in[2];
  EXPECT_INT(weft_operands(y, 2, in), 2);
  EXPECT(weft_id(in[0]) == weft_id(a) && weft_id(in[1]) == weft_id(b));
  EXPECT_INT(weft_operands(a, 2, in), 0);
  EXPECT_TEXT(weft_op(a), "value");
  weft_scope_discard(s);
}

TEST(nodes_carry_the_tag_of_their_origin_and_errors_blame_it) {
  weft_scope *s = weft_scope_open();
  EXPECT_INT(weft_origin(42), 0);
  weft_array *bad = weft_add(ones(2), ones(3));
  EXPECT_INT(weft_origin(7), 42);
  EXPECT_INT(weft_check(weft_exp(bad)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_blame(), 42);
  weft_origin(0);
  weft_scope_discard(s);
}

TEST(walking_a_graph_gives_inputs_before_users_and_each_node_once) {
  weft_scope *s = weft_scope_open();
  weft_array *a = ones(2), *x = a;
  for (int i = 0; i < 20; i++) x = weft_mul(x, x);
  struct node_list l;
  graph_lock();
  EXPECT(walk(&l, 1, &x->node, NULL));
  graph_unlock();
  EXPECT_INT(l.n, 21);
  for (int i = 0; i < l.n; i++)
    for (int k = 0; k < l.node[i]->n_in; k++) EXPECT(l.node[i]->in[k]->slot < i);
  node_list_free(&l);
  weft_scope_discard(s);
}

/* ---- External memory ---- */

static int n_released;
static void released(void *ctx) { n_released += ctx == &n_released; }

TEST(external_memory_is_released_once_whether_the_array_is_good_or_bad) {
  float data[6] = { 1, 2, 3, 4, 5, 6 };
  int64_t dims[] = { 2, 3 }, strides[] = { -3, 1 };
  weft_block b = { data + 3, 0, WEFT_F32, 2, dims, strides };
  n_released = 0;
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_external(&b, released, &n_released);
  EXPECT_OK(weft_check(a));
  EXPECT_INT(n_released, 0);
  weft_scope_discard(s);
  EXPECT_INT(n_released, 1);

  s = weft_scope_open();
  b.dtype = (weft_dtype)99;
  EXPECT_INT(weft_check(weft_external(&b, released, &n_released)), WEFT_ERR_DTYPE);
  EXPECT_INT(n_released, 2);
  weft_scope_discard(s);
  EXPECT_INT(n_released, 2);
}

static weft_array *owned_in_callback;
static void disown_another(void *ctx) { (void)ctx; weft_disown(owned_in_callback); }

TEST(a_release_callback_may_disown_other_arrays) {
  float x = 1;
  weft_block b = { &x, 0, WEFT_F32, 0, NULL, NULL };
  weft_scope *s = weft_scope_open();
  owned_in_callback = weft_own(weft_exp(ones(4)));
  weft_external(&b, disown_another, NULL);
  weft_scope_discard(s);
  EXPECT_INT(node_live(), 0);
}

/* ---- Out of memory ---- */

static void small_program(void) {
  weft_scope *s = weft_scope_open();
  if (!s) return;
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY, 4));
  weft_array *y = weft_layer_norm(weft_add(x, weft_scalar(1)), ones(4), NULL, 1e-5);
  weft_array *part = weft_slice(y, 1, 1, 3, 1);
  y = weft_put(y, part, weft_scalar(0), WEFT_SET);
  y = weft_concat(0, WEFT_ARRAYS(y, weft_flip(y, 0)));
  y = weft_matmul(y, weft_moveaxis(y, 0, 1));
  y = weft_sum(weft_softmax(y, -1), WEFT_ALL);
  weft_status status = weft_check(y);
  if (status != WEFT_OK && status != WEFT_ERR_MEMORY) test_fail(__FILE__, __LINE__, "%s", weft_message());
  weft_add(y, ones(3));
  weft_scope_discard(s);
}

TEST(every_failed_allocation_gives_a_bad_array_and_leaks_nothing) {
  small_program();
  int64_t live = mem_live();
  for (int64_t i = 1; i < 1000; i++) {
    mem_fail_at(i, 0);
    small_program();
    bool is_over = mem_count() < i;
    mem_fail_at(0, 0);
    EXPECT_INT(node_live(), 0);
    if (is_over) {
      EXPECT(i > 50);
      break;
    }
  }
  small_program();
  EXPECT(mem_live() <= live + 8);
  for (int64_t i = 1; i < 60; i += 3) {
    mem_fail_at(i, 1);
    small_program();
    mem_fail_at(0, 0);
    EXPECT_INT(node_live(), 0);
  }
}

/* ---- Sizes ---- */

static const char *shown(dim d) {
  static char s[64];
  struct text t = { 0 };
  dim_print(d, &t);
  strncpy(s, text_of(&t), sizeof s - 1);
  text_free(&t);
  return s;
}

TEST(sizes_are_polynomials_and_equal_ones_are_equal_numbers) {
  dim n = dim_symbol(), m = dim_symbol();
  dim_retain(n);
  dim a = dim_mul(dim_add(n, 1), dim_sub(m, 2)), b = dim_sub(dim_add(dim_mul(n, m), m), dim_add(dim_mul(2, n), 2));
  EXPECT_INT(a, b);
  EXPECT_INT(dim_value(a, 2, (dim[]){ n, m }, (int64_t[]){ 4, 10 }), 40);
  EXPECT_INT(dim_value(a, 1, (dim[]){ n }, (int64_t[]){ 4 }), -1);
  dim q;
  EXPECT(dim_divide(a, dim_add(n, 1), &q) && q == dim_sub(m, 2));
  EXPECT(!dim_divide(a, dim_add(n, 2), &q));
  EXPECT_INT(dim_sub(dim_add(n, 5), n), 5);
  EXPECT_INT(dim_substitute(a, 2, (dim[]){ n, m }, (dim[]){ m, 3 }), dim_add(m, 1));
  EXPECT(strchr(shown(dim_add(dim_mul(2, n), 1)), '*'));
  EXPECT_INT(dim_sub(3, 4), DIM_BAD);
  EXPECT_INT(dim_mul(INT64_MAX, 2), DIM_BAD);
  EXPECT_INT(dim_count(3, (dim[]){ (int64_t)1 << 40, (int64_t)1 << 40, 0 }), 0);
  EXPECT_INT(dim_count(2, (dim[]){ (int64_t)1 << 40, (int64_t)1 << 40 }), DIM_BAD);
  dim_release(n);
}

/* ---- Numbers ---- */

TEST(numbers_are_rounded_once_to_each_float) {
  EXPECT_INT(dtype_encode(WEFT_F32, 1.0 / 3), 0x3eaaaaab);
  EXPECT_INT(dtype_encode(WEFT_BF16, 1.0 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_INT(dtype_encode(WEFT_BF16, 1.0 + 0x1p-8), 0x3f80);
  EXPECT_INT(dtype_encode(WEFT_F16, 65519.99), 0x7bff);
  EXPECT_INT(dtype_encode(WEFT_F16, 65520), 0x7c00);
  EXPECT_INT(dtype_encode(WEFT_F16, 0x1p-24), 1);
  EXPECT_INT(dtype_encode(WEFT_F16, 0x1p-25), 0);
  EXPECT_INT(dtype_encode(WEFT_F16, -0x1.8p-25), 0x8001);
  EXPECT_INT(dtype_encode(WEFT_F32, -0.0), 0x80000000);
  EXPECT_INT(dtype_encode(WEFT_F32, 0x1p-149), 1);
  EXPECT_INT(dtype_encode(WEFT_F32, 1e300), 0x7f800000);
  for (uint32_t b = 0; b < 0x10000; b++) {
    double half = dtype_decode(WEFT_F16, b), brain = dtype_decode(WEFT_BF16, b);
    if (half == half) EXPECT_INT(dtype_encode(WEFT_F16, half), b);
    if (brain == brain) EXPECT_INT(dtype_encode(WEFT_BF16, brain), b);
  }
  srand(1);
  for (int i = 0; i < 100000; i++) {
    double x = ldexp(rand() / 3.0, rand() % 300 - 160) * (rand() % 2 ? 1 : -1);
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    EXPECT_INT(dtype_encode(WEFT_F32, x), bits);
  }
}

TEST(a_nan_keeps_its_sign_and_the_top_of_its_payload) {
  uint64_t bits = 0xfff8123456789abc;
  double nan;
  memcpy(&nan, &bits, 8);
  EXPECT_INT(dtype_encode(WEFT_F64, nan), (int64_t)bits);
  EXPECT_INT(dtype_encode(WEFT_F32, nan), 0xffc091a2);
  EXPECT_INT(dtype_encode(WEFT_BF16, nan), 0xffc0);
  EXPECT_INT(dtype_encode(WEFT_F16, nan), 0xfe04);
  EXPECT_INT(dtype_encode(WEFT_I32, nan), 0);
  weft_scope *s = weft_scope_open();
  EXPECT_INT(((struct scalar_attr *)weft_scalar(nan)->node->attr)->bits, (int64_t)bits);
  weft_scope_discard(s);
}

TEST(numbers_saturate_where_integers_end) {
  EXPECT_INT(dtype_encode(WEFT_I8, 300), 127);
  EXPECT_INT(dtype_encode(WEFT_I8, -300), 0x80);
  EXPECT_INT(dtype_encode(WEFT_U8, -1), 0);
  EXPECT_INT(dtype_encode(WEFT_I64, 1e30), INT64_MAX);
  EXPECT_INT(dtype_encode(WEFT_U64, 1e30), -1);
  EXPECT_INT(dtype_encode(WEFT_I32, -2.9), 0xfffffffe);
  EXPECT_INT(dtype_encode_integer(WEFT_F32, ((int64_t)1 << 53) + 1), 0x5a000000);
  EXPECT_INT(dtype_encode_integer(WEFT_F32, ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1), 0x5d800001);
}
