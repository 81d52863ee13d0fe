/* host_step.c -- steps that call a function of the user's: one problem after the other, on this thread, with no lock held and
 * whatever was enqueued on devices done. Cancelling is looked at before and after each call. Plans with such a step do not run
 * in the background: plan_run puts the job off until somebody waits for it. */
#include "run/device.h"
#include "run/library_step.h"

static struct failure *run_one_by_one(const struct library *l, const struct library_call *c, struct run *r) {
  struct failure *f = device_drain();
  for (int64_t p = 0; !f && p < c->n_problems; p++) {
    if ((f = run_stopped(r->cancel))) break;
    f = l->run(c, p, p + 1, NULL);
    if (!f) f = run_stopped(r->cancel);
  }
  return f;
}

static struct failure *run(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  return library_run(p, i, r, base, run_one_by_one);
}

const struct step_kind step_host = {
  .name = "host", .where = STEP_BY_CALLER, .stores = library_stores, .run = run, .show = library_show,
};
