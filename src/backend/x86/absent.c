/* absent.c -- the back end where the machine is not an x86-64: built instead of the others, it is never available. */
#include "backend/backend.h"

static bool never(void) { return false; }
const struct backend backend_x86 = { .name = "x86", .available = never };
