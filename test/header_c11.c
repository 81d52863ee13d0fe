/* The public headers as C11. */
#include "header_use.h"
