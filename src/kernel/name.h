/* name.h -- who is called what in a kernel. Values, buffers and fns share one set of names; a fn has its own for the
 * values of its body: kernel->scope says where names are put. */
#ifndef WEFT_KERNEL_NAME_H
#define WEFT_KERNEL_NAME_H
#include "kernel/kir.h"

enum name_kind { NAME_VALUE, NAME_BUFFER, NAME_FN };
struct name { const char *text; uint32_t hash; int scope; uint8_t kind; int index, copies; };

struct name *name_find(const struct kir_kernel *, const char *text, size_t n, int scope); /* NULL: nobody */
const char *name_put(struct kir_kernel *, const char *text, size_t n, enum name_kind, int index); /* NULL: failed */
const char *name_unique(struct kir_kernel *, const char *wish, enum name_kind, int index); /* the wish, or close to it */
size_t name_tidy(char out[64], const char *wish); /* what may stand in a text; the length, at most 41 */
bool name_is_reserved(const char *text, size_t n); /* a word of the language */

#endif
