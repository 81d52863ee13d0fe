/* program_kinds.c -- what programs are made of: the operations of weft.h, a row each. Rows of the lists in weft.h come by
 * themselves. */
#include "program_rows.h"

#define ROW(name_, doc) static const struct kind kind_##name_ = { "weft_" #name_, 1, true, make_unary, build_unary, NULL, (void *)weft_##name_ };
WEFT_UNARY(ROW) WEFT_ACTIVATION(ROW)
#undef ROW
#define ROW(name_, doc) static const struct kind kind_##name_ = { "weft_" #name_, 2, true, make_binary, build_binary, NULL, (void *)weft_##name_ };
WEFT_BINARY(ROW)
#undef ROW
#define ROW(name_, doc) static const struct kind kind_##name_ = { "weft_" #name_, 1, false, make_ternary, build_ternary, NULL, (void *)weft_##name_ };
WEFT_TERNARY(ROW)
#undef ROW
#define ROW(name_, doc) static const struct kind kind_##name_ = { "weft_" #name_, 2, true, make_along, build_along, NULL, (void *)weft_##name_ };
WEFT_REDUCE(ROW) WEFT_ALONG(ROW)
#undef ROW
#define X(name_, weight, smooth, how) static const struct kind kind_##name_ = { "weft_" #name_, weight, smooth, make_##how, build_##name_, NULL, NULL };
ROWS(X)
#undef X
const struct kind kind_random_key = { "weft_random_key", 1, false, make_random_key, build_random_key, NULL, NULL };
#define X1(id, a, doc) static const struct kind kind_random_##id = { "weft_random_" #id, 1, false, make_random, build_random1, NULL, (void *)weft_random_##id };
#define X2(id, a, b, doc) static const struct kind kind_random_##id = { "weft_random_" #id, 1, false, make_random, build_random2, NULL, (void *)weft_random_##id };
#define X3(id, a, b, c, doc) static const struct kind kind_random_##id = { "weft_random_" #id, 1, false, make_random, build_random3, NULL, (void *)weft_random_##id };
WEFT_RANDOM(X1, X2, X3)
#undef X1
#undef X2
#undef X3
static const struct kind kind_with_number = { "weft_scalar", 12, true, make_with_number, build_with_number, NULL, NULL };
static const struct kind kind_dots = { "weft_matmul", 2, true, make_dots, build_matmul, NULL, NULL };

extern const struct kind kind_loop, kind_cond, kind_call, kind_map, kind_grad, kind_vjp, kind_jvp, kind_checkpoint, kind_custom; /* program_build.c */
const struct kind *const program_kinds[] = {
#define ROW(name, doc) &kind_##name,
  WEFT_UNARY(ROW) WEFT_ACTIVATION(ROW) WEFT_BINARY(ROW) WEFT_TERNARY(ROW) WEFT_REDUCE(ROW) WEFT_ALONG(ROW)
#undef ROW
#define X(name, weight, smooth, how) &kind_##name,
  ROWS(X)
#undef X
#define X1(id, a, doc) &kind_random_##id,
#define X2(id, a, b, doc) &kind_random_##id,
#define X3(id, a, b, c, doc) &kind_random_##id,
  WEFT_RANDOM(X1, X2, X3) &kind_random_key,
#undef X1
#undef X2
#undef X3
  &kind_with_number, &kind_dots, &kind_loop, &kind_cond, &kind_call, &kind_map, &kind_grad, &kind_vjp, &kind_jvp, &kind_checkpoint, &kind_custom, NULL
};
