/* space.c -- memory of a device taken and given, and copies there and back: see space.h. */
#include "run/space.h"
#include <string.h>
#include "run/memory.h"

/* An element more than asked for: a kernel may load that of an empty array and not use it. */
static size_t room_for(size_t bytes) { return bytes + 16; }

/* ---- Events ---- */

int event_follow(const struct device *d, enum queue q, const struct event *e) {
  bool is_before = !e->device || (e->device == d && e->queue == q) || e->device->is_past(e);
  return is_before ? DEVICE_OK : d->follow(d, q, e);
}

int event_wait(const struct event *e) { return e->device ? e->device->wait(e) : DEVICE_OK; }
bool event_is_past(const struct event *e) { return !e->device || e->device->is_past(e); }
bool event_is_over(const struct event *e) { return event_is_past(e) || e->device->is_lost(e->device); }

struct event event_now(const struct device *d, enum queue q) { return (struct event){ d, q, d->record(d, q) }; }

/* ---- Copies ---- */

int space_take(struct space_copy *c, size_t bytes) {
  return c->at ? DEVICE_OK : c->device->take(c->device, room_for(bytes), &c->at, &c->event);
}

void space_give(struct space_copy *c, size_t bytes) {
  if (!c->at || c->is_foreign) return;
  if (event_follow(c->device, QUEUE_COMPUTE, &c->event)) (void)event_wait(&c->event); /* an upload that nobody has waited for */
  c->device->give(c->device, c->at, room_for(bytes));
  c->at = 0;
}

enum { PIECE = 4 << 20 }; /* bytes that go through a piece of our memory at a time */

/* Pages of a file may vanish while they are read: that must happen to us, who expect it (guard.h), and not to the driver. */
static int upload_pages(const struct space_copy *c, const uint8_t *from, size_t bytes) {
  size_t most = bytes < PIECE ? bytes : PIECE;
  void *piece = memory_take(most);
  int how = piece ? DEVICE_OK : DEVICE_NO_MEMORY;
  for (size_t at = 0, n; !how && at < bytes; at += n) {
    n = bytes - at < most ? bytes - at : most;
    memcpy(piece, from + at, n);
    how = c->device->upload(c->device, QUEUE_COPY, c->at + at, piece, n);
  }
  if (piece) memory_give(piece, most);
  return how;
}

/* Memory that was there before may still be read by what is enqueued. */
int space_fill(struct space_copy *c, const void *from, size_t bytes, bool is_mapped) {
  const struct device *d = c->device;
  if (c->at) c->event = event_now(d, QUEUE_COMPUTE);
  int how = space_take(c, bytes);
  if (how || !bytes) return how;
  how = event_follow(d, QUEUE_COPY, &c->event);
  if (!how) how = is_mapped ? upload_pages(c, from, bytes) : d->upload(d, QUEUE_COPY, c->at, from, bytes);
  c->event = event_now(d, QUEUE_COPY); /* of what was enqueued, should it have failed half-way */
  return how;
}

int space_read(const struct space_copy *c, int64_t at, size_t bytes, void *to) {
  int how = event_follow(c->device, QUEUE_COPY, &c->event);
  if (how || !bytes) return how;
  return c->device->download(c->device, QUEUE_COPY, to, c->at + (uint64_t)at, bytes);
}
