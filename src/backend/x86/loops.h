/* loops.h -- the loops of a kernel in machine code: what the files that write them ask of each other; gen.h has what others call.
 *
 *   loops.c          serial and par loops, carries, registers that last
 *   x86_extent.c     bounds and addresses
 *   x86_lanes.c      lane loops
 *   x86_copies.c     how many copies of a lane loop's body run side by side
 *   x86_function.c   the function around them
 *
 * Outside lanes counters and addresses are in the frame; a loop without loops inside has its addresses in general registers. */
#ifndef WEFT_X86_LOOPS_H
#define WEFT_X86_LOOPS_H
#include "backend/x86/gen.h"

static const uint8_t pointer_pool[] = { RSI, RDI, R8, R12, R13, R14, R15, RBP }; /* registers for addresses */
_Static_assert(sizeof pointer_pool == POINTERS, "one for each");
enum { FREE_WANTED = 6 }; /* vector registers that a statement may need at once */

/* loops.c */
/* What may go by without a look at the flag: steps inside lanes, steps with loops inside, lanes. */
enum { UNSEEN_STEPS = 4096, UNSEEN_ROWS = 64, UNSEEN_LANES = 1 << 16 };
bool has_fn(const struct gen_loop *);                        /* a fold combines by a function of the kernel */
void unpin_folds(struct gen *, struct gen_loop *);
int count_live(const struct gen *, const struct kir_block *); /* most values of the lanes that are wanted at a time */
void pin_invariants(struct gen *, const struct gen_loop *, int leave_free);
void unpin_invariants(struct gen *);

/* x86_extent.c */
bool may_start_late(const struct gen_loop *);                /* its first index need not be 0 */
void loop_bounds(struct gen *, const struct gen_loop *);
bool step_is_fixed(const struct gen *, const struct gen_access *, int val); /* it depends on sizes and args alone */
void eval_step(struct gen *, const struct gen_access *, int val, int32_t slot);
void eval_pointer(struct gen *, const struct gen_access *, int skip);
int flat_axis(const struct gen *, const struct gen_access *); /* the lane variable, if the pointer leaves it out */
void step_accesses(struct gen *, const struct gen_loop *);

/* x86_lanes.c */
void emit_lane(struct gen *, int loop);
int count_statements(const struct kir_block *);              /* those of blocks inside, too */

/* x86_copies.c */
bool has_turns(const struct gen *, int loop);
int choose_copies(const struct gen *, int loop);

#endif
