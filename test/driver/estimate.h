/* estimate.h -- what a launch would cost a GPU, from three of its blocks of threads: WEFT_TEST_DRIVER_ESTIMATE=1.
 *
 * Nobody computes anything then: other blocks are not run, and memory is that of a GPU, most of it never touched. A line for each
 * launch on stderr says how often a thread steps and asks for memory, and five times in ms: `issue`, instructions of PTX at four a
 * cycle and processor; `cache`, the sectors of 32 bytes that a block touches, each once, at the 5 TB/s that the cache gives which all
 * processors share; `memory`, as many of them as there are in the allocations they stand in, at 4.2 TB/s; `requests`, what warps ask
 * for, half a cycle a sector; `waits`, what a thread does one after the other, for as many rounds as blocks of threads need. The
 * largest is the estimate. It says which launch is far from what its bytes ask for, not how long it takes: nobody looks for how long
 * the caches hold on to what one block has touched for the next, or how many registers a thread takes. */
#ifndef WEFT_TEST_ESTIMATE_H
#define WEFT_TEST_ESTIMATE_H
#include <stdbool.h>
#include <stdint.h>

enum { ESTIMATED_BLOCKS = 3 };
bool estimate_is_on(void);
uint64_t estimate_block(uint64_t n, int which);  /* which of n blocks are run: 0 .. ESTIMATED_BLOCKS - 1 */

/* Of an allocation: bytes of it that blocks of threads have touched, each block once. */
struct area { uint64_t from, bytes; double touched[2]; }; /* loaded, stored */

/* Of one launch. */
struct estimate {
  double instructions, requests, sectors, bytes_once; /* of the blocks that were run */
  double most_steps, most_requests;                   /* of a thread */
  struct touch *touch;                                /* of this block */
  uint64_t n_touch, room;
  struct area *areas;
  int n_areas, last_area;
};
/* Addresses there will be touched. */
void estimate_area(struct estimate *, uint64_t from, uint64_t bytes);
/* The access number `turn` of the instruction at `at` by a warp. */
void estimate_access(struct estimate *, unsigned warp, int at, uint32_t turn, bool stores, uint64_t address, int bytes);
void estimate_bulk(struct estimate *, uint64_t address, int bytes);
void estimate_steps(struct estimate *, uint64_t steps_of_warp);
void estimate_end_block(struct estimate *, int threads);
void estimate_tell(struct estimate *, const char *name, uint64_t blocks, int threads, uint64_t shared_bytes, int n_run);
#endif
