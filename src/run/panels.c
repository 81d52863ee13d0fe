/* panels.c -- panels that are kept: see panels.h. The list of a buffer, and how many hold what is in it, are under one lock. */
#include "run/panels.h"
#include <pthread.h>
#include <string.h>
#include "base/mem.h"
#include "run/buffer.h"

pthread_mutex_t panels_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t n_packed;

static bool is_shown(struct buffer *b) {
  const struct device *where;
  return buffer_is_shown(b, &where);
}

/* Lock held. The last reference is gone. */
static void end(struct panels *p) {
  memory_drop(&p->memory);
  mem_free(p);
}

/* Lock held. Those whose memory was wanted leave the list. */
static struct panels *list_of(struct buffer *b) {
  struct panels **at = buffer_panels(b), *p;
  while ((p = *at)) {
    if (memory_has(&p->memory)) { at = &p->next; continue; }
    *at = p->next;
    if (!--p->refs) end(p);
  }
  return *buffer_panels(b);
}

bool panels_may_keep(struct buffer *b, int64_t bytes) {
  pthread_mutex_lock(&panels_mutex);
  bool has_some = list_of(b) != NULL;
  pthread_mutex_unlock(&panels_mutex);
  return !is_shown(b) && (has_some || bytes <= memory_for_hoards());
}

/* Lock held. NULL: there are none of this form. */
static struct panels *find(struct buffer *b, const struct panels_form *form) {
  struct panels *p = list_of(b);
  while (p && memcmp(&p->form, form, sizeof *form)) p = p->next;
  return p && memory_hold(&p->memory) ? p->refs++, p : NULL;
}

static struct panels *make(struct buffer *b, const struct panels_form *form, size_t bytes) {
  struct panels *p = mem_alloc(sizeof *p);
  if (!p) return NULL;
  *p = (struct panels){ .of = b, .form = *form, .bytes = bytes, .version = buffer_version(b), .refs = 1 };
  if ((p->at = memory_borrow(bytes))) return p;
  mem_free(p);
  return NULL;
}

struct panels *panels_hold(struct buffer *b, const struct panels_form *form, size_t bytes) {
  pthread_mutex_lock(&panels_mutex);
  struct panels *p = find(b, form);
  pthread_mutex_unlock(&panels_mutex);
  return p ? p : make(b, form, bytes);
}

/* Who shows the buffer to others, or writes to it, changes its version first and then has its panels forgotten: either that is seen
 * here, or these are in the list by then. */
void panels_keep(struct panels *p) {
  p->is_packed = true;
  pthread_mutex_lock(&panels_mutex);
  struct panels *same = find(p->of, &p->form), **list = buffer_panels(p->of);
  n_packed++;
  if (same) memory_let_go(&same->memory), same->refs--; /* somebody was faster */
  else if (!is_shown(p->of) && buffer_version(p->of) == p->version && memory_hoard(&p->memory, p->at, p->bytes))
    p->next = *list, *list = p, p->refs++;
  pthread_mutex_unlock(&panels_mutex);
}

void panels_let_go(struct panels *p) {
  if (!p) return;
  pthread_mutex_lock(&panels_mutex);
  if (p->memory.at) memory_let_go(&p->memory);
  else memory_return(p->at, p->bytes);
  if (!--p->refs) end(p);
  pthread_mutex_unlock(&panels_mutex);
}

void panels_forget(struct buffer *b) {
  pthread_mutex_lock(&panels_mutex);
  struct panels **list = buffer_panels(b), *next;
  for (struct panels *p = *list; p; p = next) {
    next = p->next;
    if (!--p->refs) end(p);
  }
  *list = NULL;
  pthread_mutex_unlock(&panels_mutex);
}

uint64_t panels_packed(void) {
  pthread_mutex_lock(&panels_mutex);
  uint64_t n = n_packed;
  pthread_mutex_unlock(&panels_mutex);
  return n;
}
