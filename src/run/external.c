/* external.c -- memory of others as arrays, on the host or on a device, and the order of its streams and weft's own.
 *
 * What others have enqueued for their memory is theirs to wait for: whoever hands it over says by weft_follow what comes before
 * what weft computes, and by weft_lead what comes after it. */
#include "graph/scope.h"
#include "op/operand.h"
#include "run/buffer.h"
#include "run/device.h"

/* The elements before and behind data[0] that strides reach. false: too far to say in bytes. */
static bool reach(const weft_block *b, int64_t *before, int64_t *behind) {
  *before = *behind = 0;
  for (int k = 0; k < b->rank; k++) {
    int64_t far;
    if (__builtin_mul_overflow(b->dims[k] - 1, b->strides[k], &far)) return false;
    if (__builtin_add_overflow(far < 0 ? *before : *behind, far < 0 ? -far : far, far < 0 ? before : behind))
      return false;
  }
  return *before < INT64_MAX / 32 && *behind < INT64_MAX / 32;
}

static struct failure *block_check(const weft_block *b) {
  if (!b) return fail(WEFT_ERR_ARG, scope_origin(), "weft_external: the block is NULL");
  struct failure *why = dtype_check("weft_external", b->dtype);
  if (!why) why = dims_check("weft_external", b->rank, b->dims);
  if (why) return why;
  if (b->rank && !b->strides) return fail(WEFT_ERR_ARG, scope_origin(), "weft_external: strides is NULL");
  if (b->device && !device_numbered(b->device)) return device_missing("weft_external", b->device);
  if (!b->data && dim_count(b->rank, b->dims))
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_external: the data is NULL");
  if ((uintptr_t)b->data % weft_dtype_bytes(b->dtype))
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_external: the data is not aligned for %s",
                weft_dtype_name(b->dtype));
  return NULL;
}

/* What is bound on a device must be memory of it, all along: the driver is asked which blocks it stands in. */
static struct failure *check_there(const weft_block *b, uint64_t at, size_t bytes) {
  const struct device *d = device_numbered(b->device);
  if (!d || !bytes || d->has(d, at, bytes)) return NULL;
  return fail(WEFT_ERR_DEVICE, scope_origin(), "weft_external: the address %#llx is not in the memory of device %d",
              (unsigned long long)at, b->device);
}

static struct buffer *share(const weft_block *b, void *data, size_t bytes, void (*release)(void *), void *ctx) {
  const struct device *d = device_numbered(b->device);
  return d ? buffer_external_in(d, (uint64_t)(uintptr_t)data, bytes, release, ctx) : buffer_external(data, bytes, release, ctx);
}

weft_array *weft_external(const weft_block *b, void (*release)(void *ctx), void *ctx) {
  int64_t before = 0, behind = 0, n = 0, size = 1;
  void *data = NULL;
  struct failure *why = block_check(b);
  if (!why && !reach(b, &before, &behind))
    why = fail(WEFT_ERR_ARG, scope_origin(), "weft_external: strides that reach beyond memory");
  if (!why) {
    size = (int64_t)weft_dtype_bytes(b->dtype), n = dim_count(b->rank, b->dims) ? before + behind + 1 : 0;
    data = n ? (char *)b->data - before * size : b->data;
    why = check_there(b, (uint64_t)(uintptr_t)data, (size_t)(n * size));
  }
  struct buffer *buf = why ? NULL : share(b, data, (size_t)(n * size), release, ctx);
  if (buf) return array_of(value_node(b->dtype, b->rank, b->dims, buf, n ? before : 0, b->strides));
  if (release) release(ctx);
  return why ? array_failed(why) : array_of(NULL);
}

/* ---- Streams ---- */

void *weft_stream(int device) {
  const struct device *d = device_numbered(device);
  return d ? d->stream(d) : NULL;
}

static weft_status order(const char *fn, int device, void *stream, bool is_ours_first) {
  const struct device *d = device_numbered(device);
  if (!device) return WEFT_OK; /* the host's queue is done */
  if (!d) return failure_tell(device_missing(fn, device));
  int how = d->order(d, (uint64_t)(uintptr_t)stream, is_ours_first);
  return how ? report(WEFT_ERR_DEVICE, "%s: %s", fn, d->message()) : WEFT_OK;
}

weft_status weft_follow(int device, void *stream) { return order("weft_follow", device, stream, false); }
weft_status weft_lead(int device, void *stream) { return order("weft_lead", device, stream, true); }
