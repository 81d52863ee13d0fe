/* absent.c -- the back end where the machine is not an x86-64: built instead of the others, it is never available. */
#include "backend/backend.h"
#include "backend/patch.h"

static bool never(void) { return false; }
const struct backend backend_x86 = { .name = "x86", .available = never };
const struct contractor contractor_avx2 = { .name = "avx2", .available = never };
const struct contractor contractor_avx512 = { .name = "avx512", .available = never };
const struct contractor contractor_tiles = { .name = "tiles", .available = never };
void contractor_leave_tiles(bool leaves) { (void)leaves; }
