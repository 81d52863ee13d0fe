/* undo.h -- a part of a leaf that a copy overwrites while later steps may still fail: what stood there, kept for that case.
 *
 * A cache into which a step writes a row stands in place however much is computed with it afterwards: the row that was there is
 * little. If the run fails it is written back, and the leaf is as before; until it is known no process is forked. */
#ifndef WEFT_UNDO_H
#define WEFT_UNDO_H
#include "run/plan.h"

struct undo;

bool undo_may(const struct plan *, const struct gift *); /* all that changes the leaf are copies into a small part of it */
bool undo_plan(const struct plan *, struct run *, const struct gift *); /* room for these parts; false: there is none */
void undo_keep(const struct plan *, struct run *, int step, uint8_t *const base[]); /* before the step runs */
void undo_end(const struct plan *, struct run *, uint8_t *const base[], bool writes_back); /* after the last, or what failed */

#endif
