/* processor.c -- the table of processors: see processor.h. */
#include "backend/processor.h"
#include <string.h>

static const struct processor processors[] = {
  { "avx512", "the encoder for AVX-512", &backend_x86, &contractor_avx512, SET_BEST },
  { "avx2",   "the encoder for AVX2",    &backend_x86, &contractor_avx2,   SET_AVX2 },
  { "vm",     "the vm",                  &backend_vm,  &contractor_vm,     SET_BEST },
};
enum { N_PROCESSORS = sizeof processors / sizeof *processors };

static bool is_here(const struct processor *p) { return p->backend->available() && p->contractor->available(); }

const struct processor *processor_any(void) { return &processors[N_PROCESSORS - 1]; }

const struct processor *processor_named(const char *name) {
  int i = 0;
  while (name && i < N_PROCESSORS - 1 && strcmp(processors[i].name, name)) i++;
  while (i < N_PROCESSORS - 1 && !is_here(&processors[i])) i++;
  return &processors[i];
}

void processors_watch_forks(void) {
  for (int i = 0; i < N_PROCESSORS; i++) {
    const struct backend *b = processors[i].backend;
    if (b->watch_forks && (!i || b != processors[i - 1].backend)) b->watch_forks();
  }
}
