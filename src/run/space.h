/* space.h -- the memory of a device, seen from the host: taking it, and moving bytes there and back in order.
 *
 * Knows devices and events, no buffers: those are run/buffer.h, which keeps what it is told here. */
#ifndef WEFT_SPACE_H
#define WEFT_SPACE_H
#include "backend/backend.h"

struct space_copy {                      /* of the bytes of a buffer, in the memory of a device */
  struct space_copy *next;
  const struct device *device;
  uint64_t at;                     /* 0: none is taken */
  int state;                       /* of enum buffer_state. Loading: somebody is about to enqueue it */
  bool is_foreign;                 /* the memory is somebody else's */
  struct event event;              /* resident: it is there once this is past */
};

int space_take(struct space_copy *, size_t bytes);  /* memory for it, of undefined content; DEVICE_OK or why not */
void space_give(struct space_copy *, size_t bytes); /* its memory, once what uses it is done */
/* Enqueues what brings the bytes, from memory of the host or, if they are mapped, of a file. */
int space_fill(struct space_copy *, const void *from, size_t bytes, bool is_mapped);
int space_read(const struct space_copy *, int64_t at, size_t bytes, void *to); /* waits for them */

/* What is enqueued in a queue from now on comes after the event. */
int event_follow(const struct device *, enum queue, const struct event *);
int event_wait(const struct event *);
bool event_is_past(const struct event *);
bool event_is_over(const struct event *);   /* past, or never: its device is lost */
struct event event_now(const struct device *, enum queue);

#endif
