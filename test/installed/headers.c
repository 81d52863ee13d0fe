/* headers.c -- both headers together, under the strictest warnings of either language. */
#include <weft_sugar.h>
#include <weft.h>
