/* trust.h -- what is taken on trust about sizes that are not known yet: that two are equal, that a slice lies inside.
 *
 * The scope it was said in remembers it, passes it on to the scope outside when it ends, and to a function that is made
 * from it, which checks it with the sizes it is given: also where only the shape of what was said to fit is used. */
#ifndef WEFT_TRUST_H
#define WEFT_TRUST_H
#include "graph/dim.h"
#include "weft.h"

struct failure;

struct trust {
  char fn[32];                  /* who took it */
  weft_status status;           /* what it is if it is not so */
  dim size, start, length;
  int64_t step;                 /* 0: length is size; else of the slice that lies in size */
  bool is_size;                 /* instead: size is one, so not below 0 */
  char *words;                  /* what is said if it is not so; NULL: what can be said of the above. A list has its own */
};
struct trusts { int n, room; bool is_lost; struct trust *trust; }; /* lost: there was no memory for one */

/* False: it is not so, whatever the symbols are. True: it is, or the innermost scope remembers that it has to be. */
bool sizes_meet(const char *fn, dim a, dim b);
bool size_meets(const char *fn, weft_status, dim size); /* an integer made of sizes: it is not below 0 */
bool size_holds(const char *words, weft_status, dim size);   /* likewise, of what is asserted of it in somebody's words */
bool slice_meets(const char *fn, weft_status, dim size, dim start, dim length, int64_t step);

bool trusts_are_open(const struct trusts *, const struct dim_table *); /* some are of sizes that only a run will tell */
void trusts_add(struct trusts *, const struct trusts *more);
void trusts_free(struct trusts *);
struct failure *trusts_check(const struct trusts *, const struct dim_table *); /* NULL: all is so, or taken on trust again */

#endif
