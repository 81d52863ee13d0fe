/* jit_link.h -- machine code of PTX by NVIDIA's nvJitLink, where that library is found: the compiler of the driver, but threads do
 * not wait for each other in it. */
#ifndef WEFT_CUDA_JIT_LINK_H
#define WEFT_CUDA_JIT_LINK_H
#include <stdbool.h>
#include <stddef.h>

/* To be freed by mem_free. false: there is no such library, or it does not take the text; the driver may, or says why not. */
bool jit_link_compile(int capability, const char *ptx, void **code, size_t *bytes);
void jit_link_distrust(void); /* the driver has not loaded its code: it is not asked again */

#endif
