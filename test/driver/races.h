/* races.h -- which accesses of a launch nothing orders, though one of them stores: WEFT_TEST_DRIVER_RACES=1.
 *
 * The machine runs threads one after the other, so a barrier that is missing often does no harm there; on a GPU it does. Of each byte
 * of shared memory, and of each byte of global memory that the launch stores to, it is known here who stored it last and who has read
 * it since, and of each thread what it knows of the others. A thread learns what others have done where it meets them: at a barrier
 * of the block, of the warp (bar.warp.sync), or at an mbarrier that they have arrived at. Shuffles and votes order nothing, as PTX says.
 * An access that conflicts with one its thread does not know of is a race. Threads of different blocks never meet; where a kernel has
 * atomic operations that give something back, or fences, they are left alone: those are how blocks talk.
 *
 * A store that changes nothing is none, and of atomic operations on the same bytes each may come first. */
#ifndef WEFT_TEST_RACES_H
#define WEFT_TEST_RACES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum race_kind { RACE_READS, RACE_STORES, RACE_COMBINES }; /* combines: atomically */
/* The access before; line: 0 where the bytes have many readers; is_elsewhere: in another block. */
struct race { enum race_kind before; int thread, line; bool is_elsewhere; };

bool races_are_sought(void);
/* A launch of blocks of so many threads; one at a time. talks: its blocks do, among themselves. */
void races_begin_launch(int n_threads, bool talks);
void races_end_launch(void);
void races_begin_block(const void *shared, size_t bytes);
void races_meet_all(void);                            /* all threads of the block meet */
void races_meet_some(int first, uint32_t mask);       /* threads first + l, where bit l is set */
void races_arrive(int thread, const void *mbarrier);  /* thread races_copier(): a bulk copy has come */
void races_await(int thread, const void *mbarrier);
int races_copier(void);                               /* who stores what bulk copies bring */
/* Of an access before it is made: what it is in a race with; false: nothing. `as`: who stores then, the thread itself or the copier. */
bool races_access(int thread, int as, enum race_kind, const void *at, int bytes, int line, struct race *);
#endif
