/* json.h -- a strict reader of JSON that nobody trusts: the caller asks for what must come next, and gets it or an error
 * with its place. Strings are valid UTF-8 without a 0; nesting is limited; nothing recurs. */
#ifndef WEFT_JSON_H
#define WEFT_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weft.h"

struct text; /* base/text.h */

struct json {
  const char *path;               /* of the file, for messages */
  const char *start, *at, *end;
  weft_status status;             /* of the first failure; nothing is read after it */
  struct text *why;
};

bool json_fail(struct json *, const char *what);      /* "path: header byte 12: what"; false */
bool json_open(struct json *, char bracket);
/* Whether another member follows the n read so far; if not, the closing bracket has been read (or it failed). */
bool json_more(struct json *, char bracket, int n);
bool json_string(struct json *, struct text *out);    /* replaces what is in out */
bool json_key(struct json *, struct text *out);       /* a string and its colon */
bool json_integer(struct json *, int64_t *out);
bool json_skip(struct json *);                        /* any value */
bool json_end(struct json *);                         /* nothing but space is left */

bool json_is_utf8(const char *s, size_t n);
void json_quote(struct text *, const char *s);        /* writes s, which is UTF-8, as a string */

#endif
