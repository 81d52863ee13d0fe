/* sugar.c -- weft_sugar.h in C: numbers where arrays are expected. header_use.h has the rest, which is compiled in C++ too. */
#include <weft_sugar.h>
#include "test.h"

#define EXPECT_TIMES(number, want)                                                    \
  do {                                                                                \
    double y_ = 0;                                                                    \
    EXPECT_OK(weft_read_to(weft_mul(weft_full(WEFT_F64, 0, NULL, 2), number), &y_));  \
    if (y_ != (want)) test_fail(__FILE__, __LINE__, "2 times %s is %g", #number, y_); \
  } while (0)

TEST(a_number_of_any_type_of_c_keeps_its_value) {
  weft_scope *s = weft_scope_open();
  EXPECT_TIMES(0.25, 0.5);
  EXPECT_TIMES(0.25f, 0.5);
  EXPECT_TIMES(0.25L, 0.5);
#ifdef __FLT16_MAX__
  EXPECT_TIMES((_Float16)0.25, 0.5);
#endif
  EXPECT_TIMES((short)-3, -6);
  EXPECT_TIMES('a', 2 * 'a');
  EXPECT_TIMES((_Bool)1, 2);
  EXPECT_TIMES(UINT64_MAX, 0x1p65);
  EXPECT_TIMES(1ull << 63, 0x1p64);
  EXPECT_TIMES((size_t)3, 6);
  EXPECT_TIMES(INT64_C(1) << 40, (double)(INT64_C(1) << 41));
  weft_scope_discard(s);
}
