/* text.h -- a text that grows. After an allocation failure it stays as it is and says so. */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct text { char *s; size_t n, room; bool failed; }; /* start with {0}; s is NULL or ends in 0 */

void text_add(struct text *, const char *);
void text_addf(struct text *, const char *format, ...) __attribute__((format(printf, 2, 3))); /* no %f %g: locales */
void text_addv(struct text *, const char *format, va_list);
void text_number(struct text *, double, int digits); /* shortest with at most so many digits; nan, inf, -inf */
void text_bytes(struct text *, const char *, size_t n);
const char *text_of(const struct text *); /* "" if nothing was added */
void text_clear(struct text *);           /* keeps the room */
void text_free(struct text *);

#endif
