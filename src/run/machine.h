/* machine.h -- what the machine lets this process have. */
#ifndef WEFT_MACHINE_H
#define WEFT_MACHINE_H
#include <stdint.h>

/* root is prepended to the paths read, "" for the machine itself; tests give a folder with files of their own. */
int machine_cpus(const char *root);       /* affinity mask and cgroup quota; at least 1 */
int64_t machine_memory(const char *root); /* bytes: RAM, or the limit of the cgroup if that is less */

#endif
